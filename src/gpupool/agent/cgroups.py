"""Control groups for jobs: which hierarchies this host has and lets us use, and where a job's own groups lie.

The supervisor makes, enters and removes a job's groups; this module names them, and empties them when the supervisor
cannot. It never touches a group outside `gpupool-<pool>/<job>`. Must not know what a job is for.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import stat
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

PARENT_PREFIX: Final = "gpupool-"
_SAFE_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,120}")
_USEFUL_V1: Final = ("devices", "memory", "freezer", "pids")
_PAUSE_SECONDS: Final = 0.02


@dataclass(frozen=True)
class Hierarchy:
    """One mounted hierarchy. `base` is where gpupool's groups go; `refusal` says why not, when it cannot be used."""

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
    """What this host offers. `kind` is v1 when device rules go through a v1 hierarchy (v2 may be there as well)."""

    kind: Literal["v2", "v1", "none"]
    hierarchies: tuple[Hierarchy, ...]

    @property
    def used(self) -> tuple[Hierarchy, ...]:
        """The hierarchies a job gets a group in."""
        usable = [found for found in self.hierarchies if found.usable]
        has_v2 = any(found.version == 2 for found in usable)
        wanted = set(_USEFUL_V1) - ({"freezer"} if has_v2 else set())  # v2 kills a whole group in one write
        return tuple(found for found in usable if found.version == 2 or found.controllers & wanted)

    @property
    def refusals(self) -> tuple[str, ...]:
        """Why hierarchies that would be useful cannot be used."""
        return tuple(found.refusal for found in self.hierarchies if found.refusal)


def _mounts(proc_root: Path) -> Iterable[tuple[str, str, str, frozenset[str]]]:
    """(file system, root, mount point, options) of every cgroup mount; proc(5) describes the columns."""
    for line in (proc_root / "self" / "mountinfo").read_text().splitlines():
        left, _, right = line.partition(" - ")
        columns, (kind, _, options) = left.split(), right.split(" ", 2)
        if kind in ("cgroup", "cgroup2"):
            yield kind, columns[3], columns[4], frozenset(options.split(","))


