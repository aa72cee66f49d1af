"""The pool's cards: which there are, which may be handed out, how they are.

Writes nodes, devices and their spans, and is the only one that does; what sits on a card (used_milli,
used_bytes, shares) is written by `allocations` with its seats. Decides nothing about placement and touches no
hardware: agents tell it what they see. Usage and heartbeats are kept in memory only; they are news, not truth.
An agent serves one node under the node's own name, or several under its own; heartbeats, readiness and samples
are the agent's, and may be told under its name or that of any of its nodes.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import sqlalchemy as sa

from gpupool.base.errors import BadOption, Conflict, NotFound, StillInUse, WrongState
from gpupool.base.ids import check_name
from gpupool.fleet import spans
from gpupool.fleet.lookup import (
    agent_cards,
    cards,
    find_all,
    find_device,
    find_node,
    name_of,
    position,
    present,
    served,
)
from gpupool.fleet.registration import BEFORE_LOST, Changes, check_body, compare
from gpupool.fleet.tables import devices, nodes
from gpupool.fleet.views import Observation, device_name, device_out, node_out
from gpupool.model.device import DeviceState
from gpupool.model.tenant import Principal
from gpupool.store.database import Store, Write
from gpupool.wire.common import Page
from gpupool.wire.fleet import DeviceOut, DeviceSample, NodeIn, NodeOut, UsageOut

HEARTBEAT_SECONDS = 25
SILENT_AFTER_SECONDS = 3 * HEARTBEAT_SECONDS
USAGE_FRESH_SECONDS = 120
"""A sample older than this says nothing of now."""
MAX_LIMIT = 1000
_NS = 10**9


class Fleet:
    """Thread-safe. Every change is one transaction; announces "fleet" when what can be placed changes."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._agents: dict[str, str] = {}  # which agent serves each node
        self._seen: dict[str, int] = {}  # by agent
        self._awaited: dict[str, int] = {}  # since when each agent's next heartbeat is awaited
        self._silent: set[str] = set()
        self._observed: dict[str, Observation] = {}

    # Nodes ---------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """A server starts: no node counts as ready until its agent has told what became of every job."""
        with self._store.write() as write:
            write.execute(nodes.update().where(nodes.c.ready).values(ready=False))
            agents = {row.name: row.agent for row in write.execute(sa.select(nodes.c.name, nodes.c.agent))}
        with self._lock:
            self._agents = agents
            self._awaited = dict.fromkeys(agents.values(), self._store.clock.now_ns())

    def register(self, name: str, body: NodeIn, principal: Principal) -> NodeOut:
        """Take in what a node's agent says it has. The same again changes nothing but `last_seen_ns`.

        New cards start observed; simulated ones adopted where `body.adopt`. A card that is no longer named is
        lost, one that returns is what it was. Raises Conflict, StillInUse, NotAllowed; then nothing changed.
        """
        check_name(name, "node name")
        check_body(body)
        with self._store.write() as write:
            node = self._upsert_node(write, name, body, principal)
            self._write_cards(write, node, body)
        with self._lock:
            self._agents[name] = body.agent or name
        self.seen(name)
        return self.node(name)

    def agent_of(self, name: str) -> str:
        """The agent that serves a node; any other name is an agent's own."""
        with self._lock:
            return self._agents.get(name, name)

    def seen(self, name: str) -> None:
        """A known agent's heartbeat. Costs a dictionary entry; nodes that were silent are ready again."""
        now_ns, agent = self._store.clock.now_ns(), self.agent_of(name)
        with self._lock:
            self._seen[agent] = self._awaited[agent] = now_ns
            back = agent in self._silent
            self._silent.discard(agent)
        if back:
            self._make_ready(agent)

    def mark_ready(self, name: str) -> None:
        """The agent has told everything its nodes had. Idempotent. Raises NotFound for an unknown agent."""
        agent = self.agent_of(name)
        with self._store.read() as connection:
            rows = served(connection, agent)
        if not rows:
            raise NotFound(f"no agent is named {agent[:80]!r}", hint="an agent registers its nodes first")
        if not all(row.ready for row in rows):
            self._make_ready(agent)

    def _make_ready(self, agent: str) -> None:
        with self._store.write() as write:
            unready = [row for row in served(write.connection, agent) if not row.ready]
            _set_ready(write, unready, True)
            for row in unready:
                write.event("node.ready", row.name)

    def check_silence(self) -> float:
        """Mark the nodes of agents that missed three heartbeats; seconds until the next one can be due."""
        now_ns, patience_ns = self._store.clock.now_ns(), SILENT_AFTER_SECONDS * _NS
        with self._lock:
            awaited = {n: at for n, at in self._awaited.items() if n not in self._silent}
            overdue = [n for n, at in awaited.items() if now_ns - at >= patience_ns]
            self._silent.update(overdue)
            due = [at for n, at in awaited.items() if n not in self._silent]
        for agent in overdue:
            self._mark_silent(agent)
        return max(0.001, (min(due, default=now_ns) + patience_ns - now_ns) / _NS)

    def is_silent(self, name: str) -> bool:
        agent = self.agent_of(name)
        with self._lock:
            return agent in self._silent

    def node(self, name: str) -> NodeOut:
        with self._store.read() as connection:
            row = find_node(connection, name)
            count = sa.select(sa.func.count()).where(devices.c.node_id == row.id, present())
            return node_out(row, connection.execute(count).scalar_one(), self._last_seen(row.agent))

    def list_nodes(self, *, after: str | None = None, limit: int = 100) -> Page[NodeOut]:
        """In the order of their first registration."""
        counts = sa.select(sa.func.count()).where(devices.c.node_id == nodes.c.id, present()).scalar_subquery()
        query = sa.select(nodes, counts.label("device_count")).order_by(nodes.c.id).limit(_limit(limit) + 1)
        with self._store.read() as connection:
            if after is not None:
                query = query.where(nodes.c.id > find_node(connection, after).id)
            rows = connection.execute(query).all()
        shown = [node_out(row, row.device_count, self._last_seen(row.agent)) for row in rows[:limit]]
        return Page[NodeOut](items=shown, next=shown[-1].name if len(rows) > limit else None)

    def describe_simulated(self) -> bool | None:
        """Whether the pool's nodes are simulated; None when some are and some are not."""
        with self._store.read() as connection:
            kinds = connection.execute(sa.select(nodes.c.simulated).distinct()).scalars().all()
        return None if len(kinds) > 1 else bool(kinds and kinds[0])

    def counts(self) -> tuple[int, int]:
        """(nodes, cards that are there)."""
        count = sa.func.count
        with self._store.read() as connection:
            known = connection.execute(sa.select(count()).select_from(nodes)).scalar_one()
            return known, connection.execute(sa.select(count()).where(present())).scalar_one()

    # Cards ---------------------------------------------------------------------------------------------

    def device(self, text: str, principal: Principal) -> DeviceOut:
        """One card, by uuid, `node:index`, or the bare index where the pool has one node. Raises NotFound."""
        with self._store.read() as connection:
            return self._out(find_device(connection, text), principal)

    def list_devices(
        self,
        principal: Principal,
        *,
        after: str | None = None,
        limit: int = 100,
        model: str | None = None,
        state: str | None = None,
        node: str | None = None,
        health: str | None = None,
    ) -> Page[DeviceOut]:
        """By node, then index. `after` is the name or uuid of the last card of the page before."""
        query = cards().order_by(devices.c.node_id, devices.c.idx).limit(_limit(limit) + 1)
        wanted = ((devices.c.model, model), (devices.c.state, state), (devices.c.health, health))
        query = query.where(*(column == value for column, value in wanted if value is not None))
        with self._store.read() as connection:
            if node is not None:
                query = query.where(devices.c.node_id == find_node(connection, node).id)
            if after is not None:
                node_id, index = position(connection, after)
                later = sa.and_(devices.c.node_id == node_id, devices.c.idx > index)
                query = query.where(sa.or_(devices.c.node_id > node_id, later))
            rows = connection.execute(query).all()
        shown = [self._out(row, principal) for row in rows[:limit]]
        return Page[DeviceOut](items=shown, next=shown[-1].name if len(rows) > limit else None)

    def adopt(self, names: Sequence[str], principal: Principal) -> list[DeviceOut]:
        """Let the pool hand these cards out: all of them or none. An adopted one stays so. Raises WrongState."""
        with self._store.write() as write:
            rows = find_all(write.connection, names)
            missing = [name_of(row) for row in rows if row.state == DeviceState.LOST]
            if missing:
                raise WrongState(
                    f"{', '.join(missing)}: not there now (lost); nothing was adopted",
                    hint="gpupool gpus shows which cards are there",
                )
            _move(write, rows, DeviceState.ADOPTED, "device.adopted")
        return self._again(rows, principal)

    def release(self, names: Sequence[str], drain: bool, principal: Principal) -> list[DeviceOut]:
        """Stop handing these cards out: all of them or none. Raises StillInUse while shares are on one.

        With `drain`, a card with shares takes no new ones and is released when the last is given back.
        """
        with self._store.write() as write:
            rows = find_all(write.connection, names)
            if not drain:
                _refuse_used(rows)
            _move(write, [row for row in rows if row.shares], DeviceState.DRAINING, "device.draining")
            _move(write, [row for row in rows if not row.shares], DeviceState.OBSERVED, "device.released")
        return self._again(rows, principal)

    def settle(self, write: Write, device_ids: Collection[int]) -> None:
        """Seats on these cards were given back in this transaction: finish what waited for the last of them.

        A draining card without seats is released; one that vanished under its seats has no capacity any more.
        """
        waiting = devices.c.state.in_([DeviceState.DRAINING, DeviceState.LOST])
        rows = write.execute(cards().where(devices.c.id.in_(device_ids), waiting, devices.c.shares == 0)).all()
        drained = [row for row in rows if row.state == DeviceState.DRAINING]
        _move(write, drained, DeviceState.OBSERVED, "device.released")
        spans.sync(write, [row for row in rows if row.state == DeviceState.LOST])

    def observe(self, name: str, samples: Sequence[DeviceSample]) -> None:
        """What an agent's cards do now. Usage is remembered; a change of health is written, with an event.

        Samples of cards that are not on its nodes are ignored.
        """
        if not samples:
            return
        agent = self.agent_of(name)
        with self._store.read() as connection:
            known = agent_cards(connection, agent, [s.uuid for s in samples])
        now_ns = self._store.clock.now_ns()
        told = {sample.uuid: sample for sample in samples if sample.uuid in known}
        with self._lock:
            for uuid, sample in told.items():
                if sample.usage != UsageOut() or sample.health is None:  # news of health alone says nothing of use
                    self._observed[uuid] = Observation(now_ns, sample.usage, tuple(sample.unmanaged))
        if any(_healthier(known[uuid], sample) for uuid, sample in told.items()):
            self._write_health(agent, told)

    def usage(self, uuid: str) -> Observation | None:
        """The latest sample of a card, unless it is too old to say anything of now."""
        with self._lock:
            seen = self._observed.get(uuid)
        fresh = seen and self._store.clock.now_ns() - seen.received_ns <= USAGE_FRESH_SECONDS * _NS
        return seen if fresh else None

    # Inside --------------------------------------------------------------------------------------------

    def _out(self, row: Any, principal: Principal) -> DeviceOut:
        return device_out(row, row.node_name, self.usage(row.uuid), names_shown=principal.sees_all)

    def _again(self, rows: Sequence[Any], principal: Principal) -> list[DeviceOut]:
        with self._store.read() as connection:
            found = {r.id: r for r in connection.execute(cards().where(devices.c.id.in_([r.id for r in rows])))}
        return [self._out(found[row.id], principal) for row in rows]

    def _last_seen(self, agent: str) -> int:
        with self._lock:
            return self._seen.get(agent, 0)

    def _upsert_node(self, write: Write, name: str, body: NodeIn, principal: Principal) -> Any:
        said = {
            "labels": body.labels,
            "topology": body.topology,
            "facts": body.facts,
            "simulated": body.simulated,
            "agent": body.agent or name,
        }
        row = write.execute(sa.select(nodes).where(nodes.c.name == name)).one_or_none()
        if row is None:
            write.execute(nodes.insert().values(name=name, ready=False, last_seen_ns=write.now_ns, **said))
            write.event("node.registered", name, data={"devices": len(body.devices), "simulated": body.simulated})
            write.announce("fleet")
            write.touch_ledger()
        else:
            self._check_agent(row, body.agent or name, principal)
            self._update_node(write, row, said)
        return write.execute(sa.select(nodes).where(nodes.c.name == name)).one()

    def _check_agent(self, row: Any, agent: str, principal: Principal) -> None:
        """A node stays with its agent while that one is heard; an admin may hand it over."""
        if row.agent != agent and not principal.sees_all and not self.is_silent(row.agent):
            raise Conflict(
                f"node {row.name} is served by agent {row.agent}",
                hint=f"stop that agent; it counts as gone {SILENT_AFTER_SECONDS} s after its last word",
            )

    def _update_node(self, write: Write, row: Any, said: dict[str, Any]) -> None:
        differing = {key: value for key, value in said.items() if getattr(row, key) != value}
        values: dict[str, Any] = {"last_seen_ns": write.now_ns, **differing}
        if differing:
            values["generation"] = row.generation + 1
            write.announce("fleet")
            write.touch_ledger()
        write.execute(nodes.update().where(nodes.c.id == row.id).values(**values))

    def _write_cards(self, write: Write, node: Any, body: NodeIn) -> None:
        ours = devices.c.node_id == node.id
        rows = write.execute(sa.select(devices).where(sa.or_(ours, devices.c.uuid.in_([d.uuid for d in body.devices]))))
        found = rows.all()
        known = [row for row in found if row.node_id == node.id]
        changes = compare(node.id, known, [row for row in found if row.node_id != node.id], body)
        if changes:
            _apply(write, {row.id: row for row in found}, changes)
            self._tell_cards(write, node, {row.id: row for row in found}, changes)

    def _tell_cards(self, write: Write, node: Any, before: dict[int, Any], changes: Changes) -> None:
        """Events, spans and wake-ups for cards that are new or changed."""
        touched = sa.or_(devices.c.id.in_(changes.changed), devices.c.uuid.in_([n["uuid"] for n in changes.new]))
        rows = write.execute(sa.select(devices).where(touched).order_by(devices.c.idx)).all()
        for row in rows:
            for kind, data in _events(row, before.get(row.id), changes):
                write.event(kind, device_name(node.name, row.idx), data={"uuid": row.uuid, **data})
        spans.sync(write, rows)
        write.announce("fleet")
        write.touch_ledger()

    def _write_health(self, agent: str, samples: dict[str, DeviceSample]) -> None:
        with self._store.write() as write:
            rows = agent_cards(write.connection, agent, list(samples))
            changed = [row for uuid, row in rows.items() if _healthier(row, samples[uuid])]
            for row in changed:
                sample = samples[row.uuid]
                values = {"health": sample.health, "health_reason": sample.health_reason[:200]}
                write.execute(
                    devices.update().where(devices.c.id == row.id).values(generation=row.generation + 1, **values)
                )
                data = {"uuid": row.uuid, "before": row.health, **values}
                write.event("device.health", name_of(row), data=data)
            ids = [row.id for row in changed]
            spans.sync(write, write.execute(sa.select(devices).where(devices.c.id.in_(ids))).all())
            write.announce("fleet")
            write.touch_ledger()

    def _mark_silent(self, agent: str) -> None:
        with self._store.write() as write:
            if self.is_silent(agent):  # it may have come back meanwhile
                rows = served(write.connection, agent)
                _set_ready(write, rows, False)
                for row in rows:
                    write.event("node.silent", row.name, data={"after_seconds": SILENT_AFTER_SECONDS})


