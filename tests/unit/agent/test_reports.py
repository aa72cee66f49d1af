"""Telling the server: everything, in order, until it has answered."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpupool.agent.reports import Reporter
from gpupool.base.backoff import LAST_PAUSE_SECONDS, Backoff
from gpupool.base.errors import BadInput, PoolLost
from gpupool.wire.faults.incidents import CardFaultIn
from gpupool.wire.fleet import ReportIn
from gpupool.wire.network.planes import PlaneReading
from gpupool.wire.samples import DeviceSample, JobSample, UsageOut
from tests.support.supervised import until


class Server:
    """What the route answers: refuses while `away`, calls reports named in `stale` stale, cannot
    read `bad`."""

    def __init__(self) -> None:
        self.away = threading.Event()
        self.gate = threading.Event()
        self.gate.set()
        self.asked = 0
        self.bodies: list[dict[str, Any]] = []
        self.stale: set[str] = set()
        self.bad: set[str] = set()

    def request(self, _method: str, path: str, body: Any = None, **_: Any) -> Any:
        assert path == "nodes/host/reports"
        self.asked += 1
        self.gate.wait(10)
        if self.away.is_set():
            raise PoolLost("away")
        names = [report["allocation"] for report in body.get("reports", [])]
        if self.bad & {*names, *(sample["job"] for sample in body.get("jobs", []))}:
            raise BadInput("cannot be read")
        self.bodies.append(body)
        return {"stale": [name for name in names if name in self.stale]}

    def close(self) -> None:
        pass

    def told(self) -> list[str]:
        return [report["allocation"] for body in self.bodies for report in body.get("reports", [])]


@pytest.fixture
def server() -> Server:
    return Server()


class Telling:
    def __init__(self, server: Server, folder: Path) -> None:
        self.answers: list[tuple[str, bool]] = []
        self.reporter = Reporter("host", lambda: server, self._answered, lambda: 1.0, folder)

    def _answered(self, report: ReportIn, stale: bool) -> None:
        self.answers.append((report.allocation, stale))


@pytest.fixture
def telling(server: Server, tmp_path: Path) -> Iterator[Telling]:
    made = Telling(server, tmp_path / "faults")
    made.reporter.start()
    yield made
    server.gate.set()
    made.reporter.close()
    made.reporter.join(10)


def report(allocation: str) -> ReportIn:
    return ReportIn(allocation=allocation, generation=1, state="ended", exit_code=0)


def test_reports_arrive_in_order_and_each_is_answered_once(
    server: Server, telling: Telling
) -> None:
    names = [f"a-{n}" for n in range(50)]
    server.stale = {"a-7"}
    for name in names:
        telling.reporter.put(report(name))
    until(lambda: len(telling.answers) == 50)
    assert server.told() == names
    assert telling.answers == [(name, name == "a-7") for name in names]


def test_what_comes_while_one_is_posted_goes_together_with_the_next(
    server: Server, telling: Telling
) -> None:
    server.gate.clear()
    telling.reporter.put(report("a-0"))
    until(lambda: server.asked == 1)
    for n in range(1, 2501):
        telling.reporter.put(report(f"a-{n}"))
    server.gate.set()
    until(lambda: len(telling.answers) == 2501)
    assert [len(body["reports"]) for body in server.bodies] == [1, 1000, 1000, 500]


def test_nothing_is_lost_while_the_server_is_away(server: Server, telling: Telling) -> None:
    server.away.set()
    telling.reporter.put(report("a-1"))
    until(lambda: server.asked >= 2)
    telling.reporter.put(report("a-2"))
    telling.reporter.put_ready()
    server.away.clear()
    until(lambda: len(telling.answers) == 2)
    assert server.told() == ["a-1", "a-2"]
    assert [body.get("ready", False) for body in server.bodies][-1] is True


def test_one_report_that_cannot_be_read_does_not_hold_up_the_others(
    server: Server, telling: Telling
) -> None:
    server.bad = {"a-bad"}
    server.gate.clear()
    telling.reporter.put(report("a-0"))
    until(lambda: server.asked == 1)
    for name in ("a-1", "a-bad", "a-2"):
        telling.reporter.put(report(name))
    server.gate.set()
    until(lambda: len(telling.answers) == 3)
    assert server.told() == ["a-0", "a-1", "a-2"]


def test_readiness_comes_with_the_last_of_what_was_queued(server: Server, telling: Telling) -> None:
    server.gate.clear()
    telling.reporter.put(report("first"))
    until(lambda: server.asked == 1)
    for n in range(1500):
        telling.reporter.put(report(f"a-{n}"))
    telling.reporter.put_ready()
    server.gate.set()
    until(lambda: len(telling.answers) == 1501)
    assert [body.get("ready", False) for body in server.bodies] == [False, False, True]


def test_samples_of_more_cards_than_one_request_takes_lose_no_report(
    server: Server, telling: Telling
) -> None:
    server.gate.clear()
    telling.reporter.put(report("first"))
    until(lambda: server.asked == 1)
    names = {f"GPU-{n}" for n in range(1500)}
    devices = [DeviceSample(uuid=name, usage=UsageOut()) for name in sorted(names)]
    telling.reporter.put_samples(devices, [JobSample(job=f"j-{n}") for n in range(11_000)])
    telling.reporter.put(report("second"))
    telling.reporter.put_ready()
    server.gate.set()
    until(lambda: any(body.get("ready") for body in server.bodies), "the mark")
    assert server.told() == ["first", "second"]
    until(lambda: count_told(server, "devices") == len(names), "all cards")
    until(lambda: count_told(server, "jobs") == 11_000, "all jobs")


def test_one_sample_that_is_refused_loses_no_other(server: Server, telling: Telling) -> None:
    """Before, a job that filled the slots of its fence cost its node the samples of all jobs."""
    server.bad = {"j-7"}
    devices = [DeviceSample(uuid=f"GPU-{n}", usage=UsageOut()) for n in range(3)]
    telling.reporter.put_samples(devices, [JobSample(job=f"j-{n}") for n in range(20)])
    until(lambda: count_told(server, "jobs") == 19, "the samples of the other jobs")
    assert count_told(server, "devices") == 3


def count_told(server: Server, part: str) -> int:
    return sum(len(body.get(part, ())) for body in list(server.bodies))


def test_a_younger_sample_replaces_one_that_could_not_be_told(
    server: Server, telling: Telling
) -> None:
    server.away.set()
    telling.reporter.put_samples(
        [DeviceSample(uuid="G", usage=UsageOut(utilization_percent=1))], []
    )
    until(lambda: server.asked >= 2)
    telling.reporter.put_samples(
        [DeviceSample(uuid="G", usage=UsageOut(utilization_percent=2))], []
    )
    server.away.clear()
    until(lambda: server.bodies)
    assert [body["devices"][0]["usage"]["utilization_percent"] for body in server.bodies] == [2]


def test_pauses_double_to_a_limit_and_are_shortened_by_chance() -> None:
    pauses = [Backoff(lambda: 0.0)]
    seen = [pauses[0].pause() for _ in range(12)]
    assert seen[:3] == [0.05, 0.1, 0.2]
    assert seen[-1] == LAST_PAUSE_SECONDS
    assert Backoff(lambda: 1.0).pause() == 0.025
    pauses[0].reset()
    assert pauses[0].pause() == 0.05


def test_the_newest_reading_of_planes_is_posted_until_it_arrives(
    server: Server, telling: Telling
) -> None:
    server.away.set()
    telling.reporter.put_planes(PlaneReading(node="node-1", nvme_hosts=["old"]))
    until(lambda: server.asked > 0)
    telling.reporter.put_planes(PlaneReading(node="node-1", nvme_hosts=["new"]))
    server.away.clear()
    until(lambda: bool(server.bodies))
    assert [body["planes"]["nvme_hosts"] for body in server.bodies] == [["new"]]


def test_an_xid_is_told_again_by_the_next_agent_until_the_server_has_it(
    server: Server, telling: Telling, tmp_path: Path
) -> None:
    server.away.set()
    fault = CardFaultIn(uuid="GPU/../1", xid=79, at_ns=5, recovery="node-reboot")
    telling.reporter.put_fault(fault)
    until(lambda: server.asked >= 1)
    telling.reporter.close()
    telling.reporter.join(10)
    server.away.clear()
    following = Telling(server, tmp_path / "faults")
    following.reporter.start()
    until(lambda: not list((tmp_path / "faults").iterdir()))
    following.reporter.close()
    following.reporter.join(10)
    assert [body["faults"] for body in server.bodies] == [[fault.model_dump()]]


def test_of_too_many_xids_the_newest_reach_the_server(
    server: Server, telling: Telling, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpupool.agent.reports.MOST_WAITING", 3)
    folder = tmp_path / "faults"
    server.gate.clear()
    faults = [CardFaultIn(uuid="GPU-1", xid=79, at_ns=at_ns) for at_ns in range(1, 7)]
    telling.reporter.put_fault(faults[0])
    until(lambda: server.asked == 1)
    for fault in faults[1:]:
        telling.reporter.put_fault(fault)
    # The first one is on its way.
    assert sorted(int(path.name[0]) for path in folder.iterdir()) == [1, 4, 5, 6]
    server.away.set()
    server.gate.set()
    until(lambda: sorted(int(path.name[0]) for path in folder.iterdir()) == [4, 5, 6])
    server.away.clear()
    until(lambda: not list(folder.iterdir()))
    told = [fault["at_ns"] for body in server.bodies for fault in body["faults"]]
    assert told == [4, 5, 6]
