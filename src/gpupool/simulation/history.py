"""A pool's event log cut down to what a replay of its last days needs, and the waits that the log itself tells.

Events are taken one by one, so that of a long log only what is needed is kept. Cards and quotas count from whenever
they were; jobs from the first instant that is wanted.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from gpupool.base.errors import HistoryTooShort
from gpupool.simulation.eventlog import Log, read_log
from gpupool.simulation.trace import DEFAULT_TENANT, Trace

MOST_EVENTS = 1_000_000
"""Some 700 MB while they are read."""

_LASTING = ("device.added", "tenant.created", "quota.changed")
_JOBS = ("job.submitted", "job.placed", "job.requeued", "job.ended")


class History:
    """The events that count; `since_ns` is the first instant from which jobs do."""

    def __init__(self, since_ns: int) -> None:
        self._since_ns = since_ns
        self._lines: list[str] = []
        self._submitted: dict[tuple[str, str], int] = {}
        self._placed = False
        self.waits_ns: list[int] = []
        """As the pool had them: of single jobs, from submission to the first start."""

    def take(self, events: Iterable[Mapping[str, Any]]) -> None:
        """The next events of the log. Raises HistoryTooShort where they are too many for this machine."""
        for event in events:
            kind = event["kind"]
            if kind in _LASTING or (kind in _JOBS and event["at_ns"] >= self._since_ns):
                self._lines.append(json.dumps(event))
                self._note(kind, event)
        if len(self._lines) > MOST_EVENTS:
            raise HistoryTooShort(
                f"more than {MOST_EVENTS} events, which is more than a replay reads", hint="less of it: --history 3d"
            )

    def trace(self, name: str) -> Trace:
        """Raises HistoryTooShort where no job was placed; BadTrace."""
        if not self._placed:
            raise HistoryTooShort(f"{name} tells of no job that was placed", hint="further back: --history 90d")
        return self.log(name).trace

    def log(self, name: str) -> Log:
        """The same with what the pool decided. Raises BadTrace."""
        return read_log(name, "\n".join(self._lines))

    def _note(self, kind: str, event: Mapping[str, Any]) -> None:
        data = event["data"]
        self._placed = self._placed or kind == "job.placed"
        job = event.get("tenant") or DEFAULT_TENANT, str(data.get("name"))
        if kind == "job.submitted" and int(data.get("count", 1)) == 1 and not data.get("gang"):
            self._submitted[job] = event["at_ns"]
        elif kind == "job.placed" and job in self._submitted:
            self.waits_ns.append(event["at_ns"] - self._submitted.pop(job))
