"""Verifications as owners of networks ask for them. Thread-safe."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

import sqlalchemy as sa

from gpupool.base.errors import NetworkingUnavailable, UnknownNetwork, WrongState
from gpupool.base.ids import new_id
from gpupool.model.tenant import Principal
from gpupool.network.engine_row import renew_work, require_ready
from gpupool.network.lookup import FindNetwork
from gpupool.network.model import Network
from gpupool.network.reading import read_networks
from gpupool.network.tables import networks, subnets
from gpupool.network.verification.drift import check_drift
from gpupool.network.verification.tables import network_verifications
from gpupool.network.zones.service import list_zones
from gpupool.store.database import Store, WriteTransaction
from gpupool.tenancy.access import match_visible
from gpupool.tenancy.tenants import find_tenant
from gpupool.wire.network.promises import (
    NetworkCheck,
    NetworkVerificationIn,
    NetworkVerificationOut,
)

#: Addresses of the networks made for a verification of several networks.
_USUAL_CIDR: Final = "10.0.0.0/24"
#: Seconds after which a verification that was not reported has failed: its agent was killed.
_MOST_SECONDS: Final = 120
#: Verifications that are shown, the last ones first, and that stay in the database.
_SHOWN: Final = 20
_KEPT: Final = 200


class NetworkVerificationService:
    """Verifications of networks. One at a time."""

    def __init__(
        self,
        store: Store,
        find_network: FindNetwork,
        read_northbound: Callable[[int], str | None],
    ) -> None:
        self._store = store
        self._find_network = find_network
        self._read_northbound = read_northbound

    def start(self, caller: Principal, body: NetworkVerificationIn) -> NetworkVerificationOut:
        """Begin a verification; its agent reports within seconds. Blocks for the check of drift.

        Raises:
            UnknownNetwork: the caller has no such network.
            NetworkingUnavailable: networking is off, or its engine cannot work.
            WrongState: another verification runs.
        """
        with self._store.read() as connection:
            require_ready(connection)
            tenant_id, network = self._find_scope(connection, caller, body)
        drift = self._check_drift(tenant_id, network)
        with self._store.write() as write:
            require_ready(write.connection)
            expire_verifications(write)
            running = write.execute(
                sa.select(network_verifications.c.public_id).where(
                    network_verifications.c.state == "running"
                )
            ).scalar()
            if running is not None:
                raise WrongState(
                    "another verification of networks runs now",
                    hint=f"it ends within {_MOST_SECONDS} s; then again",
                )
            found = [] if network is None else list(_read_networks(write.connection, None, network))
            key = new_id("c")
            row_id = write.insert(
                network_verifications,
                public_id=key,
                tenant_id=tenant_id,
                network_id=None if network is None else network.id,
                cidr=str(found[0].subnets[0].cidr) if found else _USUAL_CIDR,
                cidr6=_choose_cidr6(write.connection, tenant_id, network),
                ports=[new_id("n") for _ in range(3)],
                state="running",
                checks=[
                    one.model_dump() for one in (drift, *_find_gaps(write.connection, network))
                ],
                created_ns=write.now_ns,
            )
            old = network_verifications.c.id <= row_id - _KEPT
            write.execute(network_verifications.delete().where(old))
            write.event("network.verification_started", key, tenant_id=tenant_id, data={})
            renew_work(write)
            # No network has a negative id: the reconciler looks for verifications.
            write.announce(("network", -row_id))
            out = _describe(write.connection, _read_row(write.connection, key), write.now_ns)
            write.answer(201, out.model_dump(mode="json"))
        return out

    def get(self, caller: Principal, key: str) -> NetworkVerificationOut:
        """Return a verification. Raises UnknownNetwork."""
        query = sa.select(network_verifications).where(
            match_visible(caller, network_verifications.c.tenant_id),
            network_verifications.c.public_id == key,
        )
        now_ns = self._store.clock.now_ns()
        with self._store.read() as connection:
            row = connection.execute(query).one_or_none()
            if row is not None:
                return _describe(connection, row, now_ns)
        raise UnknownNetwork(
            f"no verification {key[:80]!r}", hint="gpupool network verify  makes a new one"
        )

    def list_last(self, caller: Principal) -> list[NetworkVerificationOut]:
        """List the last verifications of the caller's tenant; those of all tenants for an admin."""
        query = (
            sa.select(network_verifications)
            .where(match_visible(caller, network_verifications.c.tenant_id))
            .order_by(network_verifications.c.id.desc())
            .limit(_SHOWN)
        )
        now_ns = self._store.clock.now_ns()
        with self._store.read() as connection:
            return [_describe(connection, row, now_ns) for row in connection.execute(query).all()]

    def _find_scope(
        self, connection: sa.Connection, caller: Principal, body: NetworkVerificationIn
    ) -> tuple[int | None, Any]:
        """Find the tenant and the network; None for all of them."""
        if body.network is not None:
            network = self._find_network(connection, caller, body.network, body.tenant)
            return network.tenant_id, network
        if body.tenant is None and caller.sees_all:
            return None, None
        return find_tenant(connection, caller, body.tenant or caller.tenant).id, None

    def _check_drift(self, tenant_id: int | None, network: Any) -> NetworkCheck:
        deadline = time.monotonic() + 3.0
        while True:
            with self._store.read() as connection:
                wanted = _read_by_zone(connection, tenant_id, network)
            remotes = {zone: self._read_northbound(zone) for zone in wanted}
            missing = [str(zone) for zone, remote in remotes.items() if remote is None]
            if missing:
                reason = f"the engine of zone {', '.join(missing)} is not ready"
                return NetworkCheck(name="drift", kept=None, reason=reason)
            places = {str(remotes[zone]): found for zone, found in wanted.items()}
            try:
                found = check_drift(places, self._store.pool_id)
            except NetworkingUnavailable as error:
                return NetworkCheck(name="drift", kept=None, reason=error.message[:400])
            # A change that was just made is written within milliseconds.
            if found.kept or time.monotonic() >= deadline:
                return found


