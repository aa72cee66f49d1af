"""Evictions: who has to leave for whom, at what price, and that the seats are kept for whom they were made."""

from dataclasses import replace

from gpupool.base.units import GIB
from gpupool.model.claim import Within
from gpupool.model.quota import GPU, Amount, Branch, Limit, Quota
from gpupool.scheduling.cycle import cycle
from gpupool.scheduling.evicting import MOST_IN_VAIN
from gpupool.scheduling.snapshot import Cards, Plan, Running, Snapshot, TenantView, Waiting
from gpupool.scheduling.victims import Budgets, PreemptionRules, together
from tests.support.gang_builders import gang, nodes_of, occupied, racked, role, running
from tests.support.scheduling_builders import cards, shape, snapshot, tenant, waiting, whole

HOUR = 3600 * 10**9
NOW = 100 * HOUR


def busy(pool: Cards, *jobs: Running) -> tuple[Cards, tuple[Running, ...]]:
    return occupied(pool, *jobs), jobs


def asked(pool: tuple[Cards, tuple[Running, ...]], *classes: Waiting) -> Snapshot:
    columns, jobs = pool
    return replace(snapshot(columns, *classes, tenants={"other": tenant()}), running=jobs)


def evicted(before: Snapshot, **rules: object) -> list[str]:
    return [eviction.job for eviction in plan(before, **rules).evictions]


def plan(before: Snapshot, **rules: object) -> Plan:
    return cycle(before, NOW, rules=PreemptionRules(**rules))  # type: ignore[arg-type]


def one_each(pool: Cards, *ages: int, **more: object) -> tuple[Cards, tuple[Running, ...]]:
    """One whole-card job per card, so many hours old each."""
    jobs = [
        running(pool, f"old-{n}", pool.uuids[n], want=whole(), since=NOW - age * HOUR, **more)  # type: ignore[arg-type]
        for n, age in enumerate(ages)
    ]
    return busy(pool, *jobs)


URGENT = waiting("urgent", want=whole(), priority=100)


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
        running(pool, "saved", "node-1/1", want=whole(), since=NOW - 50 * HOUR, saved=NOW - HOUR // 60),
    )
    (eviction,) = plan(asked(busy(pool, *jobs), URGENT)).evictions
    assert (eviction.job, eviction.lost_seconds) == ("saved", 60)


def test_nobody_of_equal_or_higher_priority_or_who_may_not_be_evicted_gives_way() -> None:
    pool = cards("3xH200")
    assert evicted(asked(one_each(pool, 1, 1, 1, priority=100), URGENT)) == []
    assert evicted(asked(one_each(pool, 1, 1, 1, priority=99), URGENT)) == ["old-0"]
    assert evicted(asked(one_each(pool, 1, 1, 1, preemptible=False), URGENT)) == []


def test_nobody_is_evicted_while_there_is_room() -> None:
    pool = cards("2xH200")
    job = running(pool, "old", "node-1/0", want=whole(), since=0)
    found = plan(asked(busy(pool, job), URGENT))
    assert (nodes_of(found.placements), found.evictions) == ({"urgent": "node-1"}, ())


def test_nobody_is_evicted_in_vain() -> None:
    pool = cards("2x2xH200")
    stays = [running(pool, f"stays-{n}", f"node-{n}/0", want=whole(), since=0, priority=100) for n in (1, 2)]
    goes = [running(pool, f"goes-{n}", f"node-{n}/1", want=whole(), since=0) for n in (1, 2)]
    wide = waiting("wide", want=whole(2), priority=100)
    assert evicted(asked(busy(pool, *stays, *goes), wide)) == []


def test_the_node_whose_victims_lose_least_together_is_cleared() -> None:
    pool = cards("2x4xH200")
    wide = waiting("wide", want=whole(4), priority=100)
    assert sorted(evicted(asked(one_each(pool, 1, 1, 1, 30, 8, 8, 8, 8), wide))) == ["old-4", "old-5", "old-6", "old-7"]
    assert sorted(evicted(asked(one_each(pool, 1, 1, 1, 28, 8, 8, 8, 8), wide))) == ["old-0", "old-1", "old-2", "old-3"]


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
    assert sorted(evicted(asked(jobs, waiting("wide", want=whole(4), priority=100)))) == ["old-4", "old-5"]


def test_shares_leave_one_card_and_only_as_many_as_needed() -> None:
    pool = cards("2xH200")
    jobs = [
        running(pool, f"s-{card}-{n}", f"node-1/{card}", want=shape(250, GIB), since=NOW - (card + n + 1) * HOUR)
        for card in range(2)
        for n in range(4)
    ]
    assert evicted(asked(busy(pool, *jobs), waiting("half", want=shape(500, GIB), priority=1))) == ["s-0-0", "s-0-1"]


