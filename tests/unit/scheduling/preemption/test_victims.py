from dataclasses import replace

from gpupool.scheduling.preemption.victims import EvictionBudgets, PreemptionRules, list_victims
from gpupool.scheduling.snapshot.cards import CardTable
from gpupool.scheduling.snapshot.claims import RunningJob
from tests.support.gang_builders import running
from tests.support.preemption_builders import (
    HOUR,
    NOW,
    URGENT,
    asked,
    busy,
    evicted,
    one_each,
    plan,
)
from tests.support.scheduling_builders import cards, waiting, whole


def test_the_job_that_loses_least_gives_way_and_the_plan_says_for_whom() -> None:
    found = plan(asked(one_each(cards("4xH200"), 5, 2, 9, 4), URGENT))
    (eviction,) = found.evictions
    assert (eviction.job, eviction.beneficiary, eviction.lost_seconds) == ("old-1", "urgent", 7200)
    assert eviction.why == "gives way to urgent, of priority 100; it has priority 0"
    assert found.placements == ()


def test_a_job_that_saved_its_work_loses_only_what_came_after() -> None:
    pool = cards("2xH200")
    jobs = (
        running(pool, "young", "node-1/0", want=whole(), since=NOW - HOUR),
        running(
            pool, "saved", "node-1/1", want=whole(), since=NOW - 50 * HOUR, saved=NOW - HOUR // 60
        ),
    )
    (eviction,) = plan(asked(busy(pool, *jobs), URGENT)).evictions
    assert (eviction.job, eviction.lost_seconds) == ("saved", 60)


def test_nobody_of_equal_or_higher_priority_or_who_may_not_be_evicted_gives_way() -> None:
    pool = cards("3xH200")
    assert evicted(asked(one_each(pool, 1, 1, 1, priority=100), URGENT)) == []
    assert evicted(asked(one_each(pool, 1, 1, 1, priority=99), URGENT)) == ["old-0"]
    assert evicted(asked(one_each(pool, 1, 1, 1, preemptible=False), URGENT)) == []


def test_a_gang_leaves_as_a_whole_and_is_priced_as_a_whole() -> None:
    pool = cards("2x2xH200")
    gangs = [
        running(pool, f"g-{n}", f"node-{n + 1}/0", want=whole(), since=NOW - 3 * HOUR, gang="g")
        for n in range(2)
    ]
    singles = [
        running(pool, f"s-{n}", f"node-{n + 1}/1", want=whole(), since=NOW - 5 * HOUR)
        for n in range(2)
    ]
    (single,) = evicted(asked(busy(pool, *gangs, *singles), URGENT))
    assert single.startswith("s-")
    cheaper = [replace(job, started_ns=NOW - 2 * HOUR) for job in gangs]
    assert evicted(asked(busy(pool, *cheaper, *singles), URGENT)) == ["g-0", "g-1"]
    half = [replace(cheaper[0], preemptible=False), cheaper[1]]
    assert evicted(asked(busy(pool, *half, *singles), URGENT))[0].startswith("s-")


def test_evictions_per_tenant_and_hour_are_bounded() -> None:
    many = waiting(*(f"u{n}" for n in range(4)), want=whole(), priority=100)
    before = asked(one_each(cards("4xH200"), 1, 2, 3, 4), many)
    assert len(evicted(before, per_hour=3)) == 3
    assert len(evicted(before, per_hour=3, evicted={"other": 2})) == 1
    assert len(evicted(before, per_hour=None, evicted={"other": 999})) == 4


def test_who_has_just_started_is_left_alone() -> None:
    pool = cards("1xH200")
    job = running(pool, "old", "node-1/0", want=whole(), since=NOW - 100 * 10**9)
    assert evicted(asked(busy(pool, job), URGENT), protected_s=300) == []
    assert evicted(asked(busy(pool, job), URGENT), protected_s=60) == ["old"]


def _elastic(pool: CardTable, *ages: int, least: int = 1, **more: object) -> tuple[RunningJob, ...]:
    """A gang that needs `least` members, one per card from the first on, so many hours old each."""
    return tuple(
        running(
            pool,
            f"g-{n}",
            pool.uuids[n],
            want=whole(),
            since=NOW - age * HOUR,
            gang="g",
            role="w",
            least=least,
            **more,
        )  # type: ignore[arg-type]
        for n, age in enumerate(ages)
    )


def test_a_gang_gives_up_members_beyond_its_minimum_those_that_started_last_first() -> None:
    pool = cards("4xH200")
    before = busy(pool, *_elastic(pool, 5, 2, 4, 3, least=2))
    assert evicted(asked(before, URGENT)) == ["g-1"]
    assert evicted(asked(before, waiting("urgent", want=whole(2), priority=100))) == ["g-1", "g-3"]


def test_a_gang_that_loses_a_member_it_needs_leaves_as_a_whole() -> None:
    pool = cards("4xH200")
    before = busy(pool, *_elastic(pool, 5, 2, 4, 3, least=2))
    found = evicted(asked(before, waiting("urgent", want=whole(3), priority=100)))
    assert sorted(found) == ["g-0", "g-1", "g-2", "g-3"]


def test_two_claims_never_evict_one_member_twice() -> None:
    pool = cards("3xH200")
    before = busy(pool, *_elastic(pool, 5, 2, 4))
    found = evicted(
        asked(
            before,
            waiting("a", want=whole(), priority=100),
            waiting("b", want=whole(2), priority=90),
        )
    )
    assert sorted(found) == ["g-0", "g-1", "g-2"]


def test_a_gang_that_is_leaving_below_its_minimum_gives_up_nobody_else() -> None:
    pool = cards("3xH200")
    jobs = _elastic(pool, 5, 2, 4, least=3)
    leaves = (jobs[0], replace(jobs[1], beneficiary="somebody", preemptible=False), jobs[2])
    assert evicted(asked(busy(pool, *leaves), URGENT)) == []


def test_a_budget_that_cannot_be_enough_ends_the_search_before_it_begins() -> None:
    found = list_victims(
        [running(cards("2xH200"), f"j{n}", f"node-1/{n}", want=whole()) for n in range(2)], NOW
    )
    budgets = EvictionBudgets(PreemptionRules(per_hour=1))
    assert [budgets.can_free(found, milli) for milli in (0, 1000, 1001)] == [True, True, False]
    budgets.record_evictions(found[:1])
    assert not budgets.can_free(found, 1)
    assert not EvictionBudgets(PreemptionRules()).can_free([], 0)
