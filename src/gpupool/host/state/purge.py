"""Removes a pool whose server does not run: ends its jobs first, then deletes all of its files."""

from __future__ import annotations

import sys

from gpupool.agent.cleanup import end_every_job
from gpupool.agent.supervisor.job_state import SupervisorError
from gpupool.base.errors import CopiedPool, GpupoolError, StillInUse
from gpupool.host.settings.options import HostOptions
from gpupool.host.state.directory import StateDir, read_marker, remove_state


def purge_pool(options: HostOptions) -> int:
    """Remove a pool after ending its jobs; prints what was removed and returns the exit code.

    Raises nothing: a failure is printed to stderr. The marker is still there then, so that the
    purge can be repeated.
    """
    state = StateDir(options.state_dir)
    try:
        for line in _remove_pool(state):
            print(line)
    except SupervisorError as error:
        failed: GpupoolError = StillInUse(
            f"a job could not be ended: {error}", hint="gpupool down --purge  again"
        )
    except GpupoolError as error:
        failed = error
    else:
        return 0
    print(f"gpupool: {failed}", file=sys.stderr)
    return failed.exit_code


def _remove_pool(state: StateDir) -> list[str]:
    if not state.paths.root.exists():
        return []
    known = read_marker(state.paths)
    if known is None:
        return remove_state(state.paths)
    try:
        state.open()
    except CopiedPool as copied:
        # The jobs, the cgroups and the database outside of a copied directory are the original's.
        return [
            f"a copy of {copied.details['original']}: no job was ended",
            *remove_state(state.paths),
        ]
    ended = end_every_job(state.paths, known.pool_id)
    lines = [f"{ended} jobs ended"] if ended else []
    if known.store is not None:
        # SQLAlchemy takes longer to import than the rest of a purge.
        from gpupool.host.state.database_removal import erase_database

        assert state.instance is not None
        lines += erase_database(known.store, state.instance.nonce)
    return [*lines, *remove_state(state.paths)]
