from __future__ import annotations

from dataclasses import replace

from gpupool.scheduling.engine.cycle import cycle
from gpupool.scheduling.preemption.victims import PreemptionRules
from tests.support.partition_builders import (
    SECOND,
    asked,
    on,
    pool,
    starts,
    with_jobs,
)

READY = PreemptionRules(protected_s=0)


def test_the_cheapest_job_in_the_way_leaves_and_its_piece_is_kept() -> None:
    cards = pool("1xH200:mig", {"sim-0:0": [(0, "3g.71gb"), (4, "3g.71gb")]})
    young = on(cards, "young", "sim-0:0", 4, "3g.71gb", preemptible=True)
    jobs = [
        replace(young, started_ns=50 * SECOND),
        on(cards, "old", "sim-0:0", 0, "3g.71gb", preemptible=True),
    ]
    snapshot = with_jobs(
        cards, jobs, asked("2g.35gb", "urgent", priority=100), asked("1g.18gb", "small")
    )
    plan = cycle(snapshot, 100 * SECOND, rules=READY)
    assert [one.job for one in plan.evictions] == ["young"]
    assert (
        plan.placements == ()
    )  # the small one must not take what is being left, nor is there another place


def test_only_a_job_whose_leaving_opens_a_place_is_told_to_leave() -> None:
    """The cheapest card has enough compute, but its other partition is in the way and may not be
    evicted."""
    cards = pool(
        "2xH200:mig", {"sim-0:0": [(0, "1g.18gb"), (3, "1g.18gb")], "sim-0:1": [(0, "2g.35gb")]}
    )
    jobs = [
        on(cards, "cheap", "sim-0:0", 0, "1g.18gb", preemptible=True),
        on(cards, "fixed", "sim-0:0", 3, "1g.18gb"),
        on(cards, "dear", "sim-0:1", 0, "2g.35gb", preemptible=True),
    ]
    plan = cycle(
        with_jobs(cards, jobs, asked("4g.71gb", "urgent", priority=100)), 100 * SECOND, rules=READY
    )
    assert [one.job for one in plan.evictions] == ["dear"]


def test_who_waits_for_a_leaving_job_finds_its_piece_when_it_has_left() -> None:
    cards = pool("1xH200:mig", {"sim-0:0": [(0, "7g.141gb")]})
    leaving = on(cards, "old", "sim-0:0", 0, "7g.141gb", leaving_for="urgent")
    waits = cycle(
        with_jobs(cards, [leaving], asked("4g.71gb", "urgent", priority=100)), 0, rules=READY
    )
    assert (waits.placements, waits.evictions) == ((), ())
    plan = cycle(
        with_jobs(pool("1xH200:mig"), [], asked("4g.71gb", "urgent", priority=100)), 0, rules=READY
    )
    assert starts(plan) == {"urgent": ("sim-0:0", 0)}
