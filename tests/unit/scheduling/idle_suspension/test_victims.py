"""Idle jobs give way in order, the fewest that suffice, and only to a claim that then starts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpupool.base.units import GIB
from gpupool.model.claim import Shape
from gpupool.model.quota import ResourceAmount
from gpupool.model.suspension import IdleSuspensionRules
from gpupool.scheduling.idle_suspension import (
    IdleJob,
    IdleVictims,
    find_idle_victims,
    find_victim_rejection,
    replace_suspended,
    sort_idle_jobs,
)
from gpupool.scheduling.preemption.victims import PreemptionRules
from gpupool.scheduling.snapshot.claims import RunningJob, SuspendedJob, WaitingClass
from gpupool.scheduling.snapshot.snapshot import Snapshot
from tests.support.gang_builders import running
from tests.support.preemption_builders import NOW, asked, busy
from tests.support.scheduling_builders import cards, tenant, waiting, whole

#: Every card lends its memory twice.
TWICE = IdleSuspensionRules(memory_factor_milli=2000)
POOL = cards("3xH200")
HOUR_NS = 3600 * 10**9


def hold(job: str, card: int, milli: int = 1000, memory: int = 60 * GIB) -> RunningJob:
    want = Shape(milli, memory)
    return running(POOL, job, POOL.uuids[card], want=want, preemptible=False, since=NOW - 1)


def full(*classes: WaitingClass) -> Snapshot:
    return asked(busy(POOL, hold("a", 0), hold("b", 1), hold("c", 2)), *classes)


def idle(job: str, minutes: int, gib: int = 60) -> IdleJob:
    return IdleJob(job, minutes * 60 * 10**9, gib * GIB)


def lend(before: Snapshot, rules: IdleSuspensionRules = TWICE, **suspended: int) -> Snapshot:
    """The pool with these rules, and suspended jobs that have so much of a card while they run."""
    away = []
    for name, size in suspended.items():
        away.append(SuspendedJob(name, (int(name[1:]),), 1000, (size,)))
    return replace_suspended(replace(before, idle_rules=rules), tuple(away))


def find(before: Snapshot, *jobs: IdleJob, **suspended: int) -> IdleVictims | None:
    return find_idle_victims(lend(before, **suspended), NOW, jobs, PreemptionRules())


ONE = waiting("new", want=Shape(1000, 60 * GIB))


def test_order_is_longest_idle_then_fewest_bytes_then_the_id() -> None:
    jobs = [idle("d", 1, 5), idle("c", 1, 5), idle("b", 1, 9), idle("a", 7, 60)]
    assert [one.job for one in sort_idle_jobs(jobs)] == ["a", "c", "d", "b"]


def test_the_longest_idle_job_gives_way() -> None:
    found = find(full(ONE), idle("a", 2), idle("b", 9), idle("c", 5))
    assert found == IdleVictims(("b",), "new")


def test_no_job_gives_way_to_a_claim_that_starts_anyway() -> None:
    with_room = asked(busy(POOL, hold("a", 0), hold("b", 1)), ONE)
    assert find(with_room, idle("a", 2), idle("b", 9)) is None


def test_no_job_gives_way_to_a_claim_that_would_not_start() -> None:
    two = waiting("new", want=whole(2))
    assert find(full(two), idle("a", 2)) is None
    assert find(full(two), idle("a", 2), idle("c", 3)) == IdleVictims(("c", "a"), "new")


def test_a_job_that_frees_nothing_for_the_claim_is_kept() -> None:
    before = asked(
        busy(POOL, hold("a", 0), hold("b", 1), hold("s", 2, 100), hold("t", 2, 900)), ONE
    )
    # `s` is idle for longest, but its card would have no room for the claim.
    found = find(before, idle("s", 60), idle("a", 2), idle("b", 1))
    assert found == IdleVictims(("a",), "new")


def test_running_and_suspended_memory_stay_below_the_factor() -> None:
    below = lend(full(ONE), IdleSuspensionRules(memory_factor_milli=800))
    assert find_idle_victims(below, NOW, [idle("a", 2)], PreemptionRules()) is None
    found = find_victim_rejection(below, NOW, [idle("a", 2)], PreemptionRules())
    assert found is not None
    shortage = found.shortage
    assert (shortage.card, found.beneficiary) == (POOL.uuids[0], "new")
    assert (shortage.running_bytes, shortage.suspended_bytes) == (60 * GIB, 60 * GIB)
    assert (shortage.limit_bytes, shortage.factor_text) == (112 * GIB, "0.8")


def test_no_card_is_named_where_the_factor_changes_nothing() -> None:
    two = lend(full(waiting("new", want=whole(2))))
    assert find_victim_rejection(two, NOW, [idle("a", 2)], PreemptionRules()) is None


def test_another_card_is_taken_where_the_first_is_at_the_factor() -> None:
    found = find(full(ONE), idle("a", 9), idle("b", 2), n0=170 * GIB)
    assert found == IdleVictims(("b",), "new")


def test_what_a_tenant_gets_back_counts_in_its_quota() -> None:

    jobs = (hold("a", 0), hold("b", 1))
    mine = waiting("new", want=Shape(1000, 60 * GIB), tenant="other")
    held = replace(tenant(2000), held=ResourceAmount(2000, 120 * GIB))
    before = replace(asked(busy(POOL, *jobs), mine), tenants={"other": held})
    # A card is free; only the quota is used up.
    assert find(before, idle("b", 5)) == IdleVictims(("b",), "new")


@pytest.mark.parametrize("count", [1, 2, 3])
def test_as_few_give_way_as_suffice(count: int) -> None:
    found = find(full(waiting("new", want=whole(count))), idle("a", 1), idle("b", 2), idle("c", 3))
    assert isinstance(found, IdleVictims)
    assert len(found.jobs) == count
