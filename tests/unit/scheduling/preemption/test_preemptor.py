"""Evictions: who has to leave for whom, at what price, and that the seats are kept for whom they
were made."""

from dataclasses import replace

from gpupool.base.units import GIB
from tests.support.gang_builders import gang, nodes_of, occupied, role, running
from tests.support.preemption_builders import (
    URGENT,
    asked,
    busy,
    evicted,
    one_each,
    plan,
)
from tests.support.scheduling_builders import cards, shape, snapshot, tenant, waiting, whole


def test_nobody_is_evicted_while_there_is_room() -> None:
    pool = cards("2xH200")
    job = running(pool, "old", "node-1/0", want=whole(), since=0)
    found = plan(asked(busy(pool, job), URGENT))
    assert (nodes_of(found.placements), found.evictions) == ({"urgent": "node-1"}, ())


def test_nobody_is_evicted_in_vain() -> None:
    pool = cards("2x2xH200")
    stays = [
        running(pool, f"stays-{n}", f"node-{n}/0", want=whole(), since=0, priority=100)
        for n in (1, 2)
    ]
    goes = [running(pool, f"goes-{n}", f"node-{n}/1", want=whole(), since=0) for n in (1, 2)]
    wide = waiting("wide", want=whole(2), priority=100)
    assert evicted(asked(busy(pool, *stays, *goes), wide)) == []


def test_a_whole_gang_finds_its_seats_before_anybody_is_told_to_leave() -> None:
    pool = cards("2x4xH200")
    large = gang("big", role("worker", whole(), 6), priority=100)
    found = plan(asked(one_each(pool, 1, 2, 3, 4, 5, 6, 7), large))
    assert [eviction.job for eviction in found.evictions] == [f"old-{n}" for n in range(5)]
    assert {eviction.beneficiary for eviction in found.evictions} == {"big"}
    assert found.placements == ()
    assert (
        evicted(
            asked(
                one_each(pool, 1, 2, 3, 4, 5, 6, 7),
                gang("big", role("worker", whole(), 9), priority=100),
            )
        )
        == []
    )


def test_seats_are_kept_until_the_victims_are_gone_and_nobody_else_is_evicted_for_them() -> None:
    pool = cards("2xH200")
    jobs = one_each(pool, 1, 5)
    leaving = (replace(jobs[1][0], beneficiary="urgent"), jobs[1][1])
    small = waiting("small", want=shape(100, GIB))
    before = asked((jobs[0], leaving), URGENT, small)
    assert (plan(before).placements, plan(before).evictions) == ((), ())
    gone = asked((occupied(pool, jobs[1][1]), (jobs[1][1],)), URGENT, small)
    assert nodes_of(plan(gone).placements) == {"urgent": "node-1"}


def test_a_gang_half_of_whose_seats_are_free_keeps_those_while_the_rest_is_left() -> None:
    pool = cards("2xH200")
    job = running(pool, "old", "node-1/0", want=whole(), since=0, leaving_for="big")
    large, small = (
        gang("big", role("worker", whole(), 2), priority=100),
        waiting("small", want=shape(100, GIB)),
    )
    before = asked(busy(pool, job), large, small)
    assert (plan(before).placements, plan(before).evictions) == ((), ())


def test_two_claimants_never_share_a_victim() -> None:
    classes = (
        waiting("a", want=whole(), priority=100),
        waiting("b", tenant="vision", want=whole(), priority=50),
    )
    found = plan(asked(one_each(cards("1xH200"), 1), *classes))
    assert [(one.job, one.beneficiary) for one in found.evictions] == [("old-0", "a")]


def test_a_gangs_next_member_borrows_like_any_claim() -> None:
    pool = cards("2xH200")
    member = running(
        pool,
        "g-0",
        "node-1/0",
        want=whole(),
        tenant="other",
        since=0,
        gang="g",
        role="w",
        least=1,
        priority=100,
    )
    more = gang("g", role("w", whole(), 1, 2), tenant="other", priority=100, gone=1)
    mine = waiting("mine", want=whole(), tenant="nlp", at=9)
    views = {"nlp": tenant(1000, None), "other": tenant(1000, None, held=1000)}
    pool_with, jobs = busy(pool, member)
    found = plan(replace(snapshot(pool_with, more, mine, tenants=views), running=jobs))
    assert [one.job for one in found.placements] == ["mine"], (
        "the owner would take the card back at once"
    )


def test_members_that_a_gang_can_do_without_take_no_seat_that_was_left_for_another() -> None:
    pool = cards("2xH200")
    several = gang("g", role("w", whole(), 1, 2), priority=10)
    owed = waiting("owed", want=whole(), at=9)
    before = replace(
        snapshot(pool, several, owed, tenants={"nlp": tenant()}), beneficiaries=("owed",)
    )
    assert sorted(one.job for one in plan(before).placements) == ["g-0", "owed"]
