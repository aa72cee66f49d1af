"""Ending and removing a pool whose server is not there: jobs first, then every trace of it."""

from __future__ import annotations

import sys

from gpupool.agent.cleanup import end_every_job
from gpupool.agent.job_state import SupervisorError
from gpupool.base.errors import GpupoolError, PoolCopied, StillInUse
from gpupool.host.options import Options
from gpupool.host.state import StateDir, read_marker, remove
from gpupool.server.schema import metadata
from gpupool.store.database import connect
from gpupool.store.failures import store_errors
from gpupool.store.leadership import find_leader


def purge(options: Options) -> int:
    """Remove a pool after ending what still runs from it; what was removed goes to stdout, a line each.

    Raises nothing: the reason of a failure goes to stderr, its exit code is returned, and the
    marker of the pool is still there, so that it can be asked for again.
    """
    state = StateDir(options.state_dir)
    try:
        for line in _purge(state):
            print(line)
    except SupervisorError as error:
        failed: GpupoolError = StillInUse(f"a job could not be ended: {error}", hint="gpupool down --purge  again")
    except GpupoolError as error:
        failed = error
    else:
        return 0
    print(f"gpupool: {failed}", file=sys.stderr)
    return failed.exit_code


def _purge(state: StateDir) -> list[str]:
    if not state.paths.root.exists():
        return []
    known = read_marker(state.paths)
    if known is None:
        return remove(state.paths)
    try:
        state.open()
    except PoolCopied as copied:  # its jobs, its cgroups and its database elsewhere are the original's
        return [f"a copy of {copied.details['original']}: no job was ended", *remove(state.paths)]
    ended = end_every_job(state.paths, known.pool_id)
    lines = [f"{ended} jobs ended"] if ended else []
    if known.store is not None:
        assert state.instance is not None
        lines += _erase(known.store, state.instance.nonce)
    return [*lines, *remove(state.paths)]


def _erase(url: str, instance: str) -> list[str]:
    """Drop the pool's tables from a database outside the state directory, and nothing else in it.

    One that another server leads is left as it is; what is said of that.
    """
    engine = connect(url)
    try:
        with store_errors(), engine.begin() as connection:
            found = find_leader(connection)
            if found is not None and found.left_seconds > 0 and found.instance != instance:
                return [f"the database is left as it is: {found.address} leads there"]
            metadata.drop_all(connection)
            connection.exec_driver_sql("DROP TABLE IF EXISTS alembic_version")
        return []
    finally:
        engine.dispose()
