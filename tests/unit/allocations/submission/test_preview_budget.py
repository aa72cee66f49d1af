"""The bucket of previews of each user."""

from __future__ import annotations

import pytest

from gpupool.allocations.submission import preview_budget
from gpupool.allocations.submission.preview_budget import BURST, PER_SECOND, PreviewBudget
from gpupool.base.errors import TooManyRequests

SECOND = 10**9


class Clock:
    """A clock that the test sets."""

    now_ns = 0

    def __call__(self) -> int:
        return self.now_ns


def test_a_burst_is_answered_and_then_so_many_a_second() -> None:
    clock = Clock()
    budget = PreviewBudget(clock)
    for _ in range(BURST):
        budget.spend(1)
    with pytest.raises(TooManyRequests) as refused:
        budget.spend(1)
    assert refused.value.details["retry_after_seconds"] == 1
    clock.now_ns += SECOND
    for _ in range(PER_SECOND):
        budget.spend(1)
    with pytest.raises(TooManyRequests):
        budget.spend(1)


def test_each_user_has_a_bucket() -> None:
    budget = PreviewBudget(Clock())
    for _ in range(BURST):
        budget.spend(1)
    budget.spend(2)


def test_a_bucket_holds_no_more_than_a_burst() -> None:
    clock = Clock()
    budget = PreviewBudget(clock)
    budget.spend(1)
    clock.now_ns += 3600 * SECOND
    for _ in range(BURST):
        budget.spend(1)
    with pytest.raises(TooManyRequests):
        budget.spend(1)


def test_users_whose_buckets_are_full_again_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preview_budget, "_MANY_USERS", 3)
    clock = Clock()
    budget = PreviewBudget(clock)
    for user in range(3):
        budget.spend(user)
    clock.now_ns += 3600 * SECOND
    budget.spend(9)
    assert set(budget._buckets) == {9}
