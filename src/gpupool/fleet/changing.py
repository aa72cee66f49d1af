"""Writing what becomes of nodes and cards: rows, and with each change its event, its span, its notice to the scheduler.

In the caller's transaction. What is to change was decided before: by an admin, by a card's health, or by comparing what
a node says it has with what was known of it (`registration`). What sits on a card is `allocations`' to write.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from gpupool.base.errors import StillInUse, WrongState
from gpupool.fleet import spans
from gpupool.fleet.lookup import agent_cards, name_of
from gpupool.fleet.registration import BEFORE_LOST, Changes, compare
from gpupool.fleet.tables import devices, nodes
from gpupool.fleet.views import device_name
from gpupool.model.device import DeviceState
from gpupool.store.database import Write
from gpupool.wire.fleet import DeviceSample, NodeIn

# Nodes -----------------------------------------------------------------------------------------------


def write_node(write: Write, name: str, known: Any, body: NodeIn) -> Any:
    """A node's row as it says it is; `known` is the row there was, or None. The row as it is now."""
    said = {
        "labels": body.labels,
        "topology": body.topology,
        "facts": body.facts,
        "simulated": body.simulated,
        "agent": body.agent or name,
    }
    if known is None:
        write.execute(nodes.insert().values(name=name, ready=False, last_seen_ns=write.now_ns, **said))
        write.event("node.registered", name, data={"devices": len(body.devices), "simulated": body.simulated})
        write.announce("fleet")
        write.touch_ledger()
    else:
        _update_node(write, known, said)
    return write.execute(sa.select(nodes).where(nodes.c.name == name)).one()


def _update_node(write: Write, row: Any, said: dict[str, Any]) -> None:
    differing = {key: value for key, value in said.items() if getattr(row, key) != value}
    values: dict[str, Any] = {"last_seen_ns": write.now_ns, **differing}
    if differing:
        values["generation"] = row.generation + 1
        write.announce("fleet")
        write.touch_ledger()
    write.execute(nodes.update().where(nodes.c.id == row.id).values(**values))


def set_ready(write: Write, rows: Sequence[Any], ready: bool) -> None:
    if rows:
        write.execute(nodes.update().where(nodes.c.id.in_([row.id for row in rows])).values(ready=ready))
        write.touch_ledger()
        write.announce("fleet")


# The cards that a node shows -------------------------------------------------------------------------


def write_cards(write: Write, node: Any, body: NodeIn) -> None:
    """A node's cards as it says they are. Raises Conflict, StillInUse; then nothing may be kept of it."""
    ours = devices.c.node_id == node.id
    rows = write.execute(sa.select(devices).where(sa.or_(ours, devices.c.uuid.in_([d.uuid for d in body.devices]))))
    found = rows.all()
    known = [row for row in found if row.node_id == node.id]
    changes = compare(node.id, known, [row for row in found if row.node_id != node.id], body)
    if changes:
        before = {row.id: row for row in found}
        _apply(write, before, changes)
        _tell(write, node, before, changes)


def _tell(write: Write, node: Any, before: dict[int, Any], changes: Changes) -> None:
    """Events, spans and wake-ups for cards that are new or changed."""
    touched = sa.or_(devices.c.id.in_(changes.changed), devices.c.uuid.in_([n["uuid"] for n in changes.new]))
    rows = write.execute(sa.select(devices).where(touched).order_by(devices.c.idx)).all()
    for row in rows:
        for kind, data in _events(row, before.get(row.id), changes):
            write.event(kind, device_name(node.name, row.idx), data={"uuid": row.uuid, **data})
    _recount(write, rows)


def _apply(write: Write, before: dict[int, Any], changes: Changes) -> None:
    """Write cards. Indexes that change are vacated first: two cards may have swapped theirs."""
    moving = [row_id for row_id, values in changes.changed.items() if "idx" in values or "node_id" in values]
    for row_id in moving:
        write.execute(devices.update().where(devices.c.id == row_id).values(idx=-row_id))
    for row_id, values in changes.changed.items():
        row = before[row_id]
        fixed = {"idx": row.idx} if row_id in moving else {}
        statement = devices.update().where(devices.c.id == row_id)
        write.execute(statement.values(**{**fixed, **values, "generation": row.generation + 1}))
    if changes.new:
        write.execute(devices.insert(), list(changes.new))


