"""Whose process a pid is, from /proc: for programs that other people run on a card.

Only reads. A process may be gone at any moment, or belong to another pid namespace; what cannot be read is
None.
"""

from __future__ import annotations

import os
from pathlib import Path

from gpupool.model.device import Process


class ProcessTable:
    """The processes below `proc_root`."""

    def __init__(self, proc_root: Path = Path("/proc")) -> None:
        self._root = proc_root

    def describe(self, pid: int, memory_bytes: int | None = None) -> Process:
        """Owner, name and start of a process. Format: proc(5)."""
        try:
            status = (self._root / str(pid) / "status").read_text(encoding="utf-8", errors="replace")
            stat = (self._root / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return Process(pid, memory_bytes=memory_bytes)
        # The name stands in parentheses and may itself hold spaces and parentheses.
        name, _, rest = stat.partition("(")[2].rpartition(")")
        return Process(pid, _real_uid(status), name, memory_bytes, self._started_at_ns(int(rest.split()[19])))

    def _started_at_ns(self, ticks_after_boot: int) -> int | None:
        for line in (self._root / "stat").read_text(encoding="utf-8").splitlines():
            if line.startswith("btime "):
                after_boot_ns = ticks_after_boot * 1_000_000_000 // os.sysconf("SC_CLK_TCK")
                return int(line.split()[1]) * 1_000_000_000 + after_boot_ns
        return None


def _real_uid(status: str) -> int | None:
    """The real user; the owner of the /proc directory is root for any program that may not be dumped."""
    lines = (line.split() for line in status.splitlines() if line.startswith("Uid:"))
    return next((int(fields[1]) for fields in lines), None)
