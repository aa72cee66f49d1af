"""A job is idle while its fence counts nothing new and nothing of it is in flight."""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.agent.monitoring.idle_clock import IdleClock
from gpupool.mechanisms.regions import FenceDeviceUsage, FenceProcess, FenceUsage

CARD = "GPU-1"


def use(**counters: Any) -> FenceUsage:
    process = FenceProcess(7, 1, False, {CARD: FenceDeviceUsage(**{"launches": 5, **counters})})
    return FenceUsage((process,), {CARD: 0}, {CARD: FenceDeviceUsage()})


class HandClock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def hand() -> HandClock:
    return HandClock()


@pytest.fixture
def idle(hand: HandClock) -> IdleClock:
    return IdleClock(hand)


def test_idle_time_counts_from_the_first_look(idle: IdleClock, hand: HandClock) -> None:
    assert idle.measure("j", use()) == 0
    hand.now += 61.5
    assert idle.measure("j", use()) == 61_500
    assert not idle.has_worked("j", use())


@pytest.mark.parametrize("counter", ["launches", "gpu_ns", "committed_bytes"])
def test_a_counter_that_moved_restarts_it(idle: IdleClock, hand: HandClock, counter: str) -> None:
    idle.measure("j", use())
    hand.now += 61
    moved = use(**{counter: 6})
    assert idle.has_worked("j", moved)
    assert idle.measure("j", moved) == 0
    hand.now += 5
    assert idle.measure("j", moved) == 5000


@pytest.mark.parametrize("counter", ["inflight_ns", "waiters"])
def test_work_that_is_on_the_way_is_no_idle_time(
    idle: IdleClock, hand: HandClock, counter: str
) -> None:
    idle.measure("j", use())
    hand.now += 61
    assert idle.has_worked("j", use(**{counter: 1}))
    assert idle.measure("j", use(**{counter: 1})) is None
    assert idle.measure("j", use()) == 0


def test_a_job_without_a_fence_is_never_idle(idle: IdleClock) -> None:
    assert idle.measure("j", None) is None
    assert idle.has_worked("j", use())


def test_a_resumed_job_counts_from_its_next_look(idle: IdleClock, hand: HandClock) -> None:
    idle.measure("j", use())
    hand.now += 61
    idle.restart("j")
    assert idle.measure("j", use()) == 0


def test_jobs_that_have_ended_are_forgotten(idle: IdleClock, hand: HandClock) -> None:
    idle.measure("j", use())
    idle.measure("k", use())
    hand.now += 61
    idle.keep_only({"k"})
    assert idle.measure("j", use()) == 0
    assert idle.measure("k", use()) == 61_000
