"""Pauses between attempts double up to a bound, and the same end always gives the same pause."""

from __future__ import annotations

import pytest

from gpupool.base.units import NANOS_PER_SECOND
from gpupool.model.chains.retry import RetryRule, is_retried_end
from gpupool.model.job import JobState


def test_pauses_double_up_to_their_bound_less_a_quarter_at_most() -> None:
    rule = RetryRule(100, 30, 600)
    for attempt, seconds in ((1, 30), (2, 60), (3, 120), (5, 480), (6, 600), (100, 600)):
        pause = rule.compute_pause_ns("j-1", attempt) / NANOS_PER_SECOND
        assert 0.75 * seconds <= pause <= seconds


def test_the_jitter_is_of_the_job_and_the_attempt_alone() -> None:
    rule = RetryRule(3, 1000, 1000)
    assert rule.compute_pause_ns("j-1", 1) == rule.compute_pause_ns("j-1", 1)
    pauses = {rule.compute_pause_ns(f"j-{number}", 1) for number in range(50)}
    assert len(pauses) == 50


@pytest.mark.parametrize(
    ("state", "reason", "counts"),
    [
        (JobState.FAILED, "exited", True),
        (JobState.FAILED, "signalled", True),
        (JobState.LOST, "its supervisor died", True),
        (JobState.FAILED, "max_time", False),
        (JobState.FAILED, "no such image", False),
        (JobState.STOPPED, "stopped", False),
        (JobState.DONE, "exited", False),
    ],
)
def test_only_failures_that_may_not_come_again_count(
    state: JobState, reason: str, counts: bool
) -> None:
    assert is_retried_end(state, reason) is counts
