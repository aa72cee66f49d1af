"""NVML is open once in a process, and closed while a step needs that, however it ends."""

from __future__ import annotations

import threading

import pytest

from gpupool.base.errors import ProbeSuspended, ServiceUnavailable
from gpupool.probes.nvml.driver import NvmlDriver
from gpupool.probes.nvml.gate import DriverGate


class Library:
    """Counts its starts and shutdowns as NVML does."""

    class NVMLError(Exception):
        value = 1

    NVMLLibraryMismatchError = NVMLError

    def __init__(self) -> None:
        self.open = 0
        self.starts = 0

    def nvmlInit(self) -> None:  # noqa: N802  pynvml's name
        self.open += 1
        self.starts += 1

    def nvmlShutdown(self) -> None:  # noqa: N802  pynvml's name
        assert self.open == 1
        self.open -= 1


@pytest.fixture
def library() -> Library:
    return Library()


@pytest.fixture
def gate(library: Library) -> DriverGate:
    return DriverGate(lambda: library, close_seconds=0.2)


def test_several_drivers_open_the_library_once(gate: DriverGate, library: Library) -> None:
    first, second = NvmlDriver(gate), NvmlDriver(gate)
    for driver in (first, second, first):
        driver.start()
    assert library.open == 1
    first.close()
    first.close()
    assert library.open == 1
    second.close()
    assert library.open == 0


def test_a_suspension_closes_it_until_the_step_is_over(gate: DriverGate, library: Library) -> None:
    over = threading.Event()
    driver = NvmlDriver(gate)
    driver.start()
    before = driver.epoch
    with gate.suspend("a", "card 0 is reset", over.is_set):
        over.set()  # asked only after the block: the step may not have begun yet
        assert library.open == 0
        with pytest.raises(ProbeSuspended, match="card 0 is reset"):
            driver.start()
        over.clear()
    with pytest.raises(ProbeSuspended):
        driver.start()
    over.set()
    with driver.session():
        assert (library.open, library.starts) == (1, 2)
    assert driver.epoch != before, "handles of before are invalid"


def test_it_stays_closed_until_the_last_of_two_steps(gate: DriverGate, library: Library) -> None:
    first, second = threading.Event(), threading.Event()
    with gate.suspend("a", "card 0 is reset", first.is_set):
        pass
    with gate.suspend("b", "card 1 is reset", second.is_set):
        pass
    first.set()
    assert gate.explain_suspension() == "card 1 is reset"
    assert not gate.await_end(0)
    second.set()
    assert gate.await_end(0)
    NvmlDriver(gate).start()
    assert library.open == 1


def test_a_step_that_cannot_start_opens_it_again(gate: DriverGate) -> None:
    with pytest.raises(OSError, match="no memory"), gate.suspend("a", "reset", lambda: False):
        raise OSError("no memory")
    NvmlDriver(gate).start()


def test_calls_under_way_end_before_it_is_closed(gate: DriverGate, library: Library) -> None:
    driver = NvmlDriver(gate)
    begun, may_end = threading.Event(), threading.Event()
    nested = []

    def call() -> None:
        with driver.session():
            begun.set()
            may_end.wait(10)
            with driver.session():  # a call within a call is not refused half-way
                nested.append(library.open)

    patient = DriverGate(lambda: library)
    driver.gate = patient
    thread = threading.Thread(target=call)
    thread.start()
    begun.wait(10)
    closer = threading.Timer(0.05, may_end.set)
    closer.start()
    with patient.suspend("a", "reset", lambda: True):
        assert nested == [1]
        assert library.open == 0
    thread.join()


def test_a_call_that_hangs_is_a_refusal_after_a_bounded_time(
    gate: DriverGate, library: Library
) -> None:
    driver = NvmlDriver(gate)
    begun, may_end = threading.Event(), threading.Event()

    def call() -> None:
        with driver.session():
            begun.set()
            may_end.wait(10)

    thread = threading.Thread(target=call)
    thread.start()
    begun.wait(10)
    with (
        pytest.raises(ServiceUnavailable, match="1 calls of the driver have not returned"),
        gate.suspend("a", "reset", lambda: False),
    ):
        pytest.fail("the step must not start")
    driver.start()
    assert library.open == 1
    may_end.set()
    thread.join()


def test_a_waiting_thread_goes_on_when_the_step_is_over(gate: DriverGate) -> None:
    over = threading.Event()
    with gate.suspend("a", "reset", over.is_set):
        pass
    threading.Timer(0.05, over.set).start()
    assert gate.await_end(10)


def test_a_shutdown_that_fails_is_a_refusal_and_leaves_it_usable(
    gate: DriverGate, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise Library.NVMLError("unknown error")

    driver = NvmlDriver(gate)
    driver.start()
    monkeypatch.setattr(library, "nvmlShutdown", refuse)
    with (
        pytest.raises(ServiceUnavailable, match="NVML was not closed: unknown error"),
        gate.suspend("a", "reset", lambda: False),
    ):
        pytest.fail("the step must not start")
    driver.start()
    assert gate.explain_suspension() == ""


def test_a_step_that_hangs_keeps_it_closed_for_a_bounded_time(
    library: Library, caplog: pytest.LogCaptureFixture
) -> None:
    now = [100.0]
    gate = DriverGate(lambda: library, limit_seconds=300, clock=lambda: now[0])
    with gate.suspend("a", "card 0 is reset", lambda: False):
        pass
    now[0] += 299
    assert gate.explain_suspension() == "card 0 is reset"
    now[0] += 1
    NvmlDriver(gate).start()
    assert library.open == 1
    assert "still needs it closed: card 0 is reset" in caplog.text