def _refuse_used(rows: Sequence[Any]) -> None:
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


def _limit(limit: int) -> int:
    if not 1 <= limit <= MAX_LIMIT:
        raise BadOption(f"limit {limit} is not between 1 and {MAX_LIMIT}", hint=f"ask for at most {MAX_LIMIT} a page")
    return limit


def _set_ready(write: Write, rows: Sequence[Any], ready: bool) -> None:
    if rows:
        write.execute(nodes.update().where(nodes.c.id.in_([row.id for row in rows])).values(ready=ready))
        write.touch_ledger()
        write.announce("fleet")


def _healthier(row: Any, sample: DeviceSample) -> bool:
    """Whether a sample says something else of the card's health than its row."""
    told = sample.health is not None and row.state != DeviceState.LOST
    return told and (row.health, row.health_reason) != (sample.health, sample.health_reason[:200])


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


def _move(write: Write, rows: Iterable[Any], wanted: DeviceState, event: str) -> None:
    """Bring cards into a state; a lost one remembers it for its return."""
    changed = [row for row in rows if _bring(write, row, wanted)]
    for row in changed:
        write.event(event, name_of(row), data={"uuid": row.uuid, "shares": row.shares})
    if changed:
        ids = [row.id for row in changed]
        spans.sync(write, write.execute(sa.select(devices).where(devices.c.id.in_(ids))).all())
        write.announce("fleet")
        write.touch_ledger()


def _bring(write: Write, row: Any, wanted: DeviceState) -> bool:
    """Write one card's state; False when it is in it already."""
    values: dict[str, Any] = {"state": str(wanted)}
    if row.state == DeviceState.LOST:
        values = {"facts": {**row.facts, BEFORE_LOST: str(wanted)}}
    if all(getattr(row, key) == value for key, value in values.items()):
        return False
    write.execute(devices.update().where(devices.c.id == row.id).values(**values, generation=row.generation + 1))
    return True


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
