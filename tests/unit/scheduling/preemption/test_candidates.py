from dataclasses import replace

from gpupool.scheduling.snapshot.snapshot import Snapshot
from tests.support.preemption_builders import (
    URGENT,
    asked,
    borrowers,
    evicted,
    one_each,
    plan,
)
from tests.support.scheduling_builders import cards, tenant, waiting, whole


def test_rules_can_forbid_taking_back_alone() -> None:
    assert evicted(borrowers(1), reclaims=False) == []
    assert evicted(asked(one_each(cards("1xH200"), 1), URGENT), reclaims=False) == ["old-0"]


def test_what_runs_on_borrowed_quota_is_taken_back_by_who_is_inside_its_own_the_youngest_first() -> (
    None
):
    found = plan(borrowers(1))
    (eviction,) = found.evictions
    assert eviction.job == "old-3"
    assert (
        eviction.why
        == "gives way to mine: tenant nlp takes back what it is guaranteed, which this job had borrowed"
    )
    assert sorted(evicted(borrowers(2))) == ["old-2", "old-3"]


def _uneven(count: int, **more: object) -> Snapshot:
    """Four cards, all held by a tenant without limits; another one like it asks for `count`."""
    asks = replace(waiting("mine", want=whole(count), tenant="nlp"), preemptible=True)
    pool = one_each(cards("4xH200"), 9, 8, 7, 6, **more)
    return replace(asked(pool, asks), tenants={"nlp": tenant(), "other": tenant(held=4000)})


def test_a_claim_within_its_due_takes_from_who_is_over_its_own_the_youngest_first() -> None:
    found = plan(_uneven(1))
    (eviction,) = found.evictions
    assert eviction.job == "old-3"
    assert eviction.why == (
        "gives way to mine: tenant nlp holds less than its fair share, and this job's tenant more"
    )
    assert sorted(evicted(_uneven(2))) == ["old-2", "old-3"]
    assert evicted(_uneven(3)) == [], "three of four are more than its due"


def test_the_fair_share_is_not_taken_of_who_has_priority_or_just_started_or_may_not_be_preempted() -> (
    None
):
    assert evicted(_uneven(1, priority=1)) == []
    assert evicted(_uneven(1, preemptible=False)) == []
    assert evicted(_uneven(1), protected_s=10 * 3600) == []
    assert evicted(_uneven(1), fair=False) == []
    assert evicted(_uneven(1), reclaims=False) == []


def test_a_claim_that_may_not_be_preempted_takes_no_fair_share() -> None:
    before = _uneven(1)
    firm = replace(before.waiting[0], preemptible=False)
    assert evicted(replace(before, waiting=(firm,))) == []


def test_a_fair_share_goes_by_weight() -> None:
    before = _uneven(3)
    heavy = {"nlp": replace(tenant(), weight_milli=3000), "other": tenant(held=4000)}
    assert sorted(evicted(replace(before, tenants=heavy))) == ["old-1", "old-2", "old-3"]


def test_what_may_not_be_preempted_is_not_taken_back_whatever_it_borrowed() -> None:
    assert evicted(borrowers(1, preemptible=False)) == []


def test_nobody_takes_back_more_than_it_is_guaranteed_or_what_is_inside_anothers_quota() -> None:
    assert evicted(borrowers(3)) == []
    within = borrowers(1)
    views = within.tenants | {"other": replace(within.tenants["other"], quota=tenant(4000).quota)}
    assert evicted(replace(within, tenants=views)) == []


def test_a_borrower_of_higher_priority_evicts_none_that_is_inside_its_quota() -> None:
    before = borrowers(1)
    urgent = replace(before.waiting[0], priority=100)
    views = {
        "nlp": tenant(0, None),
        "other": replace(before.tenants["other"], quota=tenant(4000).quota),
    }
    assert evicted(replace(before, waiting=(urgent,), tenants=views)) == []
    assert evicted(replace(before, waiting=(urgent,))) == ["old-3"]
