"""Planned starts as they are shown, and plans that are equal whatever they cost."""

from __future__ import annotations

from gpupool.scheduling.snapshot.plan import LEEWAY_NS, Plan, PlannedStart, PlanningEffort


def test_a_promise_is_shown_with_the_leeway_of_job_ends() -> None:
    assert PlannedStart(100, firm=True).latest_ns == 100 + LEEWAY_NS
    assert PlannedStart(100, reserved=True).latest_ns == 100


def test_plans_are_equal_whatever_they_cost() -> None:
    assert Plan(1, (), {}, PlanningEffort(rows=5)) == Plan(1, (), {}, PlanningEffort(rows=9))
    assert Plan(1, (), {}) != Plan(2, (), {})
