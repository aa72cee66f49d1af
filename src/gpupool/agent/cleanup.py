"""Ends every job of a state directory without a server: for `down --purge`.

Must not know the store, nor whether the pool will start again.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from gpupool.agent.network.engine_end import remove_engine
from gpupool.agent.supervisor.cgroups import detect_cgroups
from gpupool.agent.supervisor.connection import NotRunning, stop_job
from gpupool.agent.supervisor.job_state import JobState, inspect_job
from gpupool.agent.supervisor.orphan_processes import reap_orphans
from gpupool.agent.supervisor.pool_cgroups import make_group_name, purge_pool, remove_pool
from gpupool.base.settings import PoolPaths

#: Seconds between SIGTERM and SIGKILL.
GRACE_SECONDS = 3


def end_every_job(paths: PoolPaths, pool_id: str) -> int:
    """Stop every job and the engine of networks, remove the pool's cgroups. Idempotent.

    Blocks for the grace of each job. The empty directories of `launch.find_mount_base` stay: jobs
    of another pool may have mounts there in namespaces of their own, and removing a mount point
    removes the mounts of every other namespace (rmdir(2) does not fail with EBUSY).

    Returns:
        How many jobs ran.
    """
    ended = 0
    for directory in _list_directories(paths.jobs):
        ended += _end_job(directory)
    remove_engine(paths.agent)
    support = detect_cgroups()
    purge_pool(support, make_group_name(pool_id, paths.root))
    # Version 0.1.0 named the groups so; another instance of the pool may have jobs in them.
    remove_pool(support, pool_id)
    return ended


def _list_directories(jobs: Path) -> list[Path]:
    try:
        return sorted(entry for entry in jobs.iterdir() if entry.is_dir())
    except FileNotFoundError:
        return []


def _end_job(directory: Path) -> bool:
    ran = inspect_job(directory).state is JobState.RUNNING
    if ran:
        with contextlib.suppress(NotRunning):  # it ended between the two looks
            stop_job(directory, GRACE_SECONDS)
    if inspect_job(directory).state is JobState.DIED:
        reap_orphans(directory)
    return ran
