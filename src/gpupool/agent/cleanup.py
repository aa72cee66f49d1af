"""Ending every job of a state directory when no server is there to ask for it: for `down --purge`.

Knows the supervisors and what they leave; must not know the store or whether the pool will come back.
"""

from __future__ import annotations

import contextlib
import select
from pathlib import Path

from gpupool.agent.cgroups import detect
from gpupool.agent.job_state import JobState, SupervisorError, inspect
from gpupool.agent.orphans import reap_orphans
from gpupool.agent.pool_groups import group_name, purge_pool, remove_pool
from gpupool.agent.supervisor import Connection, NotRunning
from gpupool.base.settings import PoolPaths

GRACE_SECONDS = 3
_END_SECONDS = GRACE_SECONDS + 15


def end_every_job(paths: PoolPaths, pool_id: str) -> int:
    """Stop what runs, end what was left behind, remove the pool's cgroups; how many jobs ran. Idempotent.

    The empty directories of `launch.base_of` stay: another pool's jobs may have mounts there in namespaces of their
    own, and removing a mount point takes the mounts of every other namespace with it (rmdir(2) does not say busy).
    """
    ended = 0
    for directory in _directories(paths.jobs):
        ended += _end(directory)
    support = detect()
    purge_pool(support, group_name(pool_id, paths.root))
    remove_pool(support, pool_id)  # as 0.1.0 named them; another instance of the pool may have jobs in these
    return ended


def _directories(jobs: Path) -> list[Path]:
    try:
        return sorted(entry for entry in jobs.iterdir() if entry.is_dir())
    except FileNotFoundError:
        return []


def _end(directory: Path) -> bool:
    ran = inspect(directory).state is JobState.RUNNING
    if ran:
        with contextlib.suppress(NotRunning):  # it ended between the two looks
            _stop(directory)
    if inspect(directory).state is JobState.DIED:
        reap_orphans(directory)
    return ran


def _stop(directory: Path) -> None:
    with Connection(directory) as connection:
        connection.subscribe()
        connection.stop(GRACE_SECONDS)
        waiting = select.poll()
        waiting.register(connection.fileno(), select.POLLIN)
        while connection.read_event() is None:
            if not waiting.poll(_END_SECONDS * 1000):
                raise SupervisorError(f"{directory.name} did not end within {_END_SECONDS} s")