def _events(row: Any, before: Any, changes: Changes) -> list[tuple[str, dict[str, Any]]]:
    """What is to be told of one card: it is new, vanished, came back, or its health changed."""
    if before is None:
        cut = {"profiles": row.facts.get("profiles", [])} if row.facts.get("partitioned") else {}
        facts = {"model": row.model, "memory_bytes": row.memory_bytes, "state": row.state, **cut}
        return [("device.added", facts)]
    if row.id in changes.lost:
        return [("device.lost", {"shares": row.shares, "state": before.state})]
    told: list[tuple[str, dict[str, Any]]] = []
    if row.id in changes.returned:
        told.append(("device.added", {"model": row.model, "state": row.state, "returned": True}))
    if (row.health, row.health_reason) != (before.health, before.health_reason):
        change = {"health": row.health, "health_reason": row.health_reason, "before": before.health}
        told.append(("device.health", change))
    return told


# Health ----------------------------------------------------------------------------------------------


def tells_health(row: Any, sample: DeviceSample) -> bool:
    """Whether a sample says something else of the card's health than its row."""
    told = sample.health is not None and row.state != DeviceState.LOST
    return told and (row.health, row.health_reason) != (sample.health, sample.health_reason[:200])


def write_health(write: Write, agent: str, samples: Mapping[str, DeviceSample]) -> None:
    """What an agent's cards say of their health, by uuid, where that is another than their rows'."""
    rows = agent_cards(write.connection, agent, list(samples))
    changed = [row for uuid, row in rows.items() if tells_health(row, samples[uuid])]
    for row in changed:
        sample = samples[row.uuid]
        values = {"health": sample.health, "health_reason": sample.health_reason[:200]}
        write.execute(devices.update().where(devices.c.id == row.id).values(generation=row.generation + 1, **values))
        write.event("device.health", name_of(row), data={"uuid": row.uuid, "before": row.health, **values})
    _recount(write, _read_anew(write, changed))


# States ----------------------------------------------------------------------------------------------


def refuse_used(rows: Iterable[Any]) -> None:
    """Raises StillInUse where shares are on one of these cards."""
    used = [row for row in rows if row.shares]
    if used:
        shares = sum(row.shares for row in used)
        listed = ", ".join(f"{name_of(row)} ({row.shares})" for row in used[:8]) + (" …" if len(used) > 8 else "")
        raise StillInUse(
            f"{shares} {'share is' if shares == 1 else 'shares are'} on {listed}; nothing was released",
            hint="stop their jobs, or let them finish first: gpupool release --drain",
            shares=shares,
            devices=[name_of(row) for row in used],
        )


def refuse_clusters(rows: Iterable[Any]) -> None:
    """Raises WrongState for nodes, or cards, of a cluster: these are the cluster's to change."""
    found = [
        row for row in rows if (row.of_cluster if hasattr(row, "of_cluster") else row.cluster_generation is not None)
    ]
    if found:
        named = name_of(found[0]) if hasattr(found[0], "of_cluster") else found[0].name
        raise WrongState(f"{named} belongs to a cluster, which is only metered here", hint="kubectl gpupool adopt NODE")


def bring(write: Write, rows: Iterable[Any], wanted: DeviceState, event: str) -> None:
    """Bring cards into a state; a lost one remembers it for its return."""
    changed = [row for row in rows if _brought(write, row, wanted)]
    for row in changed:
        write.event(event, name_of(row), data={"uuid": row.uuid, "shares": row.shares})
    if changed:
        _recount(write, _read_anew(write, changed))


def _brought(write: Write, row: Any, wanted: DeviceState) -> bool:
    """Write one card's state; False when it is in it already."""
    values: dict[str, Any] = {"state": str(wanted)}
    if row.state == DeviceState.LOST:
        values = {"facts": {**row.facts, BEFORE_LOST: str(wanted)}}
    if all(getattr(row, key) == value for key, value in values.items()):
        return False
    write.execute(devices.update().where(devices.c.id == row.id).values(**values, generation=row.generation + 1))
    return True


def _recount(write: Write, rows: Sequence[Any]) -> None:
    """Count these cards by what their rows say now, and have the scheduler look at them again."""
    spans.sync(write, rows)
    write.announce("fleet")
    write.touch_ledger()


def _read_anew(write: Write, rows: Sequence[Any]) -> Sequence[Any]:
    return write.execute(sa.select(devices).where(devices.c.id.in_([row.id for row in rows]))).all()