def _own_groups(proc_root: Path) -> dict[str, str]:
    """Our path in each hierarchy, by controller; "" is v2."""
    found: dict[str, str] = {}
    for line in (proc_root / "self" / "cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        found |= dict.fromkeys(controllers.split(","), path)
    return found


def _base(point: Path, root: str, own: str, uid: int) -> Path:
    """Root's groups go to the top of what is mounted; anybody else's below the group that was delegated to him."""
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


def detect(
    proc_root: Path = Path("/proc"),
    sys_root: Path = Path("/sys"),
    *,
    uid: int | None = None,
    writable: Callable[[Path], bool] = _writable,
) -> CgroupSupport:
    """What can be used here, by whoever we are. Changes nothing; reads a handful of files."""
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


def job_cgroups(support: CgroupSupport, pool: str, job_id: str) -> tuple[str, ...]:
    """The groups of one job, for `JobSpec.cgroups`: one in each hierarchy used, none where nothing can be used.

    `pool` is `pool_groups.group_name`.
    """
    for name in (pool, job_id):
        if not _SAFE_ID.fullmatch(name):
            raise ValueError(f"{name!r} cannot be the name of a cgroup")
    return tuple(str(found.base / f"{PARENT_PREFIX}{pool}" / job_id) for found in support.used)


CPU_PERIOD_MICROSECONDS: Final = 100_000


@dataclass(frozen=True)
class UsualBounds:
    """What a job is held to where it asked for nothing: it cannot take all processes or all memory of its node."""

    processes: int = 0
    host_bytes: int = 0


def usual_bounds(processes: int, host_bytes: int, proc_root: Path = Path("/proc")) -> UsualBounds:
    """At most half of the kernel's process ids, so that the node can start some beside the job."""
    most = int((proc_root / "sys/kernel/pid_max").read_text())
    return UsualBounds(min(processes, most // 2), host_bytes)


def memory_bytes() -> int:
    """Main memory of this node."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def limit_host(
    paths: Iterable[str], cpu_milli: int, host_bytes: int, cpus: str = "", usual: UsualBounds = UsualBounds()
) -> str:
    """Hold a job's groups, made here when missing, to its part of the node; what cannot be held, in words.

    0 is no limit, and `usual` counts instead; nothing is said where a usual bound cannot be held. On v1 only memory
    and processes have hierarchies that jobs get a group in. With `cpus` (a list as the kernel writes
    it) a v2 group holds the job to these processors, which its supervisor asks for as well, so that it cannot undo that
    itself. Memory is not bound (`cpuset.mems`): a job would be killed for want of it while other NUMA nodes have some.
    """
    memory = host_bytes or usual.host_bytes
    quota = f"{cpu_milli * CPU_PERIOD_MICROSECONDS // 1000} {CPU_PERIOD_MICROSECONDS}"
    controllers = [name for name, used in (("cpuset", cpus), ("pids", usual.processes)) if used]
    done = set[str]()
    for group in map(Path, paths):
        _require_ours(group)
        v2 = not (group.parent.parent / "tasks").exists()
        _make_group(group, ["memory", "cpu", *controllers] if v2 else [])
        if memory and _try_write(group / ("memory.max" if v2 else "memory.limit_in_bytes"), str(memory)):
            done.add("memory")
        if cpu_milli and _try_write(group / "cpu.max", quota):
            done.add("cpu")
        if usual.processes:
            _try_write(group / "pids.max", str(usual.processes))
        if v2 and cpus:
            _try_write(group / "cpuset.cpus", cpus)
    wanted = {"memory": host_bytes, "cpu": cpu_milli}
    return _unheld([name for name, amount in wanted.items() if amount and name not in done])


def _make_group(group: Path, controllers: Sequence[str]) -> None:
    for above in (group.parent.parent, group.parent):
        above.mkdir(mode=0o755, exist_ok=True)
        for name in controllers:
            _try_write(above / "cgroup.subtree_control", f"+{name}")
    group.mkdir(mode=0o755, exist_ok=True)


def _unheld(controllers: Sequence[str]) -> str:
    if not controllers:
        return ""
    words = {"memory": "main memory", "cpu": "processors"}
    verb = "is" if list(controllers) == ["memory"] else "are"
    left = " and ".join(words[name] for name in controllers)
    return f"its {left} {verb} counted, not enforced: its cgroup cannot limit them here"


def _try_write(path: Path, text: str) -> bool:
    """Whether the kernel took it; a controller that nobody gave us is an ordinary answer."""
    try:
        return _write_if_there(path, text)
    except OSError:
        return False


def device_rule(path: Path, access: str = "rwm") -> str:
    """The rule for one device file, for `JobSpec.device_deny`: "c 195:1 rwm"."""
    found = path.stat()
    if not (stat.S_ISCHR(found.st_mode) or stat.S_ISBLK(found.st_mode)):
        raise ValueError(f"{path} is not a device")
    kind = "c" if stat.S_ISCHR(found.st_mode) else "b"
    return f"{kind} {os.major(found.st_rdev)}:{os.minor(found.st_rdev)} {access}"


def _require_ours(path: Path) -> None:
    if not path.parent.name.startswith(PARENT_PREFIX):
        raise ValueError(f"{path} is not a job's cgroup of gpupool")


def members(path: Path) -> tuple[int, ...]:
    """The processes in one group; none when it does not exist."""
    try:
        return tuple(int(line) for line in (path / "cgroup.procs").read_text().split())
    except (FileNotFoundError, OSError) as error:
        if isinstance(error, FileNotFoundError) or error.errno == 19:  # ENODEV: removed while open
            return ()
        raise


def _write_if_there(path: Path, text: str) -> bool:
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
    if _write_if_there(path / "cgroup.kill", "1"):
        return
    frozen = _write_if_there(path / "freezer.state", "FROZEN")  # so that none forks away
    try:
        for pid in members(path):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    finally:
        if frozen:
            _write_if_there(path / "freezer.state", "THAWED")


def kill_all(paths: Iterable[str], *, timeout_seconds: float = 10.0) -> tuple[int, ...]:
    """Kills every process in a job's groups; what is left after the time, normally nothing. Blocks until then."""
    groups = [Path(path) for path in paths]
    for group in groups:
        _require_ours(group)
    deadline = time.monotonic() + timeout_seconds
    while True:
        left = {pid for group in groups for pid in members(group)}
        if not left or time.monotonic() >= deadline:
            return tuple(sorted(left))
        for group in groups:
            if group.is_dir():
                _kill_members(group)
        time.sleep(_PAUSE_SECONDS)  # the kernel tells nobody when a v1 group becomes empty


def remove(paths: Iterable[str]) -> tuple[str, ...]:
    """Removes a job's empty groups; those that are not empty are returned. Idempotent."""
    left = []
    for path in paths:
        _require_ours(Path(path))
        try:
            os.rmdir(path)
        except FileNotFoundError:
            continue
        except OSError:
            left.append(path)
    return tuple(left)
