"""The engines of zones above 0, as the engine of zone 0 starts, watches and ends them.

Each has threads of its own, so a zone that starts or fails keeps no other waiting.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Final, Protocol

from gpupool.agent.network.daemons import DAEMONS
from gpupool.agent.network.engine_end import end_engine, make_helpers
from gpupool.agent.network.zones.zone_files import list_zones, locate_zone
from gpupool.agent.network.zones.zone_work import select_zone
from gpupool.agent.supervisor.client import SupervisorError
from gpupool.wire.network.engine import NetworkEngineReport, NetworkEngineWork
from gpupool.wire.network.flows import FlowReport
from gpupool.wire.network.mirrors import MirrorReading
from gpupool.wire.network.promises import LimitReading
from gpupool.wire.network.zones import NetworkZoneReport

#: Seconds in which the threads of an engine have to end.
_END_SECONDS: Final = 60.0


class ZoneEngine(Protocol):
    """The engine of one zone."""

    def apply_work(self, work: NetworkEngineWork | None) -> None: ...
    def close(self) -> None: ...
    def join(self, seconds: float) -> None: ...


#: Makes the engine of a zone, which calls what it is given with each report.
MakeEngine = Callable[[Callable[[NetworkEngineReport], None], int], ZoneEngine]


class ZoneEngines:
    """The engines of the zones above 0. `follow` and `end` are called by one thread."""

    def __init__(
        self,
        root: Path,
        owner_uid: int,
        make_engine: MakeEngine,
        wake: Callable[[], None],
    ) -> None:
        """Make the object; nothing runs yet.

        Args:
            root: the directory of zone 0's engine.
            wake: called when a zone has news; never blocks.
        """
        self._root = root
        self._owner_uid = owner_uid
        self._make_engine = make_engine
        self._wake = wake
        self._lock = threading.Lock()
        self._engines: dict[int, ZoneEngine] = {}
        self._reports: dict[int, NetworkEngineReport] = {}
        #: Each goes into one report.
        self._flows: list[FlowReport] = []
        #: The server knows by both which report of flows of this agent it has applied.
        self._run = os.urandom(8).hex()
        self._number = 0
        self._work: NetworkEngineWork | None = None

    def follow(self, work: NetworkEngineWork, report: NetworkEngineReport) -> NetworkEngineReport:
        """Run the zones that are wanted, and return the report of zone 0 with theirs.

        Zones begin when zone 0 is ready: its switch has the uplink.
        """
        if report.state == "ready" and work is not self._work:
            for zone in work.zones:
                self._apply(zone, work)
            try:
                for zone in {*self._engines, *list_zones(self._root)} - {*work.zones}:
                    self._end(zone)
            except SupervisorError as error:
                # At the next look again.
                return self._merge(report.model_copy(update={"reason": str(error)[:400]}))
            self._work = work
        return self._merge(report)

    def end(self) -> None:
        """End the engines of all zones, and remove all of them. Idempotent.

        Raises SupervisorError where a process does not end.
        """
        self._work = None
        for zone in {*self._engines, *list_zones(self._root)}:
            self._end(zone)

    def close(self) -> None:
        """Stop watching; the daemons go on. Idempotent."""
        for engine in list(self._engines.values()):
            engine.close()

    def join(self, seconds: float) -> None:
        for engine in list(self._engines.values()):
            engine.join(seconds)

    def _apply(self, zone: int, work: NetworkEngineWork) -> None:
        if zone not in self._engines:
            self._engines[zone] = self._make_engine(partial(self._note, zone), zone)
        self._engines[zone].apply_work(select_zone(work, zone))

    def _end(self, zone: int) -> None:
        engine = self._engines.pop(zone, None)
        if engine is not None:
            engine.close()
            engine.join(_END_SECONDS)
        with self._lock:
            self._reports.pop(zone, None)
        end_engine(locate_zone(self._root, zone), self._owner_uid)

    def _note(self, zone: int, report: NetworkEngineReport) -> None:
        with self._lock:
            if zone not in self._engines:
                return
            self._flows += report.flows
            self._reports[zone] = report.model_copy(update={"flows": []})
        self._wake()

    def _merge(self, report: NetworkEngineReport) -> NetworkEngineReport:
        with self._lock:
            reports = {zone: self._reports[zone] for zone in sorted(self._reports)}
            flows = [*report.flows, *self._flows]
            self._flows = []
        report = report.model_copy(update={"flows": [self._count_flows(one) for one in flows]})
        if not reports:
            return report
        found = list(reports.values())
        missing = (one.missing_proxy for one in (report, *found))
        zones = [self._describe(zone, one) for zone, one in {0: report, **reports}.items()]
        return report.model_copy(
            update={
                "zones": zones,
                "proxies": list(chain(report.proxies, *(one.proxies for one in found))),
                "missing_proxy": next(filter(None, missing), ""),
                "limits": _join_limits([report, *found]),
                "mirrors": _join_mirrors([report, *found]),
            }
        )

    def _count_flows(self, report: FlowReport) -> FlowReport:
        """Number a report of flows: those of all zones are one sequence."""
        self._number += 1
        return report.model_copy(update={"run": self._run, "number": self._number})

    def _describe(self, zone: int, report: NetworkEngineReport) -> NetworkZoneReport:
        helpers = make_helpers(locate_zone(self._root, zone), self._owner_uid)
        return NetworkZoneReport(
            number=zone,
            state="starting" if report.state == "stopped" else report.state,
            reason=report.reason,
            northbound=report.northbound,
            daemons=sum(map(helpers.is_running, DAEMONS)),
        )


def _join_limits(reports: list[NetworkEngineReport]) -> list[LimitReading] | None:
    """Join what was read back of limits; None where no zone has news."""
    news = [one.limits for one in reports if one.limits is not None]
    return list(chain(*news)) if news else None


def _join_mirrors(reports: list[NetworkEngineReport]) -> list[MirrorReading]:
    """Join what was read back of mirrors: a zone that cannot look fails all, and one has each."""
    found = dict[str, MirrorReading]()
    for reading in chain(*(one.mirrors for one in reports)):
        known = found.get(reading.key)
        if known is None or known.reason:
            found[reading.key] = reading
    return list(found.values())
