"""Describes processes on a card from /proc: owner, name and start.

Reads only. A process may be gone at any moment, or be in another pid namespace; what cannot be read
is None.
"""

from __future__ import annotations

import os
from pathlib import Path

from gpupool.base.units import NANOS_PER_SECOND
from gpupool.model.device import DeviceProcess


class ProcessTable:
    """The processes of one /proc file system."""

    def __init__(self, proc_root: Path = Path("/proc")) -> None:
        self._root = proc_root

    def describe_process(self, pid: int, memory_bytes: int | None = None) -> DeviceProcess:
        """Return owner, name and start of a process, by proc(5)."""
        try:
            status = (self._root / str(pid) / "status").read_text(
                encoding="utf-8", errors="replace"
            )
            stat = (self._root / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return DeviceProcess(pid, memory_bytes=memory_bytes)
        # The name stands in parentheses and may itself hold spaces and parentheses.
        name, _, rest = stat.partition("(")[2].rpartition(")")
        return DeviceProcess(
            pid,
            _parse_real_uid(status),
            name,
            memory_bytes,
            self._started_at_ns(int(rest.split()[19])),
        )

    def _started_at_ns(self, ticks_after_boot: int) -> int | None:
        for line in (self._root / "stat").read_text(encoding="utf-8").splitlines():
            if line.startswith("btime "):
                after_boot_ns = ticks_after_boot * NANOS_PER_SECOND // os.sysconf("SC_CLK_TCK")
                return int(line.split()[1]) * NANOS_PER_SECOND + after_boot_ns
        return None


def _parse_real_uid(status: str) -> int | None:
    # Not the owner of the /proc directory: that is root for a program that may not be dumped.
    for line in status.splitlines():
        if line.startswith("Uid:"):
            return int(line.split()[1])
    return None