def test_of_equally_dear_sets_the_one_with_fewer_evictions_is_taken() -> None:
    pool = cards("2xH200")
    halves = [running(pool, f"half-{n}", "node-1/0", want=shape(500, GIB), since=NOW - 2 * HOUR) for n in range(2)]
    one = running(pool, "one", "node-1/1", want=whole(), since=NOW - 2 * HOUR)
    assert evicted(asked(busy(pool, *halves, one), URGENT)) == ["one"]


def test_a_gang_leaves_as_a_whole_and_is_priced_as_a_whole() -> None:
    pool = cards("2x2xH200")
    gangs = [running(pool, f"g-{n}", f"node-{n + 1}/0", want=whole(), since=NOW - 3 * HOUR, gang="g") for n in range(2)]
    singles = [running(pool, f"s-{n}", f"node-{n + 1}/1", want=whole(), since=NOW - 5 * HOUR) for n in range(2)]
    (single,) = evicted(asked(busy(pool, *gangs, *singles), URGENT))
    assert single.startswith("s-")
    cheaper = [replace(job, started_ns=NOW - 2 * HOUR) for job in gangs]
    assert evicted(asked(busy(pool, *cheaper, *singles), URGENT)) == ["g-0", "g-1"]
    half = [replace(cheaper[0], preemptible=False), cheaper[1]]
    assert evicted(asked(busy(pool, *half, *singles), URGENT))[0].startswith("s-")


def test_a_whole_gang_finds_its_seats_before_anybody_is_told_to_leave() -> None:
    pool = cards("2x4xH200")
    large = gang("big", role("worker", whole(), 6), priority=100)
    found = plan(asked(one_each(pool, 1, 2, 3, 4, 5, 6, 7), large))
    assert [eviction.job for eviction in found.evictions] == [f"old-{n}" for n in range(5)]
    assert {eviction.beneficiary for eviction in found.evictions} == {"big"}
    assert found.placements == ()
    assert (
        evicted(asked(one_each(pool, 1, 2, 3, 4, 5, 6, 7), gang("big", role("worker", whole(), 9), priority=100))) == []
    )


def test_a_gang_clears_the_rack_that_loses_least() -> None:
    pool = racked("4x2xH200", rack=(0, 0, 1, 1))
    large = gang("big", role("worker", whole(), 4), within=Within("rack"), priority=100)
    assert sorted(evicted(asked(one_each(pool, 1, 9, 9, 9, 2, 2, 2, 2), large))) == ["old-4", "old-5", "old-6", "old-7"]


def test_who_only_wants_more_than_its_minimum_evicts_nobody() -> None:
    pool = cards("3xH200")
    more = gang("big", role("worker", whole(), 1, 3), priority=100, gone=1)
    assert evicted(asked(one_each(pool, 1, 1, 1), more)) == []


def test_seats_are_kept_until_the_victims_are_gone_and_nobody_else_is_evicted_for_them() -> None:
    pool = cards("2xH200")
    jobs = one_each(pool, 1, 5)
    leaving = (replace(jobs[1][0], leaving_for="urgent"), jobs[1][1])
    small = waiting("small", want=shape(100, GIB))
    before = asked((jobs[0], leaving), URGENT, small)
    assert (plan(before).placements, plan(before).evictions) == ((), ())
    gone = asked((occupied(pool, jobs[1][1]), (jobs[1][1],)), URGENT, small)
    assert nodes_of(plan(gone).placements) == {"urgent": "node-1"}


def test_a_gang_half_of_whose_seats_are_free_keeps_those_while_the_rest_is_left() -> None:
    pool = cards("2xH200")
    job = running(pool, "old", "node-1/0", want=whole(), since=0, leaving_for="big")
    large, small = gang("big", role("worker", whole(), 2), priority=100), waiting("small", want=shape(100, GIB))
    before = asked(busy(pool, job), large, small)
    assert (plan(before).placements, plan(before).evictions) == ((), ())


def test_every_head_of_a_class_gets_its_victims_in_one_plan() -> None:
    both = waiting("a", "b", want=whole(), priority=100)
    found = plan(asked(one_each(cards("3xH200"), 1, 2, 3), both))
    assert [(one.job, one.beneficiary) for one in found.evictions] == [("old-0", "a"), ("old-1", "b")]


def test_two_claimants_never_share_a_victim() -> None:
    classes = waiting("a", want=whole(), priority=100), waiting("b", tenant="vision", want=whole(), priority=50)
    found = plan(asked(one_each(cards("1xH200"), 1), *classes))
    assert [(one.job, one.beneficiary) for one in found.evictions] == [("old-0", "a")]


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
    lab = {"lab": Branch(None, tenant(2000).quota)}
    before = replace(asked(jobs, URGENT), tenants=views, cohorts=lab)
    assert evicted(before) == ["old-1"]


