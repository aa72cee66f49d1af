"""Which drivers and limits the processes of a fenced job see and have mapped: what could be mounted over them.

Reads /proc; asks no card and answers nothing. What is found here is in a process's own mappings or in its mount
namespace, so a forged page is found even if it was mounted for a moment only (docs/concepts/fence.md).
"""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from gpupool.audit import process_look
from gpupool.audit.findings import Finding
from gpupool.mechanisms.driver_files import known_drivers
from gpupool.mechanisms.fence import FencedFiles
from gpupool.mechanisms.regions import GRANTS_MAGIC, LIMITS_MAGIC


@dataclass(frozen=True)
class FencedJob:
    """A running job whose allocation has a fence. `mounted` is false where only variables could be set."""

    job: str
    allocation: str
    supervisor_pid: int
    mounted: bool = True


class SightCheck:
    """`base` is where the jobs of this agent find their share; `driver_root` is where the agent sees the root of the
    driver's files. Not thread-safe.
    """

    def __init__(self, state_dir: Path, base: str, driver_root: Path = Path("/")) -> None:
        self._state_dir, self._base, self._driver_root = state_dir, base, driver_root
        self._libraries: dict[str, frozenset[int]] = {}

    def forget(self, live: Collection[str]) -> None:
        """Keep these allocations alone."""
        for gone in self._libraries.keys() - set(live):
            del self._libraries[gone]

    def findings(self, one: FencedJob, known: FencedFiles, pids: Collection[int]) -> list[Finding]:
        """What is wrong with these processes, and with the job's own mount namespace."""
        try:
            found = self._of_processes(one, known, pids)
            return found if any(each.kind == "mount" for each in found) else [*found, *self._of_namespace(one, known)]
        except FileNotFoundError:
            return []  # it has ended, or a page is gone, which is found elsewhere

    def _of_processes(self, one: FencedJob, known: FencedFiles, pids: Collection[int]) -> list[Finding]:
        findings: list[Finding] = []
        pages = _pages(known)
        libraries = self._libraries.setdefault(one.allocation, known_drivers(self._state_dir, self._driver_root))
        for pid in sorted(pids):
            if path := process_look.other_driver(pid, libraries):
                findings.append(Finding("driver", f"process {pid} has another CUDA driver mapped: {path}", pid))
            if one.mounted and self._sees_other_pages(pid, known, or_none=True):
                findings.append(Finding("mount", f"process {pid} does not see its limits at {self._base}/share", pid))
            elif process_look.maps_other_page(pid, pages):
                findings.append(Finding("mount", f"process {pid} has other limits mapped than its own", pid))
        return findings

    def _of_namespace(self, one: FencedJob, known: FencedFiles) -> list[Finding]:
        """Of the mount namespace that the supervisor made, and its first process is in: who starts there believes what
        it shows. A program that went to another root sees no page, and gets no card.
        """
        first = process_look.children(one.supervisor_pid) if one.mounted else ()
        over = [pid for pid in first if self._sees_other_pages(pid, known, or_none=False)]
        return [Finding("mount", f"other limits are mounted over {self._base}/share of the job", pid) for pid in over]

    def _sees_other_pages(self, pid: int, known: FencedFiles, *, or_none: bool) -> bool:
        """Whether the process finds other pages than its own where the fence looks for them."""
        for path in (known.limits, known.grants):
            place, expected = f"{self._base}/share/{path.name}", os.stat(path)
            if process_look.sees_other_file(pid, place, expected, or_none=or_none):
                return True
        return False


def _pages(known: FencedFiles) -> dict[bytes, os.stat_result]:
    """By their first bytes the pages that a process of the job may have mapped. Raises FileNotFoundError."""
    magics = {LIMITS_MAGIC: known.limits, GRANTS_MAGIC: known.grants}
    return {magic.to_bytes(process_look.MAGIC_BYTES, "little"): os.stat(path) for magic, path in magics.items()}
