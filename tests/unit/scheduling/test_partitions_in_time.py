"""Partitions and what else a cycle knows: promises, evictions, gangs, moves, quotas."""

from __future__ import annotations

from dataclasses import replace

from gpupool.model.claim import Reason, Shape
from gpupool.model.gang import Gang, Group, Role
from gpupool.model.quota import Amount
from gpupool.scheduling.cycle import cycle
from gpupool.scheduling.defrag import defrag
from gpupool.scheduling.moves import is_movable
from gpupool.scheduling.rebalance import loads, rebalance
from gpupool.scheduling.snapshot import Waiting
from gpupool.scheduling.victims import PreemptionRules
from tests.support.partition_builders import H200, SECOND, asked, on, part, piece, pool, starts, with_jobs
from tests.support.scheduling_builders import tenant

READY = PreemptionRules(protected_s=0)


def test_a_large_partition_is_promised_the_instant_at_which_its_place_is_whole_again() -> None:
    cards = pool("1xH200:mig", {"sim-0:0": [(0, "1g.18gb"), (2, "1g.18gb")]})
    jobs = [on(cards, "a", "sim-0:0", 0, "1g.18gb", ends=100), on(cards, "b", "sim-0:0", 2, "1g.18gb", ends=200)]
    plan = cycle(with_jobs(cards, jobs, asked("4g.71gb", "big", seconds=500)), 0)
    start = plan.starts[asked("4g.71gb", seconds=500).key]
    assert (start.at_ns, start.reserved) == (200 * SECOND, True)


def test_the_promised_place_is_kept_from_smaller_ones_that_would_still_be_there() -> None:
    """Compute is left for both; the piece that the small one may have is not one of those that are promised."""
    cards = pool("1xH200:mig", {"sim-0:0": [(0, "1g.18gb"), (4, "1g.18gb"), (5, "1g.18gb")]})
    jobs = [
        on(cards, "a", "sim-0:0", 0, "1g.18gb", ends=100),
        on(cards, "b", "sim-0:0", 4, "1g.18gb", ends=9000),
        on(cards, "c", "sim-0:0", 5, "1g.18gb", ends=9000),
    ]
    big, long, other = (
        asked("4g.71gb", "big", priority=10, seconds=500),
        asked("1g.18gb", "long", "longer", seconds=5000),
        asked("1g.18gb", "short", seconds=50),
    )
    plan = cycle(with_jobs(cards, jobs, big, long, other), 0)
    assert plan.starts[big.key].at_ns == 100 * SECOND
    assert starts(plan)["long"] == ("sim-0:0", 6)
    assert "longer" not in starts(plan)
    assert starts(plan)["short"][1] in (1, 2, 3)


def test_the_cheapest_job_in_the_way_leaves_and_its_piece_is_kept() -> None:
    cards = pool("1xH200:mig", {"sim-0:0": [(0, "3g.71gb"), (4, "3g.71gb")]})
    young = on(cards, "young", "sim-0:0", 4, "3g.71gb", preemptible=True)
    jobs = [replace(young, started_ns=50 * SECOND), on(cards, "old", "sim-0:0", 0, "3g.71gb", preemptible=True)]
    snapshot = with_jobs(cards, jobs, asked("2g.35gb", "urgent", priority=100), asked("1g.18gb", "small"))
    plan = cycle(snapshot, 100 * SECOND, rules=READY)
    assert [one.job for one in plan.evictions] == ["young"]
    assert plan.placements == ()  # the small one must not take what is being left, nor is there another place


def test_only_a_job_whose_leaving_opens_a_place_is_told_to_leave() -> None:
    """The cheapest card has enough compute, but its other partition is in the way and may not be evicted."""
    cards = pool("2xH200:mig", {"sim-0:0": [(0, "1g.18gb"), (3, "1g.18gb")], "sim-0:1": [(0, "2g.35gb")]})
    jobs = [
        on(cards, "cheap", "sim-0:0", 0, "1g.18gb", preemptible=True),
        on(cards, "fixed", "sim-0:0", 3, "1g.18gb"),
        on(cards, "dear", "sim-0:1", 0, "2g.35gb", preemptible=True),
    ]
    plan = cycle(with_jobs(cards, jobs, asked("4g.71gb", "urgent", priority=100)), 100 * SECOND, rules=READY)
    assert [one.job for one in plan.evictions] == ["dear"]