def _elastic(pool: Cards, *ages: int, least: int = 1, **more: object) -> tuple[Running, ...]:
    """A gang that needs `least` members, one per card from the first on, so many hours old each."""
    return tuple(
        running(
            pool, f"g-{n}", pool.uuids[n], want=whole(), since=NOW - age * HOUR, gang="g", role="w", least=least, **more
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
    found = evicted(asked(before, waiting("a", want=whole(), priority=100), waiting("b", want=whole(2), priority=90)))
    assert sorted(found) == ["g-0", "g-1", "g-2"]


def test_a_gang_that_is_leaving_below_its_minimum_gives_up_nobody_else() -> None:
    pool = cards("3xH200")
    jobs = _elastic(pool, 5, 2, 4, least=3)
    leaves = (jobs[0], replace(jobs[1], leaving_for="somebody", preemptible=False), jobs[2])
    assert evicted(asked(busy(pool, *leaves), URGENT)) == []


def test_what_leaves_for_nobody_is_waited_for_and_nobody_else_leaves() -> None:
    pool, jobs = one_each(cards("2xH200"), 5, 2)
    ends = replace(jobs[0], leaving_for=jobs[0].job, preemptible=False)
    found = plan(asked((pool, (ends, jobs[1])), URGENT))
    assert found.evictions == ()
    assert found.starts[URGENT.key].reserved


def test_rules_can_forbid_it_altogether() -> None:
    assert evicted(asked(one_each(cards("1xH200"), 1), URGENT), enabled=False) == []


def test_rules_can_forbid_taking_back_alone() -> None:
    assert evicted(_borrowers(1), reclaims=False) == []
    assert evicted(asked(one_each(cards("1xH200"), 1), URGENT), reclaims=False) == ["old-0"]


def test_the_plan_says_when_the_seats_will_be_free() -> None:
    before = asked(one_each(cards("1xH200"), 1), URGENT)
    start = plan(before, grace_s=30).starts[URGENT.key]
    assert (start.at_ns, start.rows, start.reserved) == (NOW + 30 * 10**9, (0,), True)
    (said,) = plan(before, grace_s=30).rejections.values()
    assert said.sentence == "1 card is kept for it; the jobs that give way have 30 s to leave"


def _borrowers(count: int, **more: object) -> Snapshot:
    """Four cards, all held by a tenant that is guaranteed two; another one, guaranteed two, asks for `count`."""
    pool = one_each(cards("4xH200"), 9, 8, 7, 6, **more)
    asks = waiting("mine", want=whole(count), tenant="nlp")
    held = replace(tenant(2000, None), held=Amount(4000, 0))
    return replace(asked(pool, asks), tenants={"nlp": tenant(2000, None), "other": held})


def test_what_runs_on_borrowed_quota_is_taken_back_by_who_is_inside_its_own_the_youngest_first() -> None:
    found = plan(_borrowers(1))
    (eviction,) = found.evictions
    assert eviction.job == "old-3"
    assert eviction.why == "gives way to mine: tenant nlp takes back what it is guaranteed, which this job had borrowed"
    assert sorted(evicted(_borrowers(2))) == ["old-2", "old-3"]


def _uneven(count: int, **more: object) -> Snapshot:
    """Four cards, all held by a tenant without limits; another one like it asks for `count`."""
    asks = replace(waiting("mine", want=whole(count), tenant="nlp"), preemptible=True)
    pool = one_each(cards("4xH200"), 9, 8, 7, 6, **more)
    return replace(asked(pool, asks), tenants={"nlp": tenant(), "other": tenant(held=4000)})


def test_a_claim_within_its_due_takes_from_who_is_over_its_own_the_youngest_first() -> None:
    found = plan(_uneven(1))
    (eviction,) = found.evictions
    assert eviction.job == "old-3"
    assert eviction.why == ("gives way to mine: tenant nlp holds less than its fair share, and this job's tenant more")
    assert sorted(evicted(_uneven(2))) == ["old-2", "old-3"]
    assert evicted(_uneven(3)) == [], "three of four are more than its due"


def test_the_fair_share_is_not_taken_of_who_has_priority_or_just_started_or_may_not_be_preempted() -> None:
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


def test_two_claims_of_one_tenant_take_back_no_more_than_it_is_guaranteed() -> None:
    before = _borrowers(1)
    asks = [waiting(name, want=whole(2), tenant="nlp", at=n) for n, name in enumerate(("first", "second"))]
    found = plan(replace(before, waiting=tuple(asks)))
    assert {eviction.beneficiary for eviction in found.evictions} == {"first"}
    assert len(found.evictions) == 2


def test_a_gangs_next_member_borrows_like_any_claim() -> None:
    pool = cards("2xH200")
    member = running(
        pool, "g-0", "node-1/0", want=whole(), tenant="other", since=0, gang="g", role="w", least=1, priority=100
    )
    more = gang("g", role("w", whole(), 1, 2), tenant="other", priority=100, gone=1)
    mine = waiting("mine", want=whole(), tenant="nlp", at=9)
    views = {"nlp": tenant(1000, None), "other": tenant(1000, None, held=1000)}
    pool_with, jobs = busy(pool, member)
    found = plan(replace(snapshot(pool_with, more, mine, tenants=views), running=jobs))
    assert [one.job for one in found.placements] == ["mine"], "the owner would take the card back at once"


def test_members_that_a_gang_can_do_without_take_no_seat_that_was_left_for_another() -> None:
    pool = cards("2xH200")
    several = gang("g", role("w", whole(), 1, 2), priority=10)
    owed = waiting("owed", want=whole(), at=9)
    before = replace(snapshot(pool, several, owed, tenants={"nlp": tenant()}), owed=("owed",))
    assert sorted(one.job for one in plan(before).placements) == ["g-0", "owed"]


def test_what_may_not_be_preempted_is_not_taken_back_whatever_it_borrowed() -> None:
    assert evicted(_borrowers(1, preemptible=False)) == []


def test_nobody_takes_back_more_than_it_is_guaranteed_or_what_is_inside_anothers_quota() -> None:
    assert evicted(_borrowers(3)) == []
    within = _borrowers(1)
    views = within.tenants | {"other": replace(within.tenants["other"], quota=tenant(4000).quota)}
    assert evicted(replace(within, tenants=views)) == []


def test_a_borrower_of_higher_priority_evicts_none_that_is_inside_its_quota() -> None:
    before = _borrowers(1)
    urgent = replace(before.waiting[0], priority=100)
    views = {"nlp": tenant(0, None), "other": replace(before.tenants["other"], quota=tenant(4000).quota)}
    assert evicted(replace(before, waiting=(urgent,), tenants=views)) == []
    assert evicted(replace(before, waiting=(urgent,))) == ["old-3"]


def test_after_many_claims_for_which_nothing_was_found_those_behind_them_do_not_evict() -> None:
    def queue(vain: int) -> Snapshot:
        large = (waiting(f"v{n}", want=shape(1000, (200 + n) * GIB), priority=200 - n) for n in range(vain))
        return asked(one_each(cards("1xH200"), 1), *large, URGENT)

    assert evicted(queue(MOST_IN_VAIN - 1)) == ["old-0"]
    assert evicted(queue(MOST_IN_VAIN)) == []


def test_a_budget_that_cannot_be_enough_ends_the_search_before_it_begins() -> None:
    found = together([running(cards("2xH200"), f"j{n}", f"node-1/{n}", want=whole()) for n in range(2)], NOW)
    budgets = Budgets(PreemptionRules(per_hour=1))
    assert [budgets.could_free(found, milli) for milli in (0, 1000, 1001)] == [True, True, False]
    budgets.use(found[:1])
    assert not budgets.could_free(found, 1)
    assert not Budgets(PreemptionRules()).could_free([], 0)


def test_what_siblings_borrowed_of_a_full_cohort_is_taken_back_though_cards_are_free() -> None:
    before = _borrowers(1)
    pool = one_each(cards("6xH200"), 9, 8, 7, 6)
    views = {name: replace(view, cohort="lab") for name, view in before.tenants.items()}
    lab = {"lab": Branch(None, tenant(4000).quota)}
    full = replace(before, cards=pool[0], running=pool[1], tenants=views, cohorts=lab)
    assert evicted(full) == ["old-3"]
    assert evicted(full, reclaims=False) == []
    assert evicted(replace(full, tenants=views | {"nlp": replace(views["nlp"], quota=tenant(0, None).quota)})) == []


def test_a_full_pool_in_which_somebody_lends_only_a_part_stops_no_preemption() -> None:
    jobs = one_each(cards("5xH200"), 1, 2, 3, 4)
    idle = TenantView(Quota.of({GPU: Limit(1000, 0, 0)}), Amount())
    before = replace(asked(jobs, URGENT), tenants={"nlp": tenant(), "other": tenant(held=4000), "idle": idle})
    assert evicted(before) == ["old-0"]


def hungry(*processors: int) -> tuple[Cards, tuple[Running, ...]]:
    """A node of eight processors and a card more than there are jobs, of which each takes one and so many."""
    pool = cards(f"{len(processors) + 1}xH200", hosts=(8000, 64 * GIB))
    jobs = [
        running(
            pool, f"job-{n}", pool.uuids[n], want=replace(whole(), cpu_milli=1000 * each), since=NOW - (n + 1) * HOUR
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
