"""The cgroups of a whole pool: marked with the pool's state directory, removed when unused.

A pool that was killed leaves its groups behind, and its next start uses them again. Without its
state directory there is no next start: any pool of the same user removes them. Only empty groups
are removed, except at a purge. Must not know what a job is for.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from gpupool.agent.supervisor.cgroups import (
    PARENT_PREFIX,
    CgroupSupport,
    kill_members,
    list_all_members,
)
from gpupool.base import instance
from gpupool.base.errors import StateUnusable

#: The extended attribute that systemd uses for its own marks is of the same kind; cgroupfs has it
#: since Linux 5.7.
MARK: Final = "user.gpupool.owner"
_GROUP_MODE: Final = 0o755
#: Of the nonce's 32, enough for the pools of one machine.
_NONCE_LETTERS: Final = 8
_SETTLE_SECONDS: Final = 2.0
_PAUSE_SECONDS: Final = 0.02


@dataclass(frozen=True)
class Owner:
    """The pool that owns groups: its state directory, instance, and mount namespace.

    The path of the directory is valid only in that mount namespace.
    """

    root: str
    nonce: str
    mounts: str


@dataclass(frozen=True)
class AbandonedPool:
    """The groups of a pool whose state directory is gone, and the processes in them."""

    root: str
    groups: tuple[Path, ...]
    processes: tuple[int, ...]


def make_group_name(pool_id: str, root: Path) -> str:
    """Name the groups of a pool instance, without their prefix.

    A pool that was restored from a backup has the id of the original: the instance's nonce tells
    them apart.
    """
    known = instance.read_identity(root)
    return pool_id if known is None else f"{pool_id}-{known.nonce[:_NONCE_LETTERS]}"


def mark_pool(support: CgroupSupport, name: str, root: Path) -> None:
    """Make a pool's groups and mark their owner. Idempotent.

    Where cgroupfs has no extended attributes the groups stay unmarked, and only their own pool
    removes them.
    """
    known = instance.read_identity(root)
    if known is None:
        return
    owner = Owner(os.path.realpath(root), known.nonce, _mount_namespace())
    for group in _list_pool_groups(support, name):
        with suppress(OSError):
            group.mkdir(mode=_GROUP_MODE, exist_ok=True)
            _mark(group, owner)


def remove_pool(
    support: CgroupSupport, name: str, *, timeout_seconds: float = _SETTLE_SECONDS
) -> None:
    """Remove a pool's groups where no job is left in them. Idempotent.

    Blocks until they are gone, for at most `timeout_seconds`: a v1 group is busy for a moment after
    the death of its last process, and the kernel sends no notification.
    """
    deadline = time.monotonic() + timeout_seconds
    for group in _list_pool_groups(support, name):
        while (
            not _remove_unused(group)
            and not list_all_members(group)
            and time.monotonic() < deadline
        ):
            time.sleep(_PAUSE_SECONDS)


def purge_pool(support: CgroupSupport, name: str) -> None:
    """Kill what is left in a pool's groups and remove them, after every job was ended."""
    paths = []
    for group in _list_pool_groups(support, name):
        paths += [str(path) for path in _list_job_groups(group)]
    kill_members(paths)
    remove_pool(support, name)


def remove_strays(support: CgroupSupport, name: str, jobs: Collection[str]) -> None:
    """Remove the unused groups of all jobs but these. Call it while no job is started.

    A supervisor tries to remove its groups once; a group that was busy then would stay until the
    pool is purged.
    """
    for group in _list_pool_groups(support, name):
        for path in _list_job_groups(group):
            if path.name not in jobs:
                _remove_empty(path)


def find_abandoned(support: CgroupSupport) -> tuple[AbandonedPool, ...]:
    """Find the groups of this user's pools whose state directory is gone. Changes nothing."""
    found: dict[Owner, list[Path]] = {}
    for group in _list_pools_here(support):
        owner = _read_owner(group)
        if owner is not None and _is_gone(owner):
            found.setdefault(owner, []).append(group)
    pools = []
    for owner, groups in found.items():
        processes: set[int] = set()
        for group in groups:
            processes |= list_all_members(group)
        pools.append(AbandonedPool(owner.root, tuple(groups), tuple(sorted(processes))))
    return tuple(pools)


def remove_abandoned(support: CgroupSupport) -> tuple[AbandonedPool, ...]:
    """Remove the empty groups of pools that are gone. Idempotent.

    Returns:
        The pools that were found; groups with processes stay.
    """
    found = find_abandoned(support)
    for one in found:
        for group in one.groups:
            _remove_unused(group)
    return found


def _list_pool_groups(support: CgroupSupport, name: str) -> Iterator[Path]:
    for hierarchy in support.job_hierarchies:
        yield hierarchy.base / f"{PARENT_PREFIX}{name}"


def _list_pools_here(support: CgroupSupport) -> Iterator[Path]:
    for hierarchy in support.job_hierarchies:
        for group in sorted(hierarchy.base.glob(f"{PARENT_PREFIX}*")):
            with suppress(FileNotFoundError):
                if group.is_dir() and group.stat().st_uid == os.geteuid():
                    yield group


def _list_job_groups(group: Path) -> list[Path]:
    try:
        return [path for path in group.iterdir() if path.is_dir()]
    except FileNotFoundError:
        return []


def _remove_unused(group: Path) -> bool:
    """Remove a pool's group and those of its jobs that hold no process; whether it is gone."""
    for path in _list_job_groups(group):
        _remove_empty(path)
    with suppress(OSError):
        os.rmdir(group)
    return not group.exists()


def _remove_empty(job: Path) -> None:
    """Remove a job's group with those that the job made in it; none of them while any holds a
    process."""
    if list_all_members(job):
        return
    for folder, _names, _files in os.walk(job, topdown=False):
        with suppress(OSError):  # entered since the look
            os.rmdir(folder)


def _mark(group: Path, owner: Owner) -> None:
    known = _read_owner(group)
    if known is None or _is_gone(known):
        os.setxattr(group, MARK, json.dumps(asdict(owner)).encode())


def _read_owner(group: Path) -> Owner | None:
    """Read the mark of a group; None where it has no readable mark."""
    try:
        found = json.loads(os.getxattr(group, MARK))
        return Owner(str(found["root"]), str(found["nonce"]), str(found["mounts"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _is_gone(owner: Owner) -> bool:
    """Whether no instance of that name is at its path any more. What cannot be read is there."""
    if owner.mounts != _mount_namespace():
        return False  # the path means another directory there
    try:
        known = instance.read_identity(Path(owner.root))
    except (OSError, StateUnusable):
        return False
    return known is None or known.nonce != owner.nonce


def _mount_namespace() -> str:
    return os.readlink("/proc/self/ns/mnt")
