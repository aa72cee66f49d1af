"""Drills: gateways are moved on purpose, and back, and probes measure it. Thread-safe."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import sqlalchemy as sa

from gpupool.base.errors import UnknownNetwork, WrongState
from gpupool.base.ids import new_id
from gpupool.model.tenant import Principal
from gpupool.network.engine_row import renew_work, require_ready
from gpupool.network.gateways.model import MOST_DRILL_SECONDS
from gpupool.network.gateways.reading import describe_drill, read_members, read_pair_row
from gpupool.network.gateways.reports import finish_drill
from gpupool.network.gateways.service import refuse_without_standby
from gpupool.network.gateways.tables import network_gateway_drills
from gpupool.network.lookup import FindNetwork
from gpupool.store.database import Store, WriteTransaction
from gpupool.wire.network.gateways import GatewayDrillOut

#: Drills that stay in the database, the last ones.
_KEPT: Final = 200


class GatewayDrillService:
    """Drills of the pair of gateways. One at a time."""

    def __init__(
        self, store: Store, find_network: FindNetwork, is_silent: Callable[[str], bool]
    ) -> None:
        self._store = store
        self._find_network = find_network
        self._is_silent = is_silent

    def start(self, caller: Principal, name: str, tenant: str | None = None) -> GatewayDrillOut:
        """Begin to move the gateways and back, with probes from a network.

        Raises:
            UnknownNetwork: there is no such network.
            WrongState: it has no gateway; gateways have no pair, no standby or no upstream to
                probe; another drill runs.
        """
        with self._store.write() as write:
            require_ready(write.connection)
            network = self._find_network(write.connection, caller, name, tenant)
            if not network.has_gateway:
                raise WrongState(
                    f"network {network.name} has no gateway to probe through",
                    hint=f"gpupool network gateway-create {network.name}",
                )
            origin = self._find_active(write.connection)
            expire_drills(write)
            running = sa.select(network_gateway_drills.c.public_id).where(
                network_gateway_drills.c.state == "running"
            )
            if write.execute(running).first() is not None:
                raise WrongState(
                    "another drill of gateways runs now",
                    hint=f"it ends within {MOST_DRILL_SECONDS} s; then again",
                )
            row_id = write.insert(
                network_gateway_drills,
                public_id=new_id("d"),
                network_id=network.id,
                port=new_id("n"),
                origin=origin,
                state="running",
                reason="",
                moves=[],
                created_ns=write.now_ns,
                finished_ns=None,
            )
            old = network_gateway_drills.c.id <= row_id - _KEPT
            write.execute(network_gateway_drills.delete().where(old))
            query = sa.select(network_gateway_drills).where(network_gateway_drills.c.id == row_id)
            row = write.execute(query).one()
            write.event("network.gateway_drill_started", row.public_id)
            renew_work(write)
            write.announce(("network", network.id))
            out = describe_drill(write.connection, row)
            write.answer(201, out.model_dump(mode="json"))
        return out

    def get(self, key: str) -> GatewayDrillOut:
        """Return a drill. Raises UnknownNetwork."""
        query = sa.select(network_gateway_drills).where(network_gateway_drills.c.public_id == key)
        with self._store.write() as write:
            expire_drills(write)
            row = write.execute(query).one_or_none()
            if row is not None:
                return describe_drill(write.connection, row)
        raise UnknownNetwork(
            f"no drill {key[:80]!r}", hint="gpupool network gateway-drill NAME  makes a new one"
        )

    def _find_active(self, connection: sa.Connection) -> str:
        """Find the active machine of a pair that can do a drill. Raises WrongState."""
        pair = read_pair_row(connection)
        if pair is None:
            raise WrongState(
                "gateways are on one machine, so none takes them over",
                hint="an admin makes a pair: gpupool network gateway-pair NODE NODE --address A",
            )
        if pair.upstream is None:
            raise WrongState(
                "gateways have no upstream address that answers probes",
                hint="an admin names one: gpupool network gateway-pair ... --upstream ADDRESS",
            )
        members = read_members(connection)
        active = [
            one for one in members if one.state == "active" and not self._is_silent(one.agent)
        ]
        if len(active) != 1:
            states = ", ".join(f"{one.agent} is {one.state}" for one in members)
            raise WrongState(
                f"a drill needs an active machine: {states}", hint="gpupool network gateway-show"
            )
        for member in members:
            if member is not active[0]:
                refuse_without_standby(member, self._is_silent)
        agent: str = active[0].agent
        return agent


def expire_drills(write: WriteTransaction) -> None:
    """End drills that were not reported in time."""
    drills = network_gateway_drills.c
    oldest = write.now_ns - MOST_DRILL_SECONDS * 1_000_000_000
    query = sa.select(network_gateway_drills).where(
        drills.state == "running", drills.created_ns <= oldest
    )
    for row in write.execute(query).all():
        reason = f"the agent of the centre did not report it within {MOST_DRILL_SECONDS} s"
        finish_drill(write, row, state="failed", reason=reason)
