"""The pool's cards: which there are, which may be handed out, how they are.

Writes nodes, devices and their spans, and is the only one that does; what sits on a card (used_milli,
used_bytes, shares) is written by `allocations` with its seats. Decides nothing about placement and touches no
hardware: agents tell it what they see. Usage and heartbeats are kept in memory only; they are news, not truth.
An agent serves one node under the node's own name, or several under its own; heartbeats, readiness and samples
are the agent's, and may be told under its name or that of any of its nodes.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence
from typing import Any

import sqlalchemy as sa

from gpupool.base.errors import BadOption, Conflict, NotFound, WrongState
from gpupool.base.ids import check_name
from gpupool.fleet import spans
from gpupool.fleet.changing import (
    bring,
    refuse_clusters,
    refuse_used,
    set_ready,
    tells_health,
    write_cards,
    write_health,
    write_node,
)
from gpupool.fleet.hearing import SILENT_AFTER_SECONDS, Hearing
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
from gpupool.fleet.registration import check_body
from gpupool.fleet.tables import devices, nodes
from gpupool.fleet.views import Observation, device_out, node_out
from gpupool.model.device import DeviceState
from gpupool.model.tenant import Principal
from gpupool.store.database import Store, Write
from gpupool.wire.common import Page
from gpupool.wire.fleet import DeviceOut, DeviceSample, NodeIn, NodeOut, UsageOut

USAGE_FRESH_SECONDS = 120
"""A sample older than this says nothing of now."""
MAX_LIMIT = 1000
_NS = 10**9


class Fleet:
    """Thread-safe. Every change is one transaction; announces "fleet" when what can be placed changes."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._hearing = Hearing()
        self._lock = threading.Lock()
        self._observed: dict[str, Observation] = {}

    # Nodes ---------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """A server starts: no node counts as ready until its agent has told what became of every job."""
        with self._store.write(freeing=True) as write:
            write.execute(nodes.update().where(nodes.c.ready).values(ready=False))
            ours = sa.select(nodes.c.name, nodes.c.agent).where(nodes.c.cluster_generation.is_(None))
            agents = {row.name: row.agent for row in write.execute(ours)}
        self._hearing.begin(agents, self._store.clock.now_ns())

    def register(self, name: str, body: NodeIn, principal: Principal) -> NodeOut:
        """Take in what a node's agent says it has. The same again changes nothing but `last_seen_ns`.

        New cards start observed; simulated ones adopted where `body.adopt`. A card that is no longer named is
        lost, one that returns is what it was. Raises Conflict, StillInUse, NotAllowed; then nothing changed.
        """
        check_name(name, "node name")
        check_body(body)
        with self._store.write(freeing=True) as write:
            known = write.execute(sa.select(nodes).where(nodes.c.name == name)).one_or_none()
            if known is not None:
                refuse_clusters([known])
                self._check_agent(known, body.agent or name, principal)
            write_cards(write, write_node(write, name, known, body), body)
        self._hearing.serves(body.agent or name, name)
        self.seen(name)
        return self.node(name)

    def agent_of(self, name: str) -> str:
        """The agent that serves a node; any other name is an agent's own."""
        return self._hearing.agent_of(name)

    def seen(self, name: str) -> None:
        """A known agent's heartbeat. Costs a dictionary entry; nodes that were silent are ready again."""
        agent = self.agent_of(name)
        if self._hearing.heard(agent, self._store.clock.now_ns()):
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
        with self._store.write(freeing=True) as write:
            unready = [row for row in served(write.connection, agent) if not row.ready]
            set_ready(write, unready, True)
            for row in unready:
                write.event("node.ready", row.name)

    def silent_nodes(self) -> list[str]:
        """Nodes whose agents fell silent, from memory."""
        return self._hearing.silent_nodes()

    def check_silence(self) -> float:
        """Mark the nodes of agents that missed three heartbeats; seconds until the next one can be due."""
        now_ns = self._store.clock.now_ns()
        overdue, next_ns = self._hearing.fall_silent(now_ns)
        for agent in overdue:
            self._mark_silent(agent)
        return max(0.001, (next_ns - now_ns) / _NS)

    def is_silent(self, name: str) -> bool:
        return self._hearing.is_silent(self.agent_of(name))

    def node(self, name: str) -> NodeOut:
        with self._store.read() as connection:
            row = find_node(connection, name)
            count = sa.select(sa.func.count()).where(devices.c.node_id == row.id, present())
            return node_out(row, connection.execute(count).scalar_one(), self._hearing.last_ns(row.agent))

    def list_nodes(self, *, after: str | None = None, limit: int = 100) -> Page[NodeOut]:
        """In the order of their first registration."""
        counts = sa.select(sa.func.count()).where(devices.c.node_id == nodes.c.id, present()).scalar_subquery()
        query = sa.select(nodes, counts.label("device_count")).order_by(nodes.c.id).limit(_limit(limit) + 1)
        with self._store.read() as connection:
            if after is not None:
                query = query.where(nodes.c.id > find_node(connection, after).id)
            rows = connection.execute(query).all()
        shown = [node_out(row, row.device_count, self._hearing.last_ns(row.agent)) for row in rows[:limit]]
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
            refuse_clusters(rows)
            missing = [name_of(row) for row in rows if row.state == DeviceState.LOST]
            if missing:
                raise WrongState(
                    f"{', '.join(missing)}: not there now (lost); nothing was adopted",
                    hint="gpupool gpus shows which cards are there",
                )
            bring(write, rows, DeviceState.ADOPTED, "device.adopted")
        return self._again(rows, principal)

    def release(self, names: Sequence[str], drain: bool, principal: Principal) -> list[DeviceOut]:
        """Stop handing these cards out: all of them or none. Raises StillInUse while shares are on one.

        With `drain`, a card with shares takes no new ones and is released when the last is given back.
        """
        with self._store.write() as write:
            rows = find_all(write.connection, names)
            refuse_clusters(rows)
            if not drain:
                refuse_used(rows)
            bring(write, [row for row in rows if row.shares], DeviceState.DRAINING, "device.draining")
            bring(write, [row for row in rows if not row.shares], DeviceState.OBSERVED, "device.released")
        return self._again(rows, principal)

    def settle(self, write: Write, device_ids: Collection[int]) -> None:
        """Seats on these cards were given back in this transaction: finish what waited for the last of them.

        A draining card without seats is released; one that vanished under its seats has no capacity any more.
        """
        waiting = devices.c.state.in_([DeviceState.DRAINING, DeviceState.LOST])
        rows = write.execute(cards().where(devices.c.id.in_(device_ids), waiting, devices.c.shares == 0)).all()
        drained = [row for row in rows if row.state == DeviceState.DRAINING]
        bring(write, drained, DeviceState.OBSERVED, "device.released")
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
        if any(tells_health(known[uuid], sample) for uuid, sample in told.items()):
            with self._store.write() as write:
                write_health(write, agent, told)

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

    def _check_agent(self, row: Any, agent: str, principal: Principal) -> None:
        """A node stays with its agent while that one is heard; an admin may hand it over."""
        if row.agent != agent and not principal.sees_all and not self.is_silent(row.agent):
            raise Conflict(
                f"node {row.name} is served by agent {row.agent}",
                hint=f"stop that agent; it counts as gone {SILENT_AFTER_SECONDS} s after its last word",
            )

    def _mark_silent(self, agent: str) -> None:
        with self._store.write(freeing=True) as write:
            if self.is_silent(agent):  # it may have come back meanwhile
                rows = served(write.connection, agent)
                set_ready(write, rows, False)
                for row in rows:
                    write.event("node.silent", row.name, data={"after_seconds": SILENT_AFTER_SECONDS})


def _limit(limit: int) -> int:
    if not 1 <= limit <= MAX_LIMIT:
        raise BadOption(f"limit {limit} is not between 1 and {MAX_LIMIT}", hint=f"ask for at most {MAX_LIMIT} a page")
    return limit
