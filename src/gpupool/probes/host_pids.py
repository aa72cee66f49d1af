"""Which process of this namespace is meant by a pid of another one: containers name themselves by theirs."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Final

#: Of a process's start, in clock ticks, so many bits are in the word that names the owner of a slot.
START_MASK: Final = 0xFFFFFFFF


def start_ns_of(owner: int) -> int:
    """When the process began that a slot's owner word names (pid << 32 | start), in ns of CLOCK_BOOTTIME."""
    per_second = os.sysconf("SC_CLK_TCK")
    now = time.clock_gettime_ns(time.CLOCK_BOOTTIME) * per_second // 10**9
    age = (now - owner) & START_MASK
    return (now - age) * 10**9 // per_second


class HostPids:
    """Processes of other pid namespaces below `proc`, as they are when first asked for; empty for who may not look."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc

    def find(self, pid: int, pid_namespace: int, start: int) -> int | None:
        """The pid here of the process that is `pid` in that namespace (an inode) and began then; None if unknown."""
        return self._known.get((pid_namespace, pid, start & START_MASK))

    @cached_property
    def _known(self) -> Mapping[tuple[int, int, int], int]:
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
                fields = (entry / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            except OSError:
                continue  # it has ended, or is not ours to see
            line = next((each for each in status.splitlines() if each.startswith("NSpid:")), "NSpid: 0")
            found[namespace, int(line.split()[-1]), int(fields[19]) & START_MASK] = int(entry.name)
        return found
