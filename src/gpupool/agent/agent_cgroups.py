"""The cgroups of one agent: the groups of its jobs, and what earlier agents left behind."""

from __future__ import annotations

import logging
from collections.abc import Collection
from pathlib import Path

from gpupool.agent.supervisor.cgroups import detect_cgroups, find_job_cgroups
from gpupool.agent.supervisor.pool_cgroups import (
    make_group_name,
    mark_pool,
    remove_abandoned,
    remove_pool,
    remove_strays,
)

log = logging.getLogger(__name__)


class AgentCgroups:
    """The cgroups of one agent. `set_up` is called once, before the first job starts."""

    def __init__(self, pool_id: str, owner_uid: int) -> None:
        self._pool_id = pool_id
        self._support = detect_cgroups(uid=owner_uid)
        self._group = pool_id

    @property
    def kind(self) -> str:
        """What this host offers: "v2", "v1" or "none"."""
        return self._support.kind

    def find_job_groups(self, job: str) -> tuple[str, ...]:
        """Name the groups of a job. Raises ValueError for a name that no group can have."""
        return find_job_cgroups(self._support, self._group, job)

    def set_up(self, root: Path) -> None:
        """Name the groups after the instance of the pool whose state directory is `root`."""
        self._group = make_group_name(self._pool_id, root)

    def remove_old(self, root: Path, jobs: Collection[str]) -> None:
        """Remove empty groups of earlier agents of this pool, and of pools that are gone.

        Args:
            root: The pool's state directory.
            jobs: The jobs whose groups stay.
        """
        mark_pool(self._support, self._group, root)
        remove_strays(self._support, self._group, jobs)
        for found in remove_abandoned(self._support):
            if found.processes:
                log.warning(
                    "processes %s are of the pool at %s, which is gone",
                    list(found.processes),
                    found.root,
                )

    def remove_unused(self) -> None:
        """Remove the pool's groups where no job is left in them. Idempotent."""
        remove_pool(self._support, self._group)
        # Version 0.1.0 named the groups by the pool's id; its jobs continue under that name.
        remove_pool(self._support, self._pool_id)
