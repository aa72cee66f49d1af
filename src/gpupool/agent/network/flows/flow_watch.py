"""Follows the log of this machine's controller, which its supervisor writes and rotates.

What an agent missed it reads later, as far back as the log goes: two files of 1 MiB.
"""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path
from typing import Final

from gpupool.agent.network.daemons import EngineFiles
from gpupool.agent.network.flows.flow_lines import join_lines
from gpupool.agent.network.flows.meter_drops import read_meter_drops
from gpupool.agent.supervisor.job_log import log_end, read_log
from gpupool.base.errors import NetworkingUnavailable
from gpupool.network.flows.rows import parse_meter
from gpupool.wire.network.flows import FlowReport

#: Bytes of the log that one look reads at most.
_PIECE: Final = 1 << 20
#: Seconds between two looks at the meters.
_METER_SECONDS: Final = 5.0

log = logging.getLogger(__name__)


class FlowWatch:
    """The log of one machine. One thread at a time."""

    def __init__(self, files: EngineFiles, root: Path) -> None:
        """Make the object; nothing is read yet.

        Args:
            root: the engine's directory.
        """
        self._files = files
        self._log = root / "daemons" / "controller"
        self._cursor = root / "flow-cursor"
        self._run = os.urandom(8).hex()
        self._number = 0
        #: Packets that meters had dropped at the last look, by meter.
        self._drops: dict[str, int] | None = None
        self._meters_due = 0.0

    def read(self, *, is_wanted: bool) -> list[FlowReport]:
        """Read what is new: no report or one.

        Args:
            is_wanted: some network of the pool has a flow log.
        """
        if not is_wanted:
            self._cursor.unlink(missing_ok=True)
            self._drops = None
            return []
        skipped = self._read_skipped()
        try:
            lines, lost_bytes = self._read_lines()
        except OSError as error:
            # Rotated faster than it is read, or removed with the engine: the next look reads on.
            log.warning("the log of flows is not read: %s", error)
            lines = []
            lost_bytes = 0
        records = join_lines(lines)
        if not (records or skipped or lost_bytes):
            return []
        self._number += 1
        report = FlowReport(
            run=self._run,
            number=self._number,
            records=records,
            skipped_packets=skipped,
            lost_bytes=lost_bytes,
        )
        return [report]

    def _read_lines(self) -> tuple[list[str], int]:
        """Read whole lines behind the cursor, and the bytes that were rotated away before them."""
        if not self._log.is_dir():
            return [], 0
        begin = self._read_cursor()
        if begin > log_end(self._log):
            # It is the log of another engine, which was switched off.
            begin = 0
        chunk = read_log(self._log, begin, _PIECE)
        whole, newline, _ = chunk.data.rpartition(b"\n")
        end = chunk.offset + len(whole) + len(newline)
        if end != begin:
            self._write_cursor(end)
        # What was written before this agent read for the first time is not missed.
        lost_bytes = chunk.dropped_bytes if begin else 0
        return whole.decode(errors="replace").splitlines(), lost_bytes

    def _read_cursor(self) -> int:
        try:
            return int(self._cursor.read_text())
        except (FileNotFoundError, ValueError):
            return 0

    def _write_cursor(self, offset: int) -> None:
        # After a crash of the machine the log is another one, so it need not be durable.
        temporary = self._cursor.with_suffix(".tmp")
        temporary.write_text(str(offset))
        temporary.rename(self._cursor)

    def _read_skipped(self) -> dict[str, int]:
        """Count the packets above the rate since the last look, by network."""
        now = time.monotonic()
        if now < self._meters_due:
            return {}
        self._meters_due = now + _METER_SECONDS
        try:
            drops = read_meter_drops(self._files)
        except NetworkingUnavailable as error:
            log.warning("packets that flow logs skip are not counted: %s", error)
            return {}
        # What was dropped before the first look belongs to a report of an earlier agent.
        before = drops if self._drops is None else self._drops
        self._drops = drops
        skipped = dict[str, int]()
        for name, count in drops.items():
            # A meter that was made meanwhile, or in a switch that was restarted, began at zero.
            known = before.get(name, 0)
            more = count - known if count >= known else count
            network = parse_meter(name)
            if network is not None and more > 0:
                skipped[network] = skipped.get(network, 0) + more
        return skipped
