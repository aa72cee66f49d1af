"""Opening a pool's store: prepared, composed, taken, on PostgreSQL with the lease to lead, and the rooms begun on it.

A standby composes before it may lead (`host.warm`), so composing writes nothing and asks the database nothing.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import sqlalchemy as sa

from gpupool.base.anew import recent
from gpupool.base.clock import wall_ns
from gpupool.base.errors import StoreCorrupt
from gpupool.base.ids import new_id
from gpupool.base.phases import Phases
from gpupool.host import standby
from gpupool.host.consolidating import budget_from
from gpupool.host.leading import LeaseKeeper, leader_check
from gpupool.host.logs import LocalLogs
from gpupool.host.pending import limits_from
from gpupool.host.placement import policy_from
from gpupool.host.preemption import rules_from
from gpupool.host.state import Marker, StateDir
from gpupool.model.job_limits import parse_job_limits
from gpupool.server.checks import restarts_check, space_check
from gpupool.server.compose import compose
from gpupool.server.config import Services
from gpupool.server.migrate import prepare
from gpupool.store import counters
from gpupool.store.database import connect, new_store, sqlite_url
from gpupool.store.engines import preparing_alone
from gpupool.store.failures import store_errors
from gpupool.store.faults import fault_from, sync_from
from gpupool.store.leadership import Leadership, find_leader, held_elsewhere, session_name
from gpupool.store.reserve import use_parked
from gpupool.tenancy.peer_limits import own_limits


@dataclass(frozen=True)
class Composed:
    """The rooms on a store that this server has not taken. `leading`: its claim to lead; None on SQLite."""

    url: str
    holder: str
    leading: Leadership | None
    services: Services

    @property
    def engine(self) -> sa.Engine:
        return self.services.store.engine

    def dispose(self) -> None:
        """Give it up before it was taken."""
        self.services.store.close()


@dataclass(frozen=True)
class Opened:
    """The rooms, begun; who keeps the lease, None on SQLite; where the time went."""

    services: Services
    keeper: LeaseKeeper | None
    phases: Phases


def open_pool(state: StateDir, marker: Marker) -> Opened:
    """The pool as after a restart: prepared, composed, taken and begun."""
    phases = Phases()
    url = marker.store or sqlite_url(state.paths.database)
    if marker.begun and marker.store is None and not state.paths.database.exists():
        raise StoreCorrupt(
            f"{state.paths.database} is missing: the jobs and the books of this pool were in it",
            hint="put a saved copy in its place; to give up what the pool knew:  gpupool down --purge",
        )
    if marker.store is None:
        use_parked(state.paths.database)
    holder = new_holder()
    engine = connect(url, sync=sync_from(os.environ), name=session_name(holder))
    leading = _claim(engine, holder, state, marker)
    # The database holds environments of jobs; SQLite gives the files beside it the rights of this one.
    mask = os.umask(0o077)
    try:
        with store_errors(), preparing_alone(engine):
            if leading is not None:  # on SQLite a connection would give an emptied file a header before it is looked at
                _check_free(engine, leading)
            prepare(engine, wall_ns(), marker.pool_id)
        if marker.store is None and recent(os.environ, wall_ns() / 1e9):
            _write_log_anew(engine)
    finally:
        os.umask(mask)
    phases.mark("tables")
    composed = _compose(engine, url, holder, leading, state, marker)
    phases.mark("rooms")
    return lead(composed, phases)


def compose_pool(state: StateDir, marker: Marker) -> Composed:
    """The rooms on a PostgreSQL database that is prepared and that another server may have."""
    assert marker.store is not None
    holder = new_holder()
    engine = connect(marker.store, name=session_name(holder))
    return _compose(engine, marker.store, holder, _claim(engine, holder, state, marker), state, marker)


def lead(composed: Composed, phases: Phases) -> Opened:
    """Take the pool and begin the rooms. After a failure nothing of it is left open, and a lease is given up."""
    services, leading = composed.services, composed.leading
    keeper = None
    try:
        services.store.take(composed.holder, leading)
        phases.mark("lease")
        keeper = None if leading is None else LeaseKeeper(composed.url, leading)
        _begin(services, phases)
    except BaseException:
        services.allocations.close()
        if keeper is not None:
            keeper.close()
        services.store.close()
        raise
    return Opened(services, keeper, phases)


def new_holder() -> str:
    """A token that no server has had: it names its sessions, and the one after it ends those by that name."""
    return f"{os.getpid()}-{new_id('s')}"


def _claim(engine: sa.Engine, holder: str, state: StateDir, marker: Marker) -> Leadership | None:
    """This server's claim to lead; None on SQLite, where the lock of the directory says it."""
    if engine.dialect.name != "postgresql":
        return None
    assert state.instance is not None
    return Leadership(holder, state.instance.nonce, standby.advertised(marker))


def _check_free(engine: sa.Engine, leading: Leadership) -> None:
    """Raise PoolHeldElsewhere while another leads, before a table of its database is changed."""
    with engine.connect() as connection:
        found = find_leader(connection)
    if found is not None and found.left_seconds > 0 and found.instance != leading.instance:
        raise held_elsewhere(found)


def _compose(
    engine: sa.Engine, url: str, holder: str, leading: Leadership | None, state: StateDir, marker: Marker
) -> Composed:
    counters.watch_writes(engine, counters.writes)
    store = new_store(engine, fault=fault_from(os.environ), sync=sync_from(os.environ))
    limits = parse_job_limits(marker.job_limits)
    if os.geteuid() != 0:
        limits = limits.within(own_limits())
    services = compose(
        store,
        owner_uid=os.getuid(),
        logs=LocalLogs(state.paths.jobs),
        rules=rules_from(os.environ),
        policy=policy_from(os.environ),
        job_limits=limits,
        pending_limits=limits_from(os.environ),
        quiet_budget=budget_from(os.environ),
    )
    services.checks.add("leader", leader_check(store))
    services.checks.add("space", space_check(state.paths.root))
    services.checks.add("server", restarts_check(wall_ns() / 1e9))
    return Composed(url, holder, leading, services)


def _begin(services: Services, phases: Phases) -> None:
    """The rooms begin on the store, which is taken."""
    services.store.keep_reserve()
    services.tenancy.bootstrap()
    phases.mark("owner")
    services.fleet.begin()
    phases.mark("nodes")
    services.allocations.start()
    phases.mark("jobs")


def _write_log_anew(engine: sa.Engine) -> None:
    """Write what the log holds into the database and flush that.

    Where the process before failed to flush the log, the kernel may call pages of it clean that are not on disk. They
    can be read, but no later flush writes them. Raises the failure of a disk that still does not flush.
    """
    with store_errors(), engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
