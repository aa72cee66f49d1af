"""Control groups of jobs: which hierarchies this host offers, and the groups of one job.

The supervisor makes, enters and removes a job's groups. This module names them, and empties
them where the supervisor cannot. It never changes a group outside `gpupool-<pool>/<job>`.
Must not know what a job is for.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import signal
import stat
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from gpupool.base.files.kernel_files import read_kernel_lines

PARENT_PREFIX: Final = "gpupool-"
_SAFE_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,120}")
_USEFUL_V1: Final = ("devices", "memory", "freezer", "pids")
#: Seconds between two looks at a group: v1 sends no notification when it becomes empty.
_PAUSE_SECONDS: Final = 0.02


@dataclass(frozen=True)
class Hierarchy:
    """One mounted hierarchy.

    Attributes:
        base: The directory in which gpupool makes its groups.
        refusal: Why no groups can be made there; empty if they can.
    """

    version: Literal[1, 2]
    controllers: frozenset[str]
    base: Path
    refusal: str

    @property
    def usable(self) -> bool:
        """Whether groups can be made here."""
        return not self.refusal


@dataclass(frozen=True)
class CgroupSupport:
    """The hierarchies of this host.

    Attributes:
        kind: "v1" where device rules go through a v1 hierarchy; v2 may exist beside it.
    """

    kind: Literal["v2", "v1", "none"]
    hierarchies: tuple[Hierarchy, ...]

    @property
    def job_hierarchies(self) -> tuple[Hierarchy, ...]:
        """The hierarchies a job gets a group in."""
        usable = [found for found in self.hierarchies if found.usable]
        has_v2 = any(found.version == 2 for found in usable)
        wanted = set(_USEFUL_V1)
        if has_v2:
            wanted.discard("freezer")  # v2 kills a whole group in one write
        return tuple(found for found in usable if found.version == 2 or found.controllers & wanted)

    @property
    def refusals(self) -> tuple[str, ...]:
        """Why hierarchies that would be useful cannot be used."""
        return tuple(found.refusal for found in self.hierarchies if found.refusal)


def _mounts(proc_root: Path) -> Iterable[tuple[str, str, str, frozenset[str]]]:
    """List (file system, root, mount point, options) of every cgroup mount, as proc(5) says."""
    for line in read_kernel_lines(proc_root / "self" / "mountinfo"):
        left, _, right = line.partition(" - ")
        columns = left.split(" ")
        kind, _, options = right.split(" ", 2)
        if kind in ("cgroup", "cgroup2"):
            yield kind, columns[3], columns[4], frozenset(options.split(","))


def _own_groups(proc_root: Path) -> dict[str, str]:
    """Read the path of this process in each hierarchy, by controller; "" is v2."""
    found: dict[str, str] = {}
    for line in read_kernel_lines(proc_root / "self" / "cgroup"):
        _, controllers, path = line.split(":", 2)
        found |= dict.fromkeys(controllers.split(","), path)
    return found


def _base(point: Path, root: str, own: str, uid: int) -> Path:
    """Find where groups are made: for root at the top, otherwise below the delegated group."""
    if uid == 0:
        return point
    inside = os.path.relpath(own, root) if own.startswith(root) else "."
    return point / inside


def _refusal(base: Path, controllers: frozenset[str], writable: Callable[[Path], bool]) -> str:
    name = "cgroup v2" if not controllers else f"cgroup v1 {','.join(sorted(controllers))}"
    if not base.is_dir():
        return f"{name}: {base} is not there"
    if not (writable(base) and writable(base / "cgroup.procs")):
        return f"{name}: {base} is not ours to write"
    return ""


def _writable(path: Path) -> bool:
    return os.access(path, os.W_OK)


def detect_cgroups(
    proc_root: Path = Path("/proc"),
    sys_root: Path = Path("/sys"),
    *,
    uid: int | None = None,
    writable: Callable[[Path], bool] = _writable,
) -> CgroupSupport:
    """Detect the hierarchies that this account can use. Changes nothing; reads a few files.

    Args:
        proc_root: Tests give another root.
        sys_root: Tests give another root.
        uid: The account; None is the process's own.
        writable: Whether the account can write a path.
    """
    uid = os.geteuid() if uid is None else uid
    own = _own_groups(proc_root)
    found: list[Hierarchy] = []
    for kind, root, mount_point, options in _mounts(proc_root):
        point = sys_root / os.path.relpath(mount_point, "/sys")
        version: Literal[1, 2] = 2 if kind == "cgroup2" else 1
        controllers = frozenset() if version == 2 else options & own.keys()
        if version == 1 and not controllers & set(_USEFUL_V1):
            continue
        base = _base(point, root, own.get(min(controllers, default=""), "/"), uid)
        found.append(Hierarchy(version, controllers, base, _refusal(base, controllers, writable)))
    return CgroupSupport(_kind(found), tuple(found))


def _kind(found: Sequence[Hierarchy]) -> Literal["v2", "v1", "none"]:
    usable = [hierarchy for hierarchy in found if hierarchy.usable]
    if any("devices" in hierarchy.controllers for hierarchy in usable):
        return "v1"
    if any(hierarchy.version == 2 for hierarchy in usable):
        return "v2"
    return "v1" if usable else "none"


def find_job_cgroups(support: CgroupSupport, pool: str, job_id: str) -> tuple[str, ...]:
    """Name the groups of one job, one in each hierarchy that is used; makes none.

    Args:
        support: The hierarchies of this host.
        pool: The pool's group, as `pool_cgroups.make_group_name` returns it.
        job_id: The job.

    Raises:
        ValueError: A name cannot be that of a cgroup.
    """
    for name in (pool, job_id):
        if not _SAFE_ID.fullmatch(name):
            raise ValueError(f"{name!r} cannot be the name of a cgroup")
    return tuple(
        str(found.base / f"{PARENT_PREFIX}{pool}" / job_id) for found in support.job_hierarchies
    )


def make_device_rule(path: Path, access: str = "rwm") -> str:
    """Make the rule of one device file, like "c 195:1 rwm". Raises ValueError for other files."""
    found = path.stat()
    if not (stat.S_ISCHR(found.st_mode) or stat.S_ISBLK(found.st_mode)):
        raise ValueError(f"{path} is not a device")
    kind = "c" if stat.S_ISCHR(found.st_mode) else "b"
    return f"{kind} {os.major(found.st_rdev)}:{os.minor(found.st_rdev)} {access}"


def require_job_group(path: Path) -> None:
    """Check that a path is a job's group of gpupool. Raises ValueError."""
    if not path.parent.name.startswith(PARENT_PREFIX):
        raise ValueError(f"{path} is not a job's cgroup of gpupool")


