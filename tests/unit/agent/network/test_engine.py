"""An engine takes work as often as the server has news."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from queue import Queue

import pytest

from gpupool.agent.config import AgentConfig
from gpupool.agent.network import engine as engine_module
from gpupool.agent.network.engine import NetworkEngine
from gpupool.wire.network.engine import NetworkEngineReport, NetworkEngineWork

#: Until a thread has done what it does in milliseconds: a busy machine lets it wait for seconds.
LIMIT_SECONDS = 30.0
CONFIG = AgentConfig("node-1", "p-1", os.geteuid(), os.getegid())


def test_work_that_comes_twice_is_answered_twice(tmp_path: Path) -> None:
    reports: Queue[NetworkEngineReport] = Queue()
    engine = NetworkEngine(tmp_path, CONFIG, reports.put)
    try:
        for _ in range(2):
            engine.apply_work(NetworkEngineWork(want="stop"))
            assert reports.get(timeout=LIMIT_SECONDS).state == "stopped"
    finally:
        engine.close()
        engine.join(LIMIT_SECONDS)


def test_work_that_comes_during_work_is_done_as_well(tmp_path: Path) -> None:
    reports: Queue[NetworkEngineReport] = Queue()
    more = NetworkEngineWork(want="stop")

    class Interrupted(NetworkEngine):
        """One that gets news while it does the first work."""

        def _stop(self) -> NetworkEngineReport:
            if reports.empty() and self._work is not more:
                self.apply_work(more)
            return super()._stop()

    engine = Interrupted(tmp_path, CONFIG, reports.put)
    try:
        engine.apply_work(NetworkEngineWork(want="stop"))
        for _ in range(2):
            assert reports.get(timeout=LIMIT_SECONDS).state == "stopped"
    finally:
        engine.close()
        engine.join(LIMIT_SECONDS)


RUN = NetworkEngineWork(want="run")
STOP = NetworkEngineWork(want="stop")


class BusyEngine(NetworkEngine):
    """An engine whose start lasts until the test lets it go on; no daemon runs."""

    def __init__(self, place: Path) -> None:
        self.reports: list[str] = []
        self.has_report = threading.Condition()
        self.is_starting = threading.Event()
        self.may_start = threading.Event()
        super().__init__(place, CONFIG, self._note)

    def _note(self, report: NetworkEngineReport) -> None:
        with self.has_report:
            self.reports.append(report.state)
            self.has_report.notify()

    def _start(self, work: NetworkEngineWork) -> NetworkEngineReport:
        self.is_starting.set()
        assert self.may_start.wait(LIMIT_SECONDS)
        return NetworkEngineReport(state="ready")

    def _stop(self) -> NetworkEngineReport:
        return NetworkEngineReport(state="stopped")

    def wait_for(self, state: str) -> bool:
        with self.has_report:
            return self.has_report.wait_for(lambda: state in self.reports, LIMIT_SECONDS)


@pytest.mark.parametrize("times", [1, 3])
def test_a_stop_that_comes_during_a_start_follows_it(tmp_path: Path, times: int) -> None:
    engine = BusyEngine(tmp_path)
    for _ in range(times):
        engine.apply_work(RUN)
    assert engine.is_starting.wait(LIMIT_SECONDS)
    engine.apply_work(STOP)
    engine.may_start.set()
    assert engine.wait_for("stopped"), engine.reports
    assert engine.reports == ["ready", "stopped"]
    engine.close()
    engine.join(LIMIT_SECONDS)


def test_work_for_an_engine_that_closes_starts_nothing(tmp_path: Path) -> None:
    engine = BusyEngine(tmp_path)
    engine.close()
    engine.apply_work(RUN)
    assert not engine.is_starting.is_set()


def test_a_second_work_is_carried_out_by_the_same_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Without its programs the engine says what is missing, and touches nothing.
    monkeypatch.setenv("PATH", "/nonexistent")
    reports = Queue[NetworkEngineReport]()
    engine = NetworkEngine(tmp_path, CONFIG, reports.put)
    try:
        for _ in range(2):
            engine.apply_work(NetworkEngineWork(want="run"))
            report = reports.get(timeout=LIMIT_SECONDS)
            assert report.state == "failed"
            assert "ovn-northd" in report.reason
    finally:
        engine.close()
        engine.join(LIMIT_SECONDS)


@pytest.mark.parametrize("prefix", ["", "198.18.0.0/16"])
def test_gateways_that_wait_for_a_prefix_get_one_that_is_freed_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prefix: str
) -> None:
    engine = NetworkEngine(tmp_path, CONFIG, lambda _report: None)
    work = NetworkEngineWork(want="run", uplink=True)
    without = NetworkEngineReport(state="ready", reason="gateways wait: none is free")
    engine._started = without
    closed = list[bool]()

    class Ports:
        def close(self) -> None:
            closed.append(True)

    monkeypatch.setattr(engine_module, "open_ports", lambda _files: Ports())
    monkeypatch.setattr(engine._gateway, "set_up_uplink", lambda _ports, _work: (prefix, ""))
    engine._look_for_uplink(work)
    # Without a start the engine watches on, and with one it reports the prefix.
    assert engine._started == (None if prefix else without)
    assert closed == [True]
    engine.close()
