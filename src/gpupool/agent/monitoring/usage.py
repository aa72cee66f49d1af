"""Reads from /proc the processor time and memory of all processes below a supervisor.

A supervisor is the subreaper of its job, so the tree below it is the whole job, with or without
cgroups, and the time of a process that ended is in its parent's account. So one way to count is
enough everywhere; a cgroup's memory would count the file cache as well. Must not know jobs.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Process:
    """A line of /proc/PID/stat.

    Attributes:
        own_ticks: Clock ticks of the process itself.
        reaped_ticks: Clock ticks of the children that it has reaped.
        start_ticks: Clock ticks from boot to its start; tells it from a later one with its pid.
        terminal: Device number of its controlling terminal; 0: it has none.
    """

    pid: int
    parent: int
    own_ticks: int
    reaped_ticks: int
    resident_bytes: int
    start_ticks: int = 0
    terminal: int = 0


@dataclass(frozen=True)
class TreeUsage:
    """What the processes below a root use.

    Attributes:
        terminal: Controlling terminal of the first process below the root, as of `Process`.
    """

    cpu_milliseconds: int
    resident_bytes: int
    pids: frozenset[int]
    terminal: int = 0


def read_processes(proc: Path = Path("/proc")) -> dict[int, Process]:
    """Read every process, by pid; one that ends while it is read is left out."""
    found = (_read(proc / name / "stat") for name in os.listdir(proc) if name.isdigit())
    return {process.pid: process for process in found if process is not None}


def sum_process_trees(
    processes: Mapping[int, Process], roots: Iterable[int]
) -> dict[int, TreeUsage]:
    """Sum what the processes below each root use, without the root.

    Args:
        processes: Every process, by pid.
        roots: The pids of supervisors; one that is gone is left out of the result.
    """
    children: dict[int, list[int]] = defaultdict(list)
    for process in processes.values():
        children[process.parent].append(process.pid)
    return {root: _tree(processes, children, root) for root in roots if root in processes}


def _tree(
    processes: Mapping[int, Process], children: Mapping[int, list[int]], root: int
) -> TreeUsage:
    below: set[int] = set()
    queue = list(children.get(root, ()))
    while queue:
        pid = queue.pop()
        below.add(pid)
        queue.extend(children.get(pid, ()))
    members = [processes[pid] for pid in below]
    ticks = processes[root].reaped_ticks + sum(one.own_ticks + one.reaped_ticks for one in members)
    resident = sum(one.resident_bytes for one in members)
    # The command alone: later ones may be of a container, whose terminals have the same numbers.
    commands = [processes[pid] for pid in children.get(root, ())]
    first = min(commands, key=lambda one: (one.start_ticks, one.pid), default=None)
    terminal = 0 if first is None else first.terminal
    return TreeUsage(ticks * 1000 // _TICKS_PER_SECOND, resident, frozenset(below), terminal)


def _read(path: Path) -> Process | None:
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    pid, rest = text.split(" ", 1)
    fields = rest[rest.rindex(")") + 2 :].split()  # fields[0] is the third of proc(5): the state
    own = int(fields[11]) + int(fields[12])
    reaped = int(fields[13]) + int(fields[14])
    resident = int(fields[21]) * _PAGE_BYTES
    parent = int(fields[1])
    return Process(int(pid), parent, own, reaped, resident, int(fields[19]), int(fields[4]))