def list_members(path: Path) -> tuple[int, ...]:
    """List the processes in one group; none where it does not exist."""
    try:
        return tuple(int(line) for line in (path / "cgroup.procs").read_text().split())
    except OSError as error:
        # ENODEV: the group was removed while the file was open.
        if error.errno in (errno.ENOENT, errno.ENODEV):
            return ()
        raise


def list_all_members(path: Path) -> frozenset[int]:
    """List the processes in a job's group and in those that the job made below it."""
    return frozenset(pid for group in _list_tree(path) for pid in list_members(group))


def _list_tree(path: Path) -> list[Path]:
    """List a group and all below it, the lowest first; none where it does not exist."""
    return [Path(folder) for folder, _names, _files in os.walk(path, topdown=False)]


def write_control_file(path: Path, text: str) -> bool:
    """Write a control file of a group; False where there is none. Raises OSError."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)
    return True


def _kill_members(path: Path) -> None:
    if write_control_file(path / "cgroup.kill", "1"):
        return
    frozen = write_control_file(path / "freezer.state", "FROZEN")  # so that none forks away
    try:
        for pid in list_all_members(path):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    finally:
        if frozen:
            write_control_file(path / "freezer.state", "THAWED")


def kill_members(paths: Iterable[str], *, timeout_seconds: float = 10.0) -> tuple[int, ...]:
    """Kill every process in a job's groups and below. Idempotent; blocks until they are gone.

    Args:
        paths: The job's groups.
        timeout_seconds: The longest wait.

    Returns:
        The processes that are left, normally none.
    """
    groups = [Path(path) for path in paths]
    for group in groups:
        require_job_group(group)
    deadline = time.monotonic() + timeout_seconds
    while True:
        left: set[int] = set()
        for group in groups:
            left.update(list_all_members(group))
        if not left or time.monotonic() >= deadline:
            return tuple(sorted(left))
        for group in groups:
            if group.is_dir():
                _kill_members(group)
        time.sleep(_PAUSE_SECONDS)


def remove_groups(paths: Iterable[str]) -> tuple[str, ...]:
    """Remove a job's empty groups, with those that the job made below them. Idempotent.

    Returns:
        The groups that are not empty.
    """
    left = []
    for path in paths:
        require_job_group(Path(path))
        try:
            for group in _list_tree(Path(path)):
                os.rmdir(group)
        except FileNotFoundError:
            continue
        except OSError:
            left.append(path)
    return tuple(left)
