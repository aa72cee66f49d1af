"""The engine of zone 0 gives the others their work, and reports them with itself."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from gpupool.agent.network.zones.zone_engines import ZoneEngines
from gpupool.agent.network.zones.zone_files import list_zones, locate_zone
from gpupool.agent.supervisor.client import SupervisorError
from gpupool.wire.network.engine import NetworkEngineReport, NetworkEngineWork
from gpupool.wire.network.flows import FlowReport
from gpupool.wire.network.mirrors import MirrorReading
from gpupool.wire.network.promises import LimitReading

READY = NetworkEngineReport(state="ready", northbound="unix:/zero")


class RecordingEngine:
    """What an engine was asked for."""

    def __init__(self, report: Callable[[NetworkEngineReport], None], zone: int) -> None:
        self.report = report
        self.zone = zone
        self.work: list[NetworkEngineWork] = []
        self.is_closed = False

    def apply_work(self, work: NetworkEngineWork | None) -> None:
        assert work is not None
        self.work.append(work)

    def close(self) -> None:
        self.is_closed = True

    def join(self, seconds: float) -> None:
        pass


class Zones(ZoneEngines):
    """Zones with their engines at hand."""

    def __init__(self, root: Path) -> None:
        self.made: dict[int, RecordingEngine] = {}
        self.wakes = 0
        super().__init__(root, os.geteuid(), self._make, self._count_wake)

    def _make(self, report: Callable[[NetworkEngineReport], None], zone: int) -> RecordingEngine:
        self.made[zone] = RecordingEngine(report, zone)
        return self.made[zone]

    def _count_wake(self) -> None:
        self.wakes += 1


def test_zones_wait_until_zone_0_is_ready(tmp_path: Path) -> None:
    zones = Zones(tmp_path)
    work = NetworkEngineWork(want="run", zones=[1, 2])
    assert zones.follow(work, NetworkEngineReport(state="failed")).zones == []
    assert zones.made == {}
    zones.follow(work, READY)
    zones.follow(work, READY)
    assert [len(zones.made[zone].work) for zone in (1, 2)] == [1, 1]


def test_a_zone_that_is_not_wanted_is_closed_and_removed(tmp_path: Path) -> None:
    zones = Zones(tmp_path)
    zones.follow(NetworkEngineWork(want="run", zones=[1]), READY)
    for zone in (1, 2):
        # The second is of an agent before this one.
        locate_zone(tmp_path, zone).mkdir(parents=True)
    zones.made[1].report(READY)
    report = zones.follow(NetworkEngineWork(want="run"), READY)
    assert zones.made[1].is_closed
    assert list_zones(tmp_path) == []
    assert report.zones == []
    # A report of its last moment changes nothing.
    zones.made[1].report(READY)
    assert zones.follow(NetworkEngineWork(want="run"), READY).zones == []


def test_what_zones_report_is_in_the_report_of_zone_0(tmp_path: Path) -> None:
    zones = Zones(tmp_path)
    work = NetworkEngineWork(want="run", zones=[1, 2])
    zones.follow(work, READY)
    flow = FlowReport(run="r", number=1, lost_bytes=7)
    reading = LimitReading(key="n-1", in_kbit=5)
    zones.made[1].report(
        NetworkEngineReport(
            state="ready", northbound="unix:/one", limits=[reading], flows=[flow], missing_proxy="x"
        )
    )
    zones.made[2].report(NetworkEngineReport(state="failed", reason="no memory"))
    assert zones.wakes == 2
    report = zones.follow(work, READY)
    facts = [(one.number, one.state, one.reason, one.northbound) for one in report.zones]
    assert facts == [
        (0, "ready", "", "unix:/zero"),
        (1, "ready", "", "unix:/one"),
        (2, "failed", "no memory", ""),
    ]
    assert (report.limits, report.missing_proxy) == ([reading], "x")
    # Records of flows are in one report alone.
    assert [one.lost_bytes for one in report.flows] == [7]
    assert zones.follow(work, READY).flows == []


def test_reports_of_flows_of_all_zones_are_one_sequence(tmp_path: Path) -> None:
    zones = Zones(tmp_path)
    work = NetworkEngineWork(want="run", zones=[1, 2])
    zones.follow(work, READY)
    for zone in (1, 2):
        flow = FlowReport(run=f"r-{zone}", number=5)
        zones.made[zone].report(READY.model_copy(update={"flows": [flow]}))
    own = READY.model_copy(update={"flows": [FlowReport(run="r-0", number=3)]})
    found = zones.follow(work, own).flows + zones.follow(work, own).flows
    assert [one.number for one in found] == [1, 2, 3, 4]
    assert len({one.run for one in found}) == 1


def test_the_zone_that_has_a_mirror_speaks_for_it(tmp_path: Path) -> None:
    zones = Zones(tmp_path)
    work = NetworkEngineWork(want="run", zones=[1])
    zones.follow(work, READY)
    found = MirrorReading(key="m-1", packets=7)
    zones.made[1].report(NetworkEngineReport(state="ready", mirrors=[found]))
    away = MirrorReading(key="m-1", reason="the switch does not answer")
    report = zones.follow(work, READY.model_copy(update={"mirrors": [away]}))
    assert report.mirrors == [found]


def test_a_zone_that_does_not_end_is_named_and_ended_later(tmp_path: Path) -> None:
    zones = Zones(tmp_path)
    zones.follow(NetworkEngineWork(want="run", zones=[1]), READY)
    work = NetworkEngineWork(want="run")
    locate_zone(tmp_path, 1).mkdir(parents=True)
    ends: list[int] = []

    def end(zone: int) -> None:
        ends.append(zone)
        if len(ends) == 1:
            raise SupervisorError("helper northd did not end")
        del zones.made[zone]

    zones._end = end  # type: ignore[method-assign]
    assert zones.follow(work, READY).reason == "helper northd did not end"
    assert zones.follow(work, READY).reason == ""
    zones.follow(work, READY)
    assert ends == [1, 1]