def _find_gaps(connection: sa.Connection, network: Any) -> list[NetworkCheck]:
    """Say which zones have no probes of a verification: its networks are in one zone alone."""
    zones = list_zones(connection)
    if network is not None or not zones:
        return []
    reason = (
        f"the probes are in zone 0; within zone {', '.join(map(str, zones))}: "
        "gpupool network verify NAME  of a network there"
    )
    return [NetworkCheck(name="isolation", kept=None, reason=reason)]


def _choose_cidr6(connection: sa.Connection, tenant_id: int | None, network: Any) -> str | None:
    """Choose an IPv6 prefix of what is verified; None: it has no IPv6."""
    query = (
        sa.select(subnets.c.cidr6)
        .join(networks, networks.c.id == subnets.c.network_id)
        .where(subnets.c.cidr6.is_not(None))
        .order_by(subnets.c.id)
    )
    if network is not None:
        query = query.where(networks.c.id == network.id)
    elif tenant_id is not None:
        query = query.where(networks.c.tenant_id == tenant_id)
    found: str | None = connection.execute(query.limit(1)).scalar()
    return found


def _read_networks(
    connection: sa.Connection, tenant_id: int | None, network: Any
) -> tuple[Network, ...]:
    query = sa.select(networks.c.public_id)
    if network is not None:
        query = query.where(networks.c.id == network.id)
    elif tenant_id is not None:
        query = query.where(networks.c.tenant_id == tenant_id)
    keys = list(connection.execute(query).scalars())
    return tuple(read_networks(connection, keys).values()) if keys else ()


def _read_by_zone(
    connection: sa.Connection, tenant_id: int | None, network: Any
) -> dict[int, list[Network]]:
    """Read the networks of a scope by zone; zone 0 is there also without one."""
    query = sa.select(networks.c.public_id, networks.c.zone)
    zones = {row.public_id: row.zone for row in connection.execute(query)}
    found: dict[int, list[Network]] = {} if network is not None else {0: []}
    for one in _read_networks(connection, tenant_id, network):
        found.setdefault(zones[one.key], []).append(one)
    return found


def expire_verifications(write: WriteTransaction) -> None:
    """End verifications whose agent has not reported in time, and their networks."""
    oldest = write.now_ns - _MOST_SECONDS * 10**9
    late = sa.and_(
        network_verifications.c.state == "running", network_verifications.c.created_ns < oldest
    )
    ended = write.execute(
        network_verifications.update()
        .where(late)
        .values(state="failed", finished_ns=write.now_ns)
        .returning(network_verifications.c.id)
    )
    write.announce(*(("network", -row_id) for row_id in ended.scalars()))


def _read_row(connection: sa.Connection, key: str) -> Any:
    query = sa.select(network_verifications).where(network_verifications.c.public_id == key)
    return connection.execute(query).one()


def _describe(connection: sa.Connection, row: Any, now_ns: int) -> NetworkVerificationOut:
    checks = [NetworkCheck.model_validate(one) for one in row.checks]
    is_late = row.state == "running" and row.created_ns < now_ns - _MOST_SECONDS * 10**9
    state = "failed" if is_late else row.state
    tested = [check.kept for check in checks if check.kept is not None]
    query = sa.select(networks.c.name).where(networks.c.id == row.network_id)
    return NetworkVerificationOut(
        id=row.public_id,
        state=state,
        reason="" if state != "failed" else f"no report within {_MOST_SECONDS} s",
        network=connection.execute(query).scalar(),
        kept=all(tested) if tested and state == "done" else None,
        checks=checks,
        created_ns=row.created_ns,
        finished_ns=row.finished_ns,
    )
