"""Checks which drivers and limits the processes of a fenced job see and have mapped.

Reads /proc, queries no card and reacts to nothing. It looks at a process's own mappings and at its
mount namespace, so a forged page is found even if it was mounted for a moment only
(docs/concepts/fence.md).
"""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from gpupool.audit import proc_reader
from gpupool.audit.findings import AuditFinding
from gpupool.mechanisms.driver.driver_files import list_known_drivers
from gpupool.mechanisms.fenced_files import FencedFiles
from gpupool.mechanisms.regions import GRANTS_MAGIC, LIMITS_MAGIC


@dataclass(frozen=True)
class FencedJob:
    """A running job whose allocation has a fence.

    Attributes:
        mounted: whether the fence's files are mounted; false where only variables could be set.
    """

    job: str
    allocation: str
    supervisor_pid: int
    mounted: bool = True


class MappingCheck:
    """Checks the mappings of fenced processes. Not thread-safe.

    Args:
        base: directory in which the jobs of this agent find their share.
        driver_root: where the agent sees the root of the driver's files.
    """

    def __init__(self, state_dir: Path, base: str, driver_root: Path = Path("/")) -> None:
        self._state_dir = state_dir
        self._base = base
        self._driver_root = driver_root
        self._libraries: dict[str, frozenset[int]] = {}

    def keep_only(self, live: Collection[str]) -> None:
        """Forget every allocation that is not in `live`."""
        for gone in self._libraries.keys() - set(live):
            del self._libraries[gone]

    def check_job(
        self, one: FencedJob, known: FencedFiles, pids: Collection[int]
    ) -> list[AuditFinding]:
        """Return the findings of these processes and of the job's own mount namespace."""
        try:
            found = self._check_mappings(one, known, pids)
            if any(each.kind == "mount" for each in found):
                return found
            return [*found, *self._check_namespace(one, known)]
        except FileNotFoundError:
            return []  # the job has ended, or a page is gone, which `ledger_check` finds

    def _check_mappings(
        self, one: FencedJob, known: FencedFiles, pids: Collection[int]
    ) -> list[AuditFinding]:
        findings: list[AuditFinding] = []
        pages = _list_pages(known)
        seen = self._libraries.setdefault(
            one.allocation, list_known_drivers(self._state_dir, self._driver_root)
        )
        # The host's driver may have been replaced since, and this agent started after that.
        libraries = seen | known.drivers
        for pid in sorted(pids):
            if path := proc_reader.find_other_driver(pid, libraries):
                findings.append(
                    AuditFinding(
                        "driver", f"process {pid} has another CUDA driver mapped: {path}", pid
                    )
                )
            if one.mounted and self._sees_other_pages(pid, known, or_none=True):
                findings.append(
                    AuditFinding(
                        "mount", f"process {pid} does not see its limits at {self._base}/share", pid
                    )
                )
            elif proc_reader.maps_other_page(pid, pages):
                findings.append(
                    AuditFinding(
                        "mount", f"process {pid} has other limits mapped than its own", pid
                    )
                )
        return findings

    def _check_namespace(self, one: FencedJob, known: FencedFiles) -> list[AuditFinding]:
        """Check the mount namespace that the supervisor created, in which its first process is.

        Processes that start there believe what it shows. A program that changed to another root
        sees no page, and gets no card.
        """
        first = proc_reader.list_children(one.supervisor_pid) if one.mounted else ()
        findings = []
        text = f"other limits are mounted over {self._base}/share of the job"
        for pid in first:
            if self._sees_other_pages(pid, known, or_none=False):
                findings.append(AuditFinding("mount", text, pid))
        return findings

    def _sees_other_pages(self, pid: int, known: FencedFiles, *, or_none: bool) -> bool:
        """Whether the process finds other pages than its own where the fence looks for them."""
        for path in (known.limits, known.grants):
            place = f"{self._base}/share/{path.name}"
            expected = os.stat(path)
            if proc_reader.sees_other_file(pid, place, expected, or_none=or_none):
                return True
        return False


def _list_pages(known: FencedFiles) -> dict[bytes, os.stat_result]:
    """Return the pages that a process of the job may have mapped, by their first bytes.

    Raises:
        FileNotFoundError: a page is gone.
    """
    pages = {}
    for magic, path in ((LIMITS_MAGIC, known.limits), (GRANTS_MAGIC, known.grants)):
        pages[magic.to_bytes(proc_reader.MAGIC_BYTES, "little")] = os.stat(path)
    return pages
