"""Reduce a pool's event log to what a replay of its last days needs.

Events are added one by one, so only those that count stay in memory. Cards, tenants and quotas
count from the log's beginning; jobs count from the first instant that the caller wants.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from gpupool.base.errors import HistoryTooShort
from gpupool.simulation.traces.eventlog import EventLog, read_log
from gpupool.simulation.traces.trace import DEFAULT_TENANT, WorkloadTrace

#: Events that are kept: some 700 MB while they are read.
MOST_EVENTS = 1_000_000

#: Kinds that change the pool itself; one of a year ago still says what the pool is today.
_LASTING = ("device.added", "tenant.created", "quota.changed")
_JOBS = ("job.submitted", "job.placed", "job.requeued", "job.ended")


class EventHistory:
    """The events of a log that a replay needs; jobs count from `since_ns` on."""

    def __init__(self, since_ns: int) -> None:
        self._since_ns = since_ns
        self._lines: list[str] = []
        self._submitted: dict[tuple[str, str], int] = {}
        self._placed = False
        #: Waits in the real pool: of single jobs, from submission to the first start.
        self.waits_ns: list[int] = []

    def add_events(self, events: Iterable[Mapping[str, Any]]) -> None:
        """Add the next events of the log.

        Raises:
            HistoryTooShort: for more events than this machine's memory should hold.
        """
        for event in events:
            kind = event["kind"]
            if kind in _LASTING or (kind in _JOBS and event["at_ns"] >= self._since_ns):
                self._lines.append(json.dumps(event))
                self._note_event(kind, event)
        if len(self._lines) > MOST_EVENTS:
            raise HistoryTooShort(
                f"more than {MOST_EVENTS} events, which is more than a replay reads",
                hint="less of it: --history 3d",
            )

    def build_trace(self, name: str) -> WorkloadTrace:
        """Build the trace.

        Raises:
            HistoryTooShort: if no job was placed.
            BadTrace: if the events contradict each other.
        """
        if not self._placed:
            raise HistoryTooShort(
                f"{name} tells of no job that was placed", hint="further back: --history 90d"
            )
        return self.build_log(name).trace

    def build_log(self, name: str) -> EventLog:
        """Build the trace together with the starts that the pool decided. Raises BadTrace."""
        return read_log(name, "\n".join(self._lines))

    def _note_event(self, kind: str, event: Mapping[str, Any]) -> None:
        data = event["data"]
        self._placed = self._placed or kind == "job.placed"
        job = event.get("tenant") or DEFAULT_TENANT, str(data.get("name"))
        if kind == "job.submitted" and int(data.get("count", 1)) == 1 and not data.get("gang"):
            self._submitted[job] = event["at_ns"]
        # `pop`: a job that is requeued is placed again, and only its first start ends its wait.
        elif kind == "job.placed" and job in self._submitted:
            self.waits_ns.append(event["at_ns"] - self._submitted.pop(job))
