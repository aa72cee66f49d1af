from dataclasses import replace

from gpupool.base.units import GIB
from gpupool.model.quota import GPU, Quota, QuotaBranch, QuotaLimit, ResourceAmount
from gpupool.scheduling.preemption.evictions import MOST_IN_VAIN
from gpupool.scheduling.snapshot.snapshot import Snapshot, TenantView
from tests.support.gang_builders import gang, role, running
from tests.support.preemption_builders import (
    HOUR,
    NOW,
    URGENT,
    asked,
    borrowers,
    busy,
    evicted,
    one_each,
    plan,
)
from tests.support.scheduling_builders import cards, shape, snapshot, tenant, waiting, whole


def test_who_only_wants_more_than_its_minimum_evicts_nobody() -> None:
    pool = cards("3xH200")
    more = gang("big", role("worker", whole(), 1, 3), priority=100, gone=1)
    assert evicted(asked(one_each(pool, 1, 1, 1), more)) == []


def test_every_head_of_a_class_gets_its_victims_in_one_plan() -> None:
    both = waiting("a", "b", want=whole(), priority=100)
    found = plan(asked(one_each(cards("3xH200"), 1, 2, 3), both))
    assert [(one.job, one.beneficiary) for one in found.evictions] == [
        ("old-0", "a"),
        ("old-1", "b"),
    ]


def test_a_full_quota_evicts_nobody() -> None:
    pool, jobs = one_each(cards("1xH200"), 1)
    before = replace(snapshot(pool, URGENT, tenants={"nlp": tenant(1000, held=1000)}), running=jobs)
    assert evicted(before) == []


def test_a_tenant_at_its_own_maximum_makes_room_with_its_own_work_of_lower_priority() -> None:
    pool = cards("3xH200")
    jobs = (
        running(pool, "mine", "node-1/0", want=whole(), since=NOW - 9 * HOUR, tenant="nlp"),
        running(pool, "foreign", "node-1/1", want=whole(), since=NOW - HOUR),
    )
    views = {"nlp": tenant(1000, held=1000), "other": tenant(held=1000)}
    before = replace(snapshot(busy(pool, *jobs)[0], URGENT, tenants=views), running=jobs)
    assert evicted(before) == ["mine"]
    assert evicted(replace(before, waiting=(replace(URGENT, priority=0),))) == []


def test_a_cohort_at_its_maximum_makes_room_with_what_borrows_in_it() -> None:
    jobs = one_each(cards("3xH200"), 2, 1)
    views = {
        "nlp": replace(tenant(0, None), cohort="lab"),
        "other": replace(tenant(1000, None, held=2000), cohort="lab"),
    }
    lab = {"lab": QuotaBranch(None, tenant(2000).quota)}
    before = replace(asked(jobs, URGENT), tenants=views, cohorts=lab)
    assert evicted(before) == ["old-1"]


def test_what_leaves_for_nobody_is_waited_for_and_nobody_else_leaves() -> None:
    pool, jobs = one_each(cards("2xH200"), 5, 2)
    ends = replace(jobs[0], beneficiary=jobs[0].job, preemptible=False)
    found = plan(asked((pool, (ends, jobs[1])), URGENT))
    assert found.evictions == ()
    assert found.starts[URGENT.key].reserved


def test_rules_can_forbid_it_altogether() -> None:
    assert evicted(asked(one_each(cards("1xH200"), 1), URGENT), enabled=False) == []


def test_the_plan_says_when_the_seats_will_be_free() -> None:
    before = asked(one_each(cards("1xH200"), 1), URGENT)
    start = plan(before, grace_s=30).starts[URGENT.key]
    assert (start.at_ns, start.rows, start.reserved) == (NOW + 30 * 10**9, (0,), True)
    (said,) = plan(before, grace_s=30).rejections.values()
    assert said.sentence == "1 card is kept for it; the jobs that give way have 30 s to leave"


def test_two_claims_of_one_tenant_take_back_no_more_than_it_is_guaranteed() -> None:
    before = borrowers(1)
    asks = [
        waiting(name, want=whole(2), tenant="nlp", at=n)
        for n, name in enumerate(("first", "second"))
    ]
    found = plan(replace(before, waiting=tuple(asks)))
    assert {eviction.beneficiary for eviction in found.evictions} == {"first"}
    assert len(found.evictions) == 2


def test_after_many_claims_for_which_nothing_was_found_those_behind_them_do_not_evict() -> None:
    def queue(vain: int) -> Snapshot:
        large = (
            waiting(f"v{n}", want=shape(1000, (200 + n) * GIB), priority=200 - n)
            for n in range(vain)
        )
        return asked(one_each(cards("1xH200"), 1), *large, URGENT)

    assert evicted(queue(MOST_IN_VAIN - 1)) == ["old-0"]
    assert evicted(queue(MOST_IN_VAIN)) == []


def test_what_siblings_borrowed_of_a_full_cohort_is_taken_back_though_cards_are_free() -> None:
    before = borrowers(1)
    pool = one_each(cards("6xH200"), 9, 8, 7, 6)
    views = {name: replace(view, cohort="lab") for name, view in before.tenants.items()}
    lab = {"lab": QuotaBranch(None, tenant(4000).quota)}
    full = replace(before, cards=pool[0], running=pool[1], tenants=views, cohorts=lab)
    assert evicted(full) == ["old-3"]
    assert evicted(full, reclaims=False) == []
    assert (
        evicted(
            replace(
                full, tenants=views | {"nlp": replace(views["nlp"], quota=tenant(0, None).quota)}
            )
        )
        == []
    )


def test_a_full_pool_in_which_somebody_lends_only_a_part_stops_no_preemption() -> None:
    jobs = one_each(cards("5xH200"), 1, 2, 3, 4)
    idle = TenantView(Quota.from_limits({GPU: QuotaLimit(1000, 0, 0)}), ResourceAmount())
    before = replace(
        asked(jobs, URGENT), tenants={"nlp": tenant(), "other": tenant(held=4000), "idle": idle}
    )
    assert evicted(before) == ["old-0"]
