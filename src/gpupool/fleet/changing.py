"""Write what becomes of nodes and cards: rows, and with each change its event, span and notice.

In the caller's transaction. What is to change was decided before: by an admin, by a card's health,
or by comparing what a node says it has with what was known of it (`registration`). What sits on a
card is `allocations`' to write.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from gpupool.base.errors import StillInUse, WrongState
from gpupool.fleet import spans
from gpupool.fleet.lookup import agent_cards, name_of
from gpupool.fleet.registration import BEFORE_LOST, RegistrationChanges, compare_devices
from gpupool.fleet.tables import devices, nodes
from gpupool.fleet.views import device_name
from gpupool.model.device import DeviceState
from gpupool.store.database import WriteTransaction
from gpupool.wire.fleet import NodeIn
from gpupool.wire.samples import DeviceSample

# Nodes
# -----------------------------------------------------------------------------------------------


def write_node(write: WriteTransaction, name: str, known: Any, body: NodeIn) -> Any:
    """Write a node's row as it says it is; return the row as it is now.

    Args:
        known: The row there was, or None.
    """
    said = {
        "labels": body.labels,
        "topology": body.topology,
        "facts": body.facts,
        "simulated": body.simulated,
        "agent": body.agent or name,
    }
    if known is None:
        write.execute(
            nodes.insert().values(name=name, ready=False, last_seen_ns=write.now_ns, **said)
        )
        write.event(
            "node.registered",
            name,
            data={"devices": len(body.devices), "simulated": body.simulated},
        )
        write.announce("fleet")
        write.touch_ledger()
    else:
        _update_node(write, known, said)
    return write.execute(sa.select(nodes).where(nodes.c.name == name)).one()


def _update_node(write: WriteTransaction, row: Any, said: dict[str, Any]) -> None:
    differing = {}
    for key, value in said.items():
        if getattr(row, key) != value:
            differing[key] = value
    values: dict[str, Any] = {"last_seen_ns": write.now_ns, **differing}
    if differing:
        values["generation"] = row.generation + 1
        write.announce("fleet")
        write.touch_ledger()
    # last_seen_ns alone is no change of the node: its generation stays, and no cycle is woken.
    write.execute(nodes.update().where(nodes.c.id == row.id).values(**values))


def set_ready(write: WriteTransaction, rows: Sequence[Any], ready: bool) -> None:
    if rows:
        write.execute(nodes.update().where(nodes.c.id.in_(_list_ids(rows))).values(ready=ready))
        write.touch_ledger()
        write.announce("fleet")


# The cards that a node shows
# -------------------------------------------------------------------------


def write_cards(write: WriteTransaction, node: Any, body: NodeIn) -> None:
    """Write a node's cards as it says they are.

    Raises:
        WriteConflict: A card belongs to another node. The caller must roll back, as below.
        StillInUse: A card's size changed under its shares.
    """
    ours = devices.c.node_id == node.id
    uuids = [device.uuid for device in body.devices]
    query = sa.select(devices).where(sa.or_(ours, devices.c.uuid.in_(uuids)))
    before: dict[int, Any] = {}
    known: list[Any] = []
    strangers: list[Any] = []
    for row in write.execute(query):
        before[row.id] = row
        if row.node_id == node.id:
            known.append(row)
        else:
            strangers.append(row)
    changes = compare_devices(node.id, known, strangers, body)
    if changes:
        _write_changes(write, before, changes)
        _announce_cards(write, node, before, changes)


def _announce_cards(
    write: WriteTransaction, node: Any, before: dict[int, Any], changes: RegistrationChanges
) -> None:
    """Write events, spans and wake-ups for cards that are new or changed."""
    added = [card["uuid"] for card in changes.new]  # their ids were made by the insert
    touched = sa.or_(devices.c.id.in_(changes.changed), devices.c.uuid.in_(added))
    rows = write.execute(sa.select(devices).where(touched).order_by(devices.c.idx)).all()
    for row in rows:
        for kind, data in _list_events(row, before.get(row.id), changes):
            write.event(kind, device_name(node.name, row.idx), data={"uuid": row.uuid, **data})
    _resync_cards(write, rows)


def _write_changes(
    write: WriteTransaction, before: dict[int, Any], changes: RegistrationChanges
) -> None:
    """Write cards. Indexes that change are vacated first: two cards may have swapped theirs."""
    moving = set()
    for row_id, values in changes.changed.items():
        if "idx" in values or "node_id" in values:
            moving.add(row_id)
            # (node, index) is unique at every statement; no card has a negative index.
            write.execute(devices.update().where(devices.c.id == row_id).values(idx=-row_id))
    for row_id, values in changes.changed.items():
        row = before[row_id]
        fixed = {"idx": row.idx} if row_id in moving else {}
        statement = devices.update().where(devices.c.id == row_id)
        write.execute(statement.values(**{**fixed, **values, "generation": row.generation + 1}))
    if changes.new:
        write.execute(devices.insert(), list(changes.new))


def _list_events(
    row: Any, before: Any, changes: RegistrationChanges
) -> list[tuple[str, dict[str, Any]]]:
    """List what is to be told of one card: it is new, vanished, came back, or changed health."""
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


# Health
# ----------------------------------------------------------------------------------------------


def tells_health(row: Any, sample: DeviceSample) -> bool:
    """Return whether a sample says something else of the card's health than its row."""
    told = sample.health is not None and row.state != DeviceState.LOST
    return told and (row.health, row.health_reason) != (sample.health, sample.health_reason[:200])


