"""Reports the GPU time of containers: every ten minutes, and finally when they end.

A container's running sum is lost when its preparation is undone. So the sum is stored in a file
before, and is reported until the ledger has removed the container's entry. If the agent dies
meanwhile, the next one reports it.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path

from gpupool.base.durable import write_durably
from gpupool.kubernetes.resources.gpu_node_status import SlotUse
from gpupool.kubernetes.resources.gpu_time import GpuTime

#: Each time is a write of the node's status, where anything was used since.
REPORT_SECONDS = 600.0
Key = tuple[str, str]

log = logging.getLogger(__name__)


class GpuTimeRecord:
    """GPU time of the containers of one node. Not thread-safe.

    Args:
        look: GPU time of a container so far; None if not measured.
    """

    def __init__(
        self,
        file: Path,
        look: Callable[[str, str], GpuTime | None],
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self._file = file
        self._look = look
        self._seconds = seconds
        self._over = {one.key: one for one in _read(file)}
        self._reported: dict[Key, GpuTime] = {}
        self._next = seconds() + REPORT_SECONDS

    def sums_so_far(self, prepared: Collection[Key]) -> Mapping[Key, GpuTime]:
        """By container, the GPU time to report now, of the prepared ones."""
        if self._seconds() >= self._next:
            self._next = self._seconds() + REPORT_SECONDS
            looked = {key: self._look(*key) for key in prepared}
            reported = {}
            for key, spent in looked.items():
                if spent is not None:
                    reported[key] = spent.limit_sums()
            self._reported = reported
        return self._reported

    def close_entry(self, key: Key, generation: int) -> None:
        """Store the final sum of a container before its preparation is undone; idempotent."""
        spent = self._look(*key)
        if spent is not None:
            spent = spent.limit_sums()
            self._over[key] = SlotUse(*key, generation=generation, released=True, spent=spent)
            self._write()

    def closed_uses(self, held: Collection[Key], prepared: Collection[Key]) -> list[SlotUse]:
        """Final sums of containers whose entries the ledger still has; others are forgotten."""
        gone = []
        for key in self._over:
            if key not in held:
                gone.append(key)
        for key in gone:
            del self._over[key]
        if gone:
            # A full disk must not keep the node from reporting. What stays in the file is forgotten
            # by the next agent too: the ledger does not have it.
            try:
                self._write()
            except OSError as error:
                log.warning("%s keeps sums of entries that are gone: %s", self._file, error)
        uses = []
        for key, one in sorted(self._over.items()):
            if key not in prepared:
                uses.append(one)
        return uses

    def _write(self) -> None:
        write_durably(
            self._file, json.dumps([one.to_json() for one in self._over.values()]).encode()
        )


def _read(file: Path) -> Iterable[SlotUse]:
    """What an agent before this one had closed."""
    try:
        return [SlotUse.from_json(one) for one in json.loads(file.read_text())]
    except (FileNotFoundError, ValueError, KeyError):
        return []
