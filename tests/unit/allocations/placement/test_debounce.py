"""When the next cycle is due: at once, or after a burst of submissions, which may not last."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest

from gpupool.allocations.placement import debounce
from gpupool.allocations.placement.debounce import (
    MOST_SECONDS,
    QUIET_SECONDS,
    PlacementDebounce,
)
from tests.support.hand_clock import Clock


class SubmissionStream(threading.Event):
    """Stands for the event that ends a wait: time passes, and another job is submitted."""

    def __init__(self, pace: PlacementDebounce, clock: Clock, jobs: int) -> None:
        super().__init__()
        self._pace = pace
        self._clock = clock
        self.left = jobs

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        if self.is_set():
            return True
        self._clock.now += timeout
        if self.left:
            self.left -= 1
            self._pace.wake_after_burst()
        return False


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock(now=1000.0)
    monkeypatch.setattr(debounce, "time", SimpleNamespace(monotonic=made))
    return made


def test_a_burst_is_over_once_nothing_was_submitted_for_a_while(clock: Clock) -> None:
    pace = PlacementDebounce()
    pace._hurry = SubmissionStream(pace, clock, jobs=3)
    pace.wake_after_burst()
    pace.wait_for_wake(None)
    assert clock.now - 1000.0 == pytest.approx(4 * QUIET_SECONDS)


def test_a_stream_of_submissions_holds_up_its_first_job_no_longer(clock: Clock) -> None:
    pace = PlacementDebounce()
    stream = SubmissionStream(pace, clock, jobs=10**6)
    pace._hurry = stream
    pace.wake_after_burst()
    pace.wait_for_wake(None)
    assert clock.now - 1000.0 == pytest.approx(MOST_SECONDS)
    assert stream.left > 0


def test_wake_now_ends_the_wait_for_a_burst(clock: Clock) -> None:
    pace = PlacementDebounce()
    pace._hurry = SubmissionStream(pace, clock, jobs=0)
    pace.wake_after_burst()
    pace.wake_now()
    pace.wait_for_wake(None)
    assert clock.now == 1000.0


def test_a_wake_is_taken_once(clock: Clock) -> None:
    pace = PlacementDebounce()
    pace._hurry = SubmissionStream(pace, clock, jobs=0)
    pace.wake_now()
    pace.wait_for_wake(None)
    assert not pace._wake.is_set()
    assert not pace._hurry.is_set()
