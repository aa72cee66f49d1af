"""Limits the processors, main memory and processes of a job through its cgroups.

Must not know what a job is for.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpupool.agent.supervisor.cgroups import require_job_group, write_control_file

#: The period of `cpu.max`; 100 ms is the kernel's own default.
CPU_PERIOD_MICROSECONDS: Final = 100_000


@dataclass(frozen=True)
class UsualBounds:
    """Limits of a job that asked for none, so that it cannot use up its node; 0 is no limit."""

    processes: int = 0
    host_bytes: int = 0


def find_usual_bounds(
    processes: int, host_bytes: int, proc_root: Path = Path("/proc")
) -> UsualBounds:
    """Limit processes to half of the kernel's process ids, so that the node can start others."""
    most = int((proc_root / "sys/kernel/pid_max").read_text())
    return UsualBounds(min(processes, most // 2), host_bytes)


def read_memory_bytes() -> int:
    """Read the bytes of main memory of this node."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def limit_host(
    paths: Iterable[str],
    cpu_milli: int,
    host_bytes: int,
    cpus: str = "",
    usual: UsualBounds = UsualBounds(),
) -> str:
    """Limit a job's groups to its part of the node. Idempotent; makes missing groups.

    On v1 only memory and processes have hierarchies in which jobs get a group. Memory nodes are not
    bound (`cpuset.mems`): a job would be killed for want of memory while other nodes have some.

    Args:
        paths: The job's groups.
        cpu_milli: Thousandths of a processor; 0 is no limit.
        host_bytes: Bytes of main memory; 0 is the usual limit.
        cpus: Processors, as a list in the kernel's format. The supervisor binds the job to them
            too; a v2 group keeps the job from undoing that.
        usual: Limits of a job that asked for none. One that cannot be enforced is not reported.

    Returns:
        What is not enforced, as a text for people; empty if all is.
    """
    memory = host_bytes or usual.host_bytes
    quota = f"{cpu_milli * CPU_PERIOD_MICROSECONDS // 1000} {CPU_PERIOD_MICROSECONDS}"
    controllers = ["memory", "cpu"]
    if cpus:
        controllers.append("cpuset")
    if usual.processes:
        controllers.append("pids")
    done = set[str]()
    for group in map(Path, paths):
        require_job_group(group)
        v2 = not (group.parent.parent / "tasks").exists()
        _make_group(group, controllers if v2 else [])
        memory_file = group / ("memory.max" if v2 else "memory.limit_in_bytes")
        if memory and _try_write(memory_file, str(memory)):
            done.add("memory")
        if cpu_milli and _try_write(group / "cpu.max", quota):
            done.add("cpu")
        if usual.processes:
            _try_write(group / "pids.max", str(usual.processes))
        if v2 and cpus:
            _try_write(group / "cpuset.cpus", cpus)
    wanted = {"memory": host_bytes, "cpu": cpu_milli}
    return _describe_shortfall(
        [name for name, amount in wanted.items() if amount and name not in done]
    )


def _make_group(group: Path, controllers: Sequence[str]) -> None:
    for above in (group.parent.parent, group.parent):
        above.mkdir(mode=0o755, exist_ok=True)
        for name in controllers:
            _try_write(above / "cgroup.subtree_control", f"+{name}")
    group.mkdir(mode=0o755, exist_ok=True)


def _describe_shortfall(controllers: Sequence[str]) -> str:
    if not controllers:
        return ""
    words = {"memory": "main memory", "cpu": "processors"}
    verb = "is" if list(controllers) == ["memory"] else "are"
    left = " and ".join(words[name] for name in controllers)
    return f"its {left} {verb} counted, not enforced: its cgroup cannot limit them here"


def _try_write(path: Path, text: str) -> bool:
    """Write a control file; False where the controller is not delegated, which is ordinary."""
    try:
        return write_control_file(path, text)
    except OSError:
        return False
