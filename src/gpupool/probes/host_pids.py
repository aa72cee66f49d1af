"""Finds the pid in this namespace of a process of another one: containers use pids of their own."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Final

from gpupool.base.units import NANOS_PER_SECOND

#: Bits of a process's start, in clock ticks, that the word with a slot's owner holds.
START_MASK: Final = 0xFFFFFFFF


def compute_start_ns(owner: int) -> int:
    """Return the start, in ns of CLOCK_BOOTTIME, of the process that an owner word names.

    The word is pid << 32 | low bits of the start.
    """
    # The low bits wrap after 497 days at 100 ticks a second, so the age is what they tell.
    per_second = os.sysconf("SC_CLK_TCK")
    now = time.clock_gettime_ns(time.CLOCK_BOOTTIME) * per_second // NANOS_PER_SECOND
    age = (now - owner) & START_MASK
    return (now - age) * NANOS_PER_SECOND // per_second


class HostPids:
    """Processes of other pid namespaces, read once; empty where this process may not read them."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc

    def find_pid(self, pid: int, pid_namespace: int, start: int) -> int | None:
        """Return the pid here of a process of another namespace, None if it is unknown.

        Args:
            pid_namespace: inode of the namespace.
            start: start of the process in clock ticks.
        """
        return self._pid_table.get((pid_namespace, pid, start & START_MASK))

    @cached_property
    def _pid_table(self) -> Mapping[tuple[int, int, int], int]:
        own = (self._proc / "self/ns/pid").stat().st_ino
        found: dict[tuple[int, int, int], int] = {}
        for entry in self._proc.iterdir():
            if not entry.name.isdigit():
                continue
            try:
                namespace = (entry / "ns/pid").stat().st_ino
                if namespace == own:
                    continue
                status = (entry / "status").read_text(encoding="utf-8", errors="replace")
                fields = (
                    (entry / "stat")
                    .read_text(encoding="utf-8", errors="replace")
                    .rpartition(")")[2]
                    .split()
                )
            except OSError:
                continue  # it has ended, or belongs to another user
            line = "NSpid: 0"
            for each in status.splitlines():
                if each.startswith("NSpid:"):
                    line = each
            found[namespace, int(line.split()[-1]), int(fields[19]) & START_MASK] = int(entry.name)
        return found
