"""The pool's cards: which there are, which may be handed out, how they are.

Writes nodes, devices and their spans, and is the only one that does; what sits on a card
(used_milli, used_bytes, shares) is written by `allocations` with its seats. Decides nothing about
placement and touches no hardware: agents tell it what they see. Usage and heartbeats are kept in
memory only; they are news, not truth. An agent serves one node under the node's own name, or
several under its own; heartbeats, readiness and samples are the agent's, and may be told under its
name or that of any of its nodes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import sqlalchemy as sa

from gpupool.base.errors import NotFound, WriteConflict, WrongState
from gpupool.base.ids import check_name
from gpupool.base.units import NANOS_PER_SECOND
from gpupool.fleet import modes, spans
from gpupool.fleet.agent_liveness import SILENT_AFTER_SECONDS, AgentLiveness
from gpupool.fleet.card_description import CardDescriber
from gpupool.fleet.changing import (
    refuse_clusters,
    refuse_used,
    set_device_state,
    set_ready,
    tells_health,
    write_cards,
    write_health,
    write_node,
)
from gpupool.fleet.latest_samples import LatestSamples
from gpupool.fleet.lookup import (
    agent_cards,
    check_limit,
    find_all,
    find_device,
    find_node,
    find_page_position,
    match_present,
    name_of,
    read_served_nodes,
    select_cards,
)
from gpupool.fleet.mode_service import CardModeService
from gpupool.fleet.registration import check_body
from gpupool.fleet.tables import devices, nodes
from gpupool.fleet.views import DeviceObservation, node_out
from gpupool.model.device import DeviceState
from gpupool.model.tenant import Principal
from gpupool.store.database import Store, WriteTransaction
from gpupool.wire.common import Page
from gpupool.wire.fleet import DeviceOut, NodeIn, NodeOut
from gpupool.wire.samples import DeviceSample


class FleetService:
    """Nodes and devices. Thread-safe; every change is one transaction.

    A change of what can be placed announces the topic `fleet`.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self.modes = CardModeService(store, self.find_agent)
        self._liveness = AgentLiveness()
        self._samples = LatestSamples()
        self.cards = CardDescriber(self.get_usage)

    # Nodes ----------------------------------------------------------------------------------------

    def await_agents(self) -> None:
        """Mark all nodes as not ready until their agents have reported every job."""
        with self._store.write(freeing=True) as write:
            write.execute(nodes.update().where(nodes.c.ready).values(ready=False))
            ours = sa.select(nodes.c.name, nodes.c.agent).where(
                nodes.c.cluster_generation.is_(None)
            )
            agents = {}
            for row in write.execute(ours):
                agents[row.name] = row.agent
        self._liveness.start_waiting(agents, self._store.clock.now_ns())

    def register_node(self, name: str, body: NodeIn, principal: Principal) -> NodeOut:
        """Take in what a node's agent says it has. The same again changes `last_seen_ns` alone.

        New cards start observed; simulated ones adopted where `body.adopt`. A card that is no
        longer named is lost, one that returns is what it was.

        Raises:
            WriteConflict: The node or a card belongs to another; as below, nothing changed.
            StillInUse: A card's size changed under its shares.
            NoPermission: The caller may not tell of this node.
        """
        check_name(name, "node name")
        check_body(body)
        with self._store.write(freeing=True) as write:
            known = write.execute(sa.select(nodes).where(nodes.c.name == name)).one_or_none()
            if known is not None:
                refuse_clusters([known])
                self._check_agent(known, body.agent or name, principal)
            write_cards(write, write_node(write, name, known, body), body)
        self._liveness.assign_node(body.agent or name, name)
        self.record_heartbeat(name)
        return self.get_node(name)

    def find_agent(self, name: str) -> str:
        """Return the agent of a node; any other name is that of an agent itself."""
        return self._liveness.find_agent(name)

    def record_heartbeat(self, name: str) -> None:
        """Note a heartbeat; nodes that were silent are ready again. Costs a dictionary entry."""
        agent = self.find_agent(name)
        if self._liveness.record_heartbeat(agent, self._store.clock.now_ns()):
            self._make_ready(agent)

    def mark_ready(self, name: str) -> None:
        """Mark the agent's nodes ready: it has reported everything. Idempotent.

        Raises:
            NotFound: The agent is unknown.
        """
        agent = self.find_agent(name)
        with self._store.read() as connection:
            rows = read_served_nodes(connection, agent)
        if not rows:
            raise NotFound(
                f"no agent is named {agent[:80]!r}", hint="an agent registers its nodes first"
            )
        if not all(row.ready for row in rows):
            self._make_ready(agent)

    def _make_ready(self, agent: str) -> None:
        with self._store.write(freeing=True) as write:
            unready = [row for row in read_served_nodes(write.connection, agent) if not row.ready]
            set_ready(write, unready, True)
            for row in unready:
                write.event("node.ready", row.name)

    def list_silent_nodes(self) -> list[str]:
        """List the nodes whose agents are silent, from memory."""
        return self._liveness.list_silent_nodes()

    def check_silence(self) -> float:
        """Mark nodes of silent agents; returns the seconds until the next one can be silent."""
        now_ns = self._store.clock.now_ns()
        overdue, next_ns = self._liveness.mark_silent_agents(now_ns)
        for agent in overdue:
            self._mark_silent(agent)
        return max(0.001, (next_ns - now_ns) / NANOS_PER_SECOND)

    def is_silent(self, name: str) -> bool:
        return self._liveness.is_silent(self.find_agent(name))

    def get_node(self, name: str) -> NodeOut:
        with self._store.read() as connection:
            row = find_node(connection, name)
            count = sa.select(sa.func.count()).where(devices.c.node_id == row.id, match_present())
            cards = connection.execute(count).scalar_one()
            return node_out(row, cards, self._liveness.get_last_heartbeat_ns(row.agent))

    def list_nodes(self, *, after: str | None = None, limit: int = 100) -> Page[NodeOut]:
        """List nodes in the order of their first registration."""
        counts = (
            sa.select(sa.func.count())
            .where(devices.c.node_id == nodes.c.id, match_present())
            .scalar_subquery()
        )
        query = sa.select(nodes, counts.label("device_count"))
        query = query.order_by(nodes.c.id).limit(check_limit(limit) + 1)
        with self._store.read() as connection:
            if after is not None:
                query = query.where(nodes.c.id > find_node(connection, after).id)
            rows = connection.execute(query).all()
        shown = []
        for row in rows[:limit]:
            last_ns = self._liveness.get_last_heartbeat_ns(row.agent)
            shown.append(node_out(row, row.device_count, last_ns))
        return Page[NodeOut](items=shown, next=shown[-1].name if len(rows) > limit else None)

    def count_hardware(self) -> tuple[int, int]:
        """Count the nodes, and the cards that are present."""
        count = sa.func.count
        with self._store.read() as connection:
            known = connection.execute(sa.select(count()).select_from(nodes)).scalar_one()
            return known, connection.execute(sa.select(count()).where(match_present())).scalar_one()

    # Cards
    # ---------------------------------------------------------------------------------------------

    def get_device(self, text: str, principal: Principal) -> DeviceOut:
        """Return a card by uuid or `node:index`; the index is enough for a pool of one node."""
        with self._store.read() as connection:
            row = find_device(connection, text)
            return self.cards.describe_cards(connection, [row], principal)[0]

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
        """List cards by node, then index.

        Args:
            after: The name or uuid of the last card of the page before.
        """
        query = (
            select_cards().order_by(devices.c.node_id, devices.c.idx).limit(check_limit(limit) + 1)
        )
        wanted = ((devices.c.model, model), (devices.c.state, state), (devices.c.health, health))
        for column, value in wanted:
            if value is not None:
                query = query.where(column == value)
        with self._store.read() as connection:
            if node is not None:
                query = query.where(devices.c.node_id == find_node(connection, node).id)
            if after is not None:
                node_id, index = find_page_position(connection, after)
                later = sa.and_(devices.c.node_id == node_id, devices.c.idx > index)
                query = query.where(sa.or_(devices.c.node_id > node_id, later))
            rows = connection.execute(query).all()
            shown = self.cards.describe_cards(connection, rows[:limit], principal)
        return Page[DeviceOut](items=shown, next=shown[-1].name if len(rows) > limit else None)

    def adopt_devices(self, names: Sequence[str], principal: Principal) -> list[DeviceOut]:
        """Let the pool hand these cards out: all of them or none. An adopted one stays so.

        Raises:
            WrongState: A card is lost, or a cluster's.
        """
        with self._store.write() as write:
            rows = find_all(write.connection, names)
            refuse_clusters(rows)
            missing = [name_of(row) for row in rows if row.state == DeviceState.LOST]
            if missing:
                raise WrongState(
                    f"{', '.join(missing)}: not there now (lost); nothing was adopted",
                    hint="gpupool gpus shows which cards are there",
                )
            modes.refuse_switching(write, rows)
            set_device_state(write, rows, DeviceState.ADOPTED, "device.adopted")
        return self._read_devices(rows, principal)

    def release_devices(
        self, names: Sequence[str], drain: bool, principal: Principal
    ) -> list[DeviceOut]:
        """Stop handing these cards out: all of them or none.

        With `drain`, a card with shares takes no new ones and is released when the last is given
        back.

        Raises:
            StillInUse: Shares are on one of them, without `drain`.
        """
        with self._store.write() as write:
            rows = find_all(write.connection, names)
            refuse_clusters(rows)
            if not drain:
                refuse_used(rows)
            used = [row for row in rows if row.shares]
            unused = [row for row in rows if not row.shares]
            set_device_state(write, used, DeviceState.DRAINING, "device.draining")
            set_device_state(write, unused, DeviceState.OBSERVED, "device.released")
        return self._read_devices(rows, principal)

    def settle_devices(self, write: WriteTransaction, device_ids: Collection[int]) -> None:
        """Finish what waited for the last seat on these cards, in the transaction that freed it.

        A draining card without seats is released; one that vanished under its seats has no capacity
        any more.
        """
        waiting = devices.c.state.in_([DeviceState.DRAINING, DeviceState.LOST])
        rows = write.execute(
            select_cards().where(devices.c.id.in_(device_ids), waiting, devices.c.shares == 0)
        ).all()
        drained = [row for row in rows if row.state == DeviceState.DRAINING]
        lost = [row for row in rows if row.state == DeviceState.LOST]
        set_device_state(write, drained, DeviceState.OBSERVED, "device.released")
        modes.renew_drained(write, drained)
        spans.sync_spans(write, lost)

    def record_observations(self, name: str, samples: Sequence[DeviceSample]) -> dict[str, int]:
        """Take in what an agent's cards do now; cards that are not on its nodes are ignored.

        Usage is remembered; a change of health is written, with an event.

        Returns:
            The row ids of the cards that are on its nodes, by uuid.
        """
        if not samples:
            return {}
        agent = self.find_agent(name)
        with self._store.read() as connection:
            known = agent_cards(connection, agent, [sample.uuid for sample in samples])
        now_ns = self._store.clock.now_ns()
        told = {sample.uuid: sample for sample in samples if sample.uuid in known}
        self._samples.record_samples(told.values(), now_ns)
        news = any(tells_health(known[uuid], sample) for uuid, sample in told.items())
        # Samples come all the time and health rarely changes: most of them write nothing.
        if news:
            with self._store.write() as write:
                write_health(write, agent, told)
        return {uuid: row.id for uuid, row in known.items()}

    def get_usage(self, uuid: str) -> DeviceObservation | None:
        """Return the latest sample of a card, unless it is too old."""
        return self._samples.get_fresh(uuid, self._store.clock.now_ns())

    def list_busy_percent(self) -> dict[str, float]:
        """List how busy each card says that it is, by uuid; cards that say nothing are left out."""
        return self._samples.list_busy_percent(self._store.clock.now_ns())

    # Inside
    # --------------------------------------------------------------------------------------------

    def _read_devices(self, rows: Sequence[Any], principal: Principal) -> list[DeviceOut]:
        with self._store.read() as connection:
            return self.cards.read_cards(connection, rows, principal)

    def _check_agent(self, row: Any, agent: str, principal: Principal) -> None:
        """Refuse another agent while the node's own is heard; an admin may hand the node over."""
        if row.agent != agent and not principal.sees_all and not self.is_silent(row.agent):
            raise WriteConflict(
                f"node {row.name} is served by agent {row.agent}",
                hint=f"stop that agent; it counts as gone {SILENT_AFTER_SECONDS} s after its last "
                "word",
            )

    def _mark_silent(self, agent: str) -> None:
        with self._store.write(freeing=True) as write:
            if self.is_silent(agent):  # it may have come back meanwhile
                rows = read_served_nodes(write.connection, agent)
                set_ready(write, rows, False)
                for row in rows:
                    write.event(
                        "node.silent", row.name, data={"after_seconds": SILENT_AFTER_SECONDS}
                    )