def test_who_waits_for_a_leaving_job_finds_its_piece_when_it_has_left() -> None:
    cards = pool("1xH200:mig", {"sim-0:0": [(0, "7g.141gb")]})
    leaving = on(cards, "old", "sim-0:0", 0, "7g.141gb", leaving_for="urgent")
    waits = cycle(with_jobs(cards, [leaving], asked("4g.71gb", "urgent", priority=100)), 0, rules=READY)
    assert (waits.placements, waits.evictions) == ((), ())
    plan = cycle(with_jobs(pool("1xH200:mig"), [], asked("4g.71gb", "urgent", priority=100)), 0, rules=READY)
    assert starts(plan) == {"urgent": ("sim-0:0", 0)}


def gang(*roles: Role) -> Waiting:
    members = tuple(f"m{n}" for n in range(sum(role.desired for role in roles)))
    one = Gang("g", Group("g", roles), members)
    return Waiting("nlp", 0, roles[0].shape, members, len(members), 0, gang=one)


def test_a_gang_of_partitions_starts_with_all_of_its_pieces_or_with_none() -> None:
    roles = Role("big", part("4g.71gb"), 2, 2), Role("small", part("1g.18gb"), 6, 6)
    assert len(starts(cycle(with_jobs(pool("2xH200:mig"), [], gang(*roles)), 0))) == 8
    too_many = Role("big", part("4g.71gb"), 2, 2), Role("small", part("1g.18gb"), 7, 7)
    plan = cycle(with_jobs(pool("2xH200:mig"), [], gang(*too_many)), 0)
    assert plan.placements == ()
    assert [said.dominant for said in plan.rejections.values()] != [None]


def test_a_gang_may_have_shares_on_some_cards_and_partitions_on_others() -> None:
    roles = Role("head", Shape(500), 1, 1), Role("part", part("3g.71gb"), 2, 2)
    plan = cycle(with_jobs(pool("1xH200:mig+1xH200"), [], gang(*roles)), 0)
    assert {one.seats[0].device for one in plan.placements} == {"sim-0:0", "sim-0:1"}


def test_partitions_are_not_moved_and_their_cards_are_no_load_to_spread() -> None:
    cards = pool("2xH200:mig+2xH200", {"sim-0:0": [(0, "1g.18gb"), (1, "1g.18gb")]})
    jobs = [on(cards, f"j{n}", "sim-0:0", n, "1g.18gb", preemptible=True) for n in (0, 1)]
    snapshot = with_jobs(cards, jobs)
    assert not any(is_movable(job) for job in jobs)
    assert loads(snapshot).tolist() == [0, 0, 0, 0]
    assert rebalance(snapshot, 10**12, use_free_cards=True).moves == ()
    assert defrag(snapshot, 10**12, block=1).moves == ()


def test_a_quota_counts_a_partition_as_its_profile_says() -> None:
    cards, limit = pool("1xH200:mig"), tenant(300, 0, memory=40 << 30)
    snapshot = with_jobs(cards, [], asked("1g.18gb", "a", "b", "c"))
    plan = cycle(replace(snapshot, tenants={"nlp": limit}), 0)
    assert sorted(starts(plan)) == ["a", "b"]
    (said,) = plan.rejections.values()
    assert said.dominant is Reason.QUOTA
    held = sum((Amount(s.gpu_milli, s.memory_bytes) for p in plan.placements for s in p.seats), Amount())
    assert held == Amount(2 * 142, 2 * H200["1g.18gb"].memory_bytes)
    assert piece(6, "1g.18gb") in [seat.partition for one in plan.placements for seat in one.seats]