def write_health(write: WriteTransaction, agent: str, samples: Mapping[str, DeviceSample]) -> None:
    """Write what an agent's cards say of their health, by uuid, where their rows differ."""
    rows = agent_cards(write.connection, agent, list(samples))
    changed = []
    for uuid, row in rows.items():
        sample = samples[uuid]
        if not tells_health(row, sample):
            continue
        changed.append(row)
        values = {"health": sample.health, "health_reason": sample.health_reason[:200]}
        write.execute(
            devices.update()
            .where(devices.c.id == row.id)
            .values(generation=row.generation + 1, **values)
        )
        write.event(
            "device.health", name_of(row), data={"uuid": row.uuid, "before": row.health, **values}
        )
    _resync_cards(write, _read_anew(write, changed))


# States
# ----------------------------------------------------------------------------------------------


def refuse_used(rows: Iterable[Any]) -> None:
    """Raise StillInUse where shares are on one of these cards."""
    shares = 0
    cards = []
    names = []
    for row in rows:
        if row.shares:
            shares += row.shares
            cards.append(name_of(row))
            names.append(f"{name_of(row)} ({row.shares})")
    if cards:
        # Eight fit two lines of a terminal; `details` has all of them.
        listed = ", ".join(names[:8]) + (" …" if len(names) > 8 else "")
        raise StillInUse(
            f"{shares} {'share is' if shares == 1 else 'shares are'} on {listed}; nothing was "
            "released",
            hint="stop their jobs, or let them finish first: gpupool release --drain",
            shares=shares,
            devices=cards,
        )


def refuse_clusters(rows: Iterable[Any]) -> None:
    """Raise WrongState for nodes, or cards, of a cluster: these are the cluster's to change."""
    for row in rows:
        is_card = hasattr(row, "of_cluster")  # a label that `select_cards` adds
        if row.of_cluster if is_card else row.cluster_generation is not None:
            named = name_of(row) if is_card else row.name
            raise WrongState(
                f"{named} belongs to a cluster, which is only metered here",
                hint="kubectl gpupool adopt NODE",
            )


def set_device_state(
    write: WriteTransaction, rows: Iterable[Any], wanted: DeviceState, event: str
) -> None:
    """Bring cards into a state; a lost one remembers it for its return."""
    changed = []
    for row in rows:
        if _write_state(write, row, wanted):
            changed.append(row)
            write.event(event, name_of(row), data={"uuid": row.uuid, "shares": row.shares})
    if changed:
        _resync_cards(write, _read_anew(write, changed))


def _write_state(write: WriteTransaction, row: Any, wanted: DeviceState) -> bool:
    """Write one card's state; False when it is in it already."""
    values: dict[str, Any] = {"state": str(wanted)}
    if row.state == DeviceState.LOST:
        values = {"facts": {**row.facts, BEFORE_LOST: str(wanted)}}
    if all(getattr(row, key) == value for key, value in values.items()):
        return False
    write.execute(
        devices.update()
        .where(devices.c.id == row.id)
        .values(**values, generation=row.generation + 1)
    )
    return True


def _resync_cards(write: WriteTransaction, rows: Sequence[Any]) -> None:
    """Count these cards by what their rows say now, and have the scheduler look at them again."""
    spans.sync_spans(write, rows)
    write.announce("fleet")
    write.touch_ledger()


def _read_anew(write: WriteTransaction, rows: Sequence[Any]) -> Sequence[Any]:
    return write.execute(sa.select(devices).where(devices.c.id.in_(_list_ids(rows)))).all()


def _list_ids(rows: Sequence[Any]) -> list[int]:
    return [row.id for row in rows]
