"""Opens a pool's store: prepares the database, composes the services, takes the store, starts them.

On PostgreSQL taking includes the leader's lease. A standby composes before it may lead
(`host.leadership.takeover`), so composing writes nothing and queries nothing.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import sqlalchemy as sa

from gpupool.base.anew import list_recent_restarts
from gpupool.base.clock import wall_ns
from gpupool.base.errors import StoreCorrupt
from gpupool.base.ids import new_id
from gpupool.base.phases import PhaseTimer
from gpupool.host.leadership import standby
from gpupool.host.leadership.lease import LeaseKeeper, build_leader_check
from gpupool.host.settings.audit_log import read_keep_days
from gpupool.host.settings.defragmentation import read_budget
from gpupool.host.settings.idle_suspension import read_idle_rules
from gpupool.host.settings.placement import read_policy
from gpupool.host.settings.preemption import read_rules
from gpupool.host.settings.queue_limits import read_limits
from gpupool.host.settings.secret_key import find_key_file
from gpupool.host.state.directory import PoolMarker, StateDir
from gpupool.host.state.job_logs import LocalLogs
from gpupool.model.job_limits import parse_job_limits
from gpupool.server.checks import restarts_check, space_check
from gpupool.server.compose import compose_services
from gpupool.server.config import ServiceSet
from gpupool.server.migrate import prepare_database
from gpupool.store import counters
from gpupool.store.database import connect, new_store, sqlite_url
from gpupool.store.engines import preparing_alone
from gpupool.store.failures import store_errors
from gpupool.store.faults import read_fault, read_sync
from gpupool.store.leadership import LeaderLease, describe_leader, find_leader, session_name
from gpupool.store.reserve import use_parked
from gpupool.store.secrets.key_file import KeyFile
from gpupool.tenancy.peer_limits import read_own_limits


@dataclass(frozen=True)
class ComposedPool:
    """Services on a store that this server has not taken; `leading` is None on SQLite."""

    url: str
    holder: str
    leading: LeaderLease | None
    services: ServiceSet

    @property
    def engine(self) -> sa.Engine:
        return self.services.store.engine

    def dispose(self) -> None:
        """Close the store, which was not taken."""
        self.services.store.close()


@dataclass(frozen=True)
class OpenedPool:
    """Started services; the lease's keeper, None on SQLite; and the times of the phases."""

    services: ServiceSet
    keeper: LeaseKeeper | None
    phases: PhaseTimer


def open_pool(state: StateDir, marker: PoolMarker) -> OpenedPool:
    """Open a pool as after a restart. Blocks until its services have started."""
    phases = PhaseTimer()
    url = marker.store or sqlite_url(state.paths.database)
    if marker.begun and marker.store is None and not state.paths.database.exists():
        raise StoreCorrupt(
            f"{state.paths.database} is missing: the jobs and the books of this pool were in it",
            hint="put a saved copy in its place; to give up what the pool knew:  gpupool down --purge",
        )
    if marker.store is None:
        use_parked(state.paths.database)
    holder = create_holder()
    engine = connect(url, sync=read_sync(os.environ), name=session_name(holder))
    leading = _create_claim(engine, holder, state, marker)
    # The database holds environments of jobs; SQLite gives the files beside it the rights of this
    # one.
    mask = os.umask(0o077)
    try:
        with store_errors(), preparing_alone(engine):
            # Not on SQLite: a connection would give an emptied file a header before it is checked.
            if leading is not None:
                _check_free(engine, leading)
            prepare_database(engine, wall_ns(), marker.pool_id)
        if marker.store is None and list_recent_restarts(os.environ, wall_ns() / 1e9):
            _write_log_anew(engine)
    finally:
        os.umask(mask)
    phases.mark_phase("tables")
    composed = _compose_services(engine, url, holder, leading, state, marker)
    phases.mark_phase("rooms")
    return lead_pool(composed, phases)


