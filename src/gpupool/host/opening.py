"""Opening a pool's store: prepared, taken, on PostgreSQL with the lease to lead, and the rooms begun on it."""

from __future__ import annotations

import os

import sqlalchemy as sa

from gpupool.base.anew import recent
from gpupool.base.clock import wall_ns
from gpupool.base.errors import StoreCorrupt
from gpupool.base.ids import new_id
from gpupool.base.settings import PoolPaths
from gpupool.host import standby
from gpupool.host.leading import LeaseKeeper, leader_check
from gpupool.host.logs import LocalLogs
from gpupool.host.pending import limits_from
from gpupool.host.preemption import rules_from
from gpupool.host.state import Marker, StateDir
from gpupool.model.job_limits import parse_job_limits
from gpupool.server.checks import restarts_check, space_check
from gpupool.server.compose import compose
from gpupool.server.config import Services
from gpupool.server.migrate import prepare
from gpupool.store import counters
from gpupool.store.database import Store, connect, open_store, sqlite_url
from gpupool.store.engines import preparing_alone
from gpupool.store.failures import store_errors
from gpupool.store.faults import fault_from, sync_from
from gpupool.store.leadership import Leadership, find_leader, held_elsewhere, session_name
from gpupool.tenancy.peer_limits import own_limits


def open_pool(state: StateDir, marker: Marker) -> tuple[Services, LeaseKeeper | None]:
    """The store, prepared and taken, with the rooms on it; on PostgreSQL with who keeps its lease."""
    paths = state.paths
    url = marker.store or sqlite_url(paths.database)
    if marker.begun and marker.store is None and not paths.database.exists():
        raise StoreCorrupt(
            f"{paths.database} is missing: the jobs and the books of this pool were in it",
            hint="put a saved copy in its place; to give up what the pool knew:  gpupool down --purge",
        )
    # The database holds environments of jobs; SQLite gives the files beside it the rights of this one.
    mask = os.umask(0o077)
    sync = sync_from(os.environ)
    holder = f"{os.getpid()}-{new_id('s')}"
    engine = connect(url, sync=sync, name=session_name(holder))
    leading = _claim(engine, holder, state, marker)
    try:
        with store_errors(), preparing_alone(engine):
            if leading is not None:  # on SQLite a connection would give an emptied file a header before it is looked at
                _check_free(engine, leading)
            prepare(engine, wall_ns(), marker.pool_id)
        if marker.store is None and recent(os.environ, wall_ns() / 1e9):
            _write_log_anew(engine)
    finally:
        os.umask(mask)
    counters.watch_writes(engine, counters.writes)
    store = open_store(engine, holder, fault=fault_from(os.environ), sync=sync, leading=leading)
    keeper = None if leading is None else LeaseKeeper(url, leading)
    try:
        return _begin(store, paths, marker), keeper
    except BaseException:
        if keeper is not None:
            keeper.close()
        raise


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


def _begin(store: Store, paths: PoolPaths, marker: Marker) -> Services:
    """The rooms on an opened store, begun."""
    store.keep_reserve()
    limits = parse_job_limits(marker.job_limits)
    if os.geteuid() != 0:
        limits = limits.within(own_limits())
    services = compose(
        store,
        owner_uid=os.getuid(),
        logs=LocalLogs(paths.jobs),
        rules=rules_from(os.environ),
        job_limits=limits,
        pending_limits=limits_from(os.environ),
    )
    services.checks.add("leader", leader_check(store.leading))
    services.checks.add("space", space_check(paths.root))
    services.checks.add("server", restarts_check(wall_ns() / 1e9))
    services.tenancy.bootstrap()
    services.fleet.begin()
    services.allocations.start()
    return services


def _write_log_anew(engine: sa.Engine) -> None:
    """Write what the log holds into the database and flush that.

    Where the process before failed to flush the log, the kernel may call pages of it clean that are not on disk. They
    can be read, but no later flush writes them. Raises the failure of a disk that still does not flush.
    """
    with store_errors(), engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
