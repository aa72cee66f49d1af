"""The stages of a pod's wait add up to its whole wait, each pod once."""

from __future__ import annotations

from gpupool.kubernetes.controller.wait_stages import PLACED, QUEUED, RELEASED, WaitStages
from tests.support.hand_clock import Clock


def test_later_events_of_a_queued_pod_do_not_shorten_its_wait() -> None:
    clock = Clock(1.0)
    stages = WaitStages(clock)
    stages.note_queued("a")
    clock.now = 5.0
    stages.note_queued("a")
    stages.note_written(["a"], began=4.0)
    clock.now = 6.0
    stages.note_released("a")
    assert stages.seconds == {QUEUED: 3.0, PLACED: 1.0, RELEASED: 1.0}


def test_pod_that_another_leader_placed_counts_nothing() -> None:
    clock = Clock(1.0)
    stages = WaitStages(clock)
    stages.note_queued("a")
    clock.now = 9.0
    stages.note_released("a")
    stages.note_released("never seen")
    assert stages.seconds == {QUEUED: 0.0, PLACED: 0.0, RELEASED: 0.0}


def test_release_is_counted_once_though_answer_and_watch_tell_it() -> None:
    clock = Clock(1.0)
    stages = WaitStages(clock)
    stages.note_queued("a")
    stages.note_written(["a", "unknown"], began=1.0)
    for clock.now in (2.0, 3.0):
        stages.note_released("a")
    assert stages.seconds[RELEASED] == 1.0


def test_pod_that_is_gone_begins_anew_under_its_uid() -> None:
    clock = Clock(1.0)
    stages = WaitStages(clock)
    stages.note_queued("a")
    stages.forget_pod("a")
    clock.now = 10.0
    stages.note_queued("a")
    stages.note_written(["a"], began=11.0)
    stages.note_released("a")
    assert stages.seconds[QUEUED] == 1.0
