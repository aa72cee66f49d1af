from dataclasses import replace

from gpupool.base.units import GIB
from gpupool.model.claim import TopologyConstraint
from gpupool.scheduling.snapshot.cards import CardTable
from gpupool.scheduling.snapshot.claims import RunningJob
from tests.support.gang_builders import gang, occupied, racked, role, running
from tests.support.preemption_builders import (
    HOUR,
    NOW,
    URGENT,
    asked,
    busy,
    evicted,
    one_each,
)
from tests.support.scheduling_builders import cards, shape, waiting, whole


def test_the_node_whose_victims_lose_least_together_is_cleared() -> None:
    pool = cards("2x4xH200")
    wide = waiting("wide", want=whole(4), priority=100)
    assert sorted(evicted(asked(one_each(pool, 1, 1, 1, 30, 8, 8, 8, 8), wide))) == [
        "old-4",
        "old-5",
        "old-6",
        "old-7",
    ]
    assert sorted(evicted(asked(one_each(pool, 1, 1, 1, 28, 8, 8, 8, 8), wide))) == [
        "old-0",
        "old-1",
        "old-2",
        "old-3",
    ]


def test_free_cards_are_used_before_anybody_leaves() -> None:
    pool = cards("2x4xH200")
    jobs = one_each(pool, 9, 9, 9, 9, 20, 20)
    assert sorted(evicted(asked(jobs, waiting("wide", want=whole(4), priority=100)))) == [
        "old-0",
        "old-1",
        "old-2",
        "old-3",
    ]
    jobs = one_each(pool, 11, 11, 11, 11, 20, 20)
    assert sorted(evicted(asked(jobs, waiting("wide", want=whole(4), priority=100)))) == [
        "old-4",
        "old-5",
    ]


def test_shares_leave_one_card_and_only_as_many_as_needed() -> None:
    pool = cards("2xH200")
    jobs = [
        running(
            pool,
            f"s-{card}-{n}",
            f"node-1/{card}",
            want=shape(250, GIB),
            since=NOW - (card + n + 1) * HOUR,
        )
        for card in range(2)
        for n in range(4)
    ]
    assert evicted(asked(busy(pool, *jobs), waiting("half", want=shape(500, GIB), priority=1))) == [
        "s-0-0",
        "s-0-1",
    ]


def test_of_equally_dear_sets_the_one_with_fewer_evictions_is_taken() -> None:
    pool = cards("2xH200")
    halves = [
        running(pool, f"half-{n}", "node-1/0", want=shape(500, GIB), since=NOW - 2 * HOUR)
        for n in range(2)
    ]
    one = running(pool, "one", "node-1/1", want=whole(), since=NOW - 2 * HOUR)
    assert evicted(asked(busy(pool, *halves, one), URGENT)) == ["one"]


def test_a_gang_clears_the_rack_that_loses_least() -> None:
    pool = racked("4x2xH200", rack=(0, 0, 1, 1))
    large = gang("big", role("worker", whole(), 4), within=TopologyConstraint("rack"), priority=100)
    assert sorted(evicted(asked(one_each(pool, 1, 9, 9, 9, 2, 2, 2, 2), large))) == [
        "old-4",
        "old-5",
        "old-6",
        "old-7",
    ]


def hungry(*processors: int) -> tuple[CardTable, tuple[RunningJob, ...]]:
    """A node of eight processors and a card more than there are jobs, of which each takes one and
    so many."""
    pool = cards(f"{len(processors) + 1}xH200", hosts=(8000, 64 * GIB))
    jobs = [
        running(
            pool,
            f"job-{n}",
            pool.uuids[n],
            want=replace(whole(), cpu_milli=1000 * each),
            since=NOW - (n + 1) * HOUR,
        )
        for n, each in enumerate(processors)
    ]
    columns = occupied(pool, *jobs)
    assert columns.hosts is not None
    free = columns.hosts.free_cpu_milli - 1000 * sum(processors)
    return replace(columns, hosts=replace(columns.hosts, free_cpu_milli=free)), tuple(jobs)


def test_a_job_on_another_card_leaves_where_a_claim_lacks_processors_beside_a_free_card() -> None:
    claim = waiting("urgent", want=replace(whole(), cpu_milli=4000), priority=100)
    assert evicted(asked(hungry(2, 6), claim)) == ["job-1"]
    assert evicted(asked(hungry(2, 2), claim)) == []


def test_nobody_leaves_where_the_node_has_too_few_processors_for_the_claim() -> None:
    claim = waiting("urgent", want=replace(whole(), cpu_milli=9000), priority=100)
    assert evicted(asked(hungry(2, 6), claim)) == []
