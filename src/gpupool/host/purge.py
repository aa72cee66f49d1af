"""Ending and removing a pool whose server is not there: jobs first, then every trace of it."""

from __future__ import annotations

import sys

from gpupool.agent.cleanup import end_every_job
from gpupool.agent.job_state import SupervisorError
from gpupool.base.errors import GpupoolError, PoolCopied, StillInUse
from gpupool.host.options import Options
from gpupool.host.state import StateDir, read_marker, remove


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
        from gpupool.host.erasing import erase  # SQLAlchemy takes longer to import than the rest of a purge

        assert state.instance is not None
        lines += erase(known.store, state.instance.nonce)
    return [*lines, *remove(state.paths)]