def compose_pool(state: StateDir, marker: PoolMarker) -> ComposedPool:
    """Compose services on a prepared PostgreSQL database, which another server may have taken."""
    assert marker.store is not None
    holder = create_holder()
    engine = connect(marker.store, name=session_name(holder))
    return _compose_services(
        engine, marker.store, holder, _create_claim(engine, holder, state, marker), state, marker
    )


def lead_pool(composed: ComposedPool, phases: PhaseTimer) -> OpenedPool:
    """Take the pool and start its services. A failure closes all and gives up the lease."""
    services = composed.services
    leading = composed.leading
    keeper = None
    try:
        services.store.take(composed.holder, leading)
        phases.mark_phase("lease")
        keeper = None if leading is None else LeaseKeeper(composed.url, leading)
        _begin_services(services, phases)
    except BaseException:
        services.allocations.close()
        if keeper is not None:
            keeper.close()
        services.store.close()
        raise
    return OpenedPool(services, keeper, phases)


def create_holder() -> str:
    """Create a token that no other server has."""
    # It names this server's database sessions, so that a successor can end them.
    return f"{os.getpid()}-{new_id('s')}"


def _create_claim(
    engine: sa.Engine, holder: str, state: StateDir, marker: PoolMarker
) -> LeaderLease | None:
    """Create this server's claim to lead; None on SQLite, where the directory's lock decides."""
    if engine.dialect.name != "postgresql":
        return None
    assert state.instance is not None
    return LeaderLease(holder, state.instance.nonce, standby.find_advertised_address(marker))


def _check_free(engine: sa.Engine, leading: LeaderLease) -> None:
    """Raise PoolHeldElsewhere while another server leads, before any table is changed."""
    with engine.connect() as connection:
        found = find_leader(connection)
    if found is not None and found.left_seconds > 0 and found.instance != leading.instance:
        raise describe_leader(found)


def _compose_services(
    engine: sa.Engine,
    url: str,
    holder: str,
    leading: LeaderLease | None,
    state: StateDir,
    marker: PoolMarker,
) -> ComposedPool:
    counters.watch_writes(engine, counters.writes)
    store = new_store(
        engine,
        fault=read_fault(os.environ),
        sync=read_sync(os.environ),
        keys=KeyFile(find_key_file(os.environ, state.paths)),
    )
    limits = parse_job_limits(marker.job_limits)
    if os.geteuid() != 0:
        limits = limits.restrict_to(read_own_limits())
    services = compose_services(
        store,
        owner_uid=os.getuid(),
        logs=LocalLogs(state.paths.jobs),
        rules=read_rules(os.environ),
        policy=read_policy(os.environ),
        job_limits=limits,
        container_policy=marker.read_container_policy(own_pool=os.geteuid() != 0),
        pending_limits=read_limits(os.environ),
        quiet_budget=read_budget(os.environ),
        idle_rules=read_idle_rules(os.environ),
        audit_keep_days=read_keep_days(os.environ),
    )
    services.checks.add("leader", build_leader_check(store))
    services.checks.add("space", space_check(state.paths.root))
    services.checks.add("secrets", store.secrets.check)
    services.checks.add("server", restarts_check(wall_ns() / 1e9))
    return ComposedPool(url, holder, leading, services)


def _begin_services(services: ServiceSet, phases: PhaseTimer) -> None:
    # Jobs come last: they need the owner and the nodes.
    services.store.keep_reserve()
    services.store.secrets.begin(services.store)
    services.tenancy.bootstrap()
    phases.mark_phase("owner")
    services.fleet.await_agents()
    phases.mark_phase("nodes")
    services.allocations.start()
    phases.mark_phase("jobs")


def _write_log_anew(engine: sa.Engine) -> None:
    """Write the log into the database and flush it; raises if the disk still fails."""
    # If the process before failed to flush the log, the kernel may call pages of it clean that are
    # not on disk. They can be read, but no later flush writes them.
    with store_errors(), engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
