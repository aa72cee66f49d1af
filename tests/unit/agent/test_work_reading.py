"""Work of a later server: what has an unknown demand is refused alone, and the rest is done."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpupool.agent.work_reading import WorkReader
from gpupool.wire.fleet import ReportIn
from gpupool.wire.modes import ModeReport, ModeWork
from gpupool.wire.network.engine import NetworkEngineReport, NetworkEngineWork
from tests.support.recorded_releases import RELEASE_0_1_0

LATER = "added_later"


class Reports:
    """Keeps what an agent reports."""

    def __init__(self) -> None:
        self.jobs = list[ReportIn]()
        self.modes = list[ModeReport]()
        self.network = list[NetworkEngineReport]()

    def put(self, report: ReportIn) -> None:
        self.jobs.append(report)

    def put_modes(self, reports: Sequence[ModeReport]) -> None:
        self.modes += reports

    def put_network(self, report: NetworkEngineReport) -> None:
        self.network.append(report)


def make_work(allocation: str, **more: Any) -> dict[str, Any]:
    return {**RELEASE_0_1_0["WorkPage"]["work"][0], "allocation": allocation, **more}


def test_a_job_with_an_unknown_demand_is_refused_and_the_others_start() -> None:
    reports = Reports()
    seat = {**RELEASE_0_1_0["WorkPage"]["work"][0]["seats"][0], LATER: "strict"}
    answer = {
        "cursor": 7,
        "live": ["a", "b"],
        "work": [make_work("a", seats=[seat]), make_work("b", **{LATER: None})],
    }
    page = WorkReader(reports).read_page(answer)
    assert [work.allocation for work in page.work] == ["b"]
    assert (page.cursor, page.live) == (7, ["a", "b"])
    (report,) = reports.jobs
    assert (report.allocation, report.generation, report.state) == ("a", 3, "ended")
    assert report.exit_code == 126
    assert f"does not know seats.{LATER}: upgrade gpupool there" in report.reason


def test_what_ends_or_runs_already_is_done_whatever_is_unknown() -> None:
    reports = Reports()
    works = [
        make_work("a", want="stop", **{LATER: "on"}),
        make_work("b", started=True, **{LATER: "on"}),
    ]
    page = WorkReader(reports).read_page({"cursor": 7, "work": works})
    assert [work.allocation for work in page.work] == ["a", "b"]
    assert reports.jobs == []


def test_a_switch_of_a_card_with_an_unknown_demand_fails_with_its_name() -> None:
    reports = Reports()
    modes = [{"uuid": "GPU-1", "mode": "mig", LATER: "on"}, {"uuid": "GPU-2", "mode": "mig"}]
    page = WorkReader(reports).read_page({"cursor": 7, "work": [], "modes": modes})
    assert page.modes == [ModeWork(uuid="GPU-2", mode="mig")]
    (report,) = reports.modes
    assert (report.uuid, report.mode, report.state) == ("GPU-1", "mig", "failed")
    assert LATER in report.reason


def test_networks_are_not_well_while_an_unknown_demand_is_withheld() -> None:
    reports = Reports()
    reader = WorkReader(reports)
    well = NetworkEngineReport(state="ready")
    demanding = {"cursor": 7, "work": [], "network": {"want": "run", LATER: [1]}}
    assert reader.read_page(demanding).network is None
    # A page without news of networks changes nothing.
    assert reader.read_page({"cursor": 8, "work": []}).network is None
    reader.put_network(well)
    assert [report.state for report in reports.network] == ["failed", "failed"]
    assert all(f"does not know {LATER}" in report.reason for report in reports.network)
    plain = {"cursor": 9, "work": [], "network": {"want": "run", LATER: []}}
    assert reader.read_page(plain).network == NetworkEngineWork(want="run")
    reader.put_network(well)
    assert reports.network[-1] == well


def test_networks_end_whatever_is_unknown() -> None:
    reports = Reports()
    answer = {"cursor": 7, "work": [], "network": {"want": "stop", LATER: "on"}}
    assert WorkReader(reports).read_page(answer).network == NetworkEngineWork(want="stop")
    assert reports.network == []
