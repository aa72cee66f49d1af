"""Prepares the agent's process: the lock of its state, its limit of descriptors, its arbiter."""

from __future__ import annotations

import fcntl
import os
import resource
from pathlib import Path
from typing import Final

from gpupool.agent.config import AgentConfig
from gpupool.agent.jobs.launch import LaunchSettings
from gpupool.base.errors import PoolAlreadyRunning
from gpupool.base.own_limits import fixed_hard_limits
from gpupool.base.settings import PoolPaths
from gpupool_native import arbiter_path

#: Descriptors: one socket for each running job.
_MANY_FILES: Final = 65536


def lock_state(paths: PoolPaths) -> int:
    """Lock the agent's state and return the descriptor that keeps the lock.

    Raises:
        PoolAlreadyRunning: Another agent has the lock.
    """
    path = paths.agent / "lock"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise PoolAlreadyRunning(
            f"another agent works in {paths.agent}",
            hint="stop it first, or give this one another --state-dir",
        ) from None
    return descriptor


def find_arbiter_program() -> Path | None:
    """Find the arbiter. Without it every share keeps its static part of each tenth of a second."""
    program = arbiter_path()
    return program if program.exists() else None


def allow_many_files() -> None:
    """Raise the limit of descriptors as far as it goes: every running job needs a socket."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MANY_FILES if hard == resource.RLIM_INFINITY else min(hard, _MANY_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def make_launch_settings(config: AgentConfig) -> LaunchSettings:
    """Make what every job of the agent has in common, with the limits of this process."""
    return LaunchSettings(
        config.pool_id,
        config.owner_uid,
        config.owner_gid,
        config.log_max_bytes,
        config.log_files,
        job_limits=config.job_limits,
        fixed_hard_limits=fixed_hard_limits(),
    )
