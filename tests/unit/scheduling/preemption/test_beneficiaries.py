"""Seats that others were told to leave: whose they are until that claim sits."""

from __future__ import annotations

from dataclasses import replace

from gpupool.base.units import GIB
from gpupool.model.quota import ResourceAmount
from gpupool.scheduling.engine.cycle import cycle
from gpupool.scheduling.preemption.beneficiaries import (
    TURN_KEPT_NS,
    EvictionBeneficiaries,
    move_beneficiaries_first,
)
from gpupool.scheduling.preemption.victims import PreemptionRules
from gpupool.scheduling.snapshot.claims import RunningJob, WaitingClass
from gpupool.scheduling.snapshot.snapshot import Snapshot
from tests.support.gang_builders import gang, occupied, role, running
from tests.support.scheduling_builders import cards, snapshot, tenant, waiting, whole

NOW = 100 * 3600 * 10**9

RULES = PreemptionRules(protected_s=0)
"""Sixty seconds of grace."""

B = waiting("b", want=whole(), priority=100, tenant="nlp", at=9)
RIVAL = waiting("rival", want=whole(), priority=100, tenant="vision", at=5)
HIGHER = waiting("higher", want=whole(), priority=101, tenant="vision", at=9)


def pool(
    *classes: WaitingClass,
    of: str = "1xH200",
    jobs: tuple[RunningJob, ...] = (),
    owed: tuple[str, ...] = (),
) -> Snapshot:
    """`nlp` has had more than its part of the pool, `vision` nothing."""
    tenants = {"nlp": replace(tenant(), past=10**12), "vision": tenant(), "other": tenant()}
    made = snapshot(occupied(cards(of), *jobs), *classes, tenants=tenants)
    return replace(made, running=jobs, beneficiaries=owed)


def placed(before: Snapshot) -> list[str]:
    return [one.job for one in cycle(before, NOW).placements]


def sitter(name: str, row: int, leaving_for: str = "", **more: object) -> RunningJob:
    job = running(cards("2xH200"), name, f"node-1/{row}", want=whole(), since=0, **more)  # type: ignore[arg-type]
    return replace(job, beneficiary=leaving_for, preemptible=not leaving_for)


def test_a_claim_for_which_others_left_goes_before_one_that_stands_lower_in_the_fair_share() -> (
    None
):
    assert placed(pool(B, RIVAL)) == ["rival"]
    assert placed(pool(B, RIVAL, owed=("b",))) == ["b"]


def test_a_claim_of_higher_priority_still_goes_first() -> None:
    assert placed(pool(B, HIGHER, owed=("b",))) == ["higher"]


def test_what_one_of_two_victims_has_left_already_is_kept_while_the_other_leaves() -> None:
    both = gang("pair", role("w", whole(), 2), priority=100, tenant="nlp", at=9)
    half = pool(both, RIVAL, of="2xH200", jobs=(sitter("v", 1, "pair"),))
    assert placed(half) == []
    assert placed(replace(half, running=(sitter("v", 1),))) == ["rival"]
    assert sorted(placed(pool(both, RIVAL, of="2xH200", owed=("pair",)))) == ["pair-0", "pair-1"]


def test_one_inside_its_guarantee_takes_no_seat_that_was_left_for_a_borrower_of_its_priority() -> (
    None
):
    before = pool(B, RIVAL, owed=("b",))
    tenants = before.tenants | {"nlp": tenant(0, None), "vision": tenant(1000, None)}
    preemptible = replace(B, preemptible=True)
    assert placed(replace(before, waiting=(preemptible, RIVAL), tenants=tenants)) == ["b"]
    assert placed(
        replace(before, waiting=(preemptible, RIVAL), tenants=tenants, beneficiaries=())
    ) == ["rival"]


def test_of_its_own_class_too_it_goes_first() -> None:
    same = waiting("older", "b", want=whole(), priority=100, tenant="nlp", ages=(1, 9))
    assert placed(pool(same)) == ["older"]
    assert placed(pool(same, owed=("b",))) == ["b"]
    (moved,) = move_beneficiaries_first(pool(same), {"b"}).waiting
    assert (moved.job_ids, moved.submitted_ns, moved.oldest_ns) == (("b", "older"), (9, 1), 1)


def test_one_that_finds_no_seat_any_more_waits_its_turn_and_holds_nobody_up() -> None:
    wide = waiting("wide", want=whole(2), priority=100, tenant="nlp", at=9)
    firm = replace(sitter("firm", 0, priority=100), preemptible=False)
    before = pool(wide, RIVAL, of="2xH200", jobs=(firm,), owed=("wide",))
    assert placed(before) == ["rival"]
    assert cycle(before, NOW) == cycle(before, NOW)


def test_nobody_else_has_to_leave_when_the_last_has_left() -> None:
    others = (sitter("low", 0),)
    found = cycle(
        pool(B, RIVAL, of="2xH200", jobs=others, owed=("b",)),
        NOW,
        rules=PreemptionRules(protected_s=0),
    )
    assert (
        [one.job for one in found.placements],
        [one.beneficiary for one in found.evictions],
    ) == (["b"], ["rival"])


def guaranteed(
    *classes: WaitingClass, owed: tuple[str, ...] = (), jobs: tuple[RunningJob, ...] = ()
) -> Snapshot:
    """`nlp` is guaranteed the only card; `vision` may borrow it."""
    before = pool(*classes, owed=owed, jobs=jobs)
    held = ResourceAmount(1000, 140 * GIB) if jobs else ResourceAmount()
    tenants = before.tenants | {
        "nlp": tenant(1000, 0),
        "vision": replace(tenant(0, None), held=held),
    }
    return replace(before, tenants=tenants)


OWNER = replace(B, priority=0)
BORROWER = replace(RIVAL, preemptible=True)


def test_what_was_taken_back_is_not_borrowed_again_whatever_the_borrowers_priority() -> None:
    """The borrower took the same card again, was told to leave again, and so on: 22 times in 19
    minutes."""
    sits = sitter("v", 0, tenant="vision", priority=100)
    told = cycle(guaranteed(OWNER, jobs=(sits,)), NOW, rules=RULES)
    assert [(one.job, one.beneficiary) for one in told.evictions] == [("v", "b")]
    leaves = replace(sits, beneficiary="b", preemptible=False)
    meanwhile = cycle(guaranteed(OWNER, BORROWER, owed=("b",), jobs=(leaves,)), NOW, rules=RULES)
    assert (meanwhile.placements, meanwhile.evictions) == ((), ())
    assert placed(guaranteed(OWNER, BORROWER, owed=("b",))) == ["b"]


def test_of_two_owners_of_one_class_for_which_others_left_none_loses_its_seat_to_a_borrower() -> (
    None
):
    two = waiting("b", "b2", want=whole(), tenant="nlp", at=9)
    wide = pool(two, BORROWER, of="2xH200", owed=("b", "b2", "rival"))
    tenants = {"nlp": tenant(2000, 0), "vision": tenant(0, None), "other": tenant(0, None)}
    assert placed(replace(wide, tenants=tenants)) == ["b", "b2"]


def test_a_borrower_takes_no_card_that_its_owner_would_take_back_at_once() -> None:
    assert placed(guaranteed(OWNER, BORROWER)) == ["b"]
    assert placed(guaranteed(BORROWER)) == ["rival"]


def test_where_nothing_is_taken_back_priority_decides_who_borrows() -> None:
    rules = PreemptionRules(reclaims=False)
    assert [one.job for one in cycle(guaranteed(OWNER, BORROWER), NOW, rules=rules).placements] == [
        "rival"
    ]


def test_an_owner_of_higher_priority_still_goes_before_one_for_which_others_left() -> None:
    before = guaranteed(OWNER, replace(HIGHER, tenant="owner too"), owed=("b",))
    tenants = before.tenants | {"nlp": tenant(500, 0), "owner too": tenant(1000, 0)}
    assert placed(replace(before, tenants=tenants)) == ["higher"]


def test_a_borrower_that_is_kept_back_has_its_turn_before_lower_ones_once_the_owner_had_his() -> (
    None
):
    low = replace(waiting("low", want=whole(), priority=1, tenant="other", at=1), preemptible=True)
    wide = pool(OWNER, low, BORROWER, of="2xH200")
    tenants = {"nlp": tenant(1000, 0), "vision": tenant(0, None), "other": tenant(0, None)}
    assert placed(replace(wide, tenants=tenants)) == ["b", "rival"]


def test_the_start_that_was_promised_does_not_move_on_while_the_victims_leave() -> None:
    sits = sitter("v", 0, tenant="vision", priority=100)
    told = cycle(guaranteed(OWNER, jobs=(sits,)), NOW, rules=RULES)
    leaves = replace(sits, beneficiary="b", preemptible=False)
    later, instants = guaranteed(OWNER, BORROWER, owed=("b",), jobs=(leaves,)), []
    promised = told.starts
    for seconds in (1, 20, 59, 61):
        plan = cycle(replace(later, previous_starts=promised), NOW + seconds * 10**9, rules=RULES)
        instants.append((plan.starts[OWNER.key].at_ns - NOW) // 10**9)
        promised = plan.starts
    assert instants == [60, 60, 60, 121], "only a victim that takes longer than its grace moves it"


def test_a_victim_with_a_long_time_limit_still_leaves_within_its_grace() -> None:
    leaves = replace(sitter("v", 0, "b", tenant="vision"), ends_ns=NOW + 10 * 3600 * 10**9)
    plan = cycle(guaranteed(OWNER, owed=("b",), jobs=(leaves,)), NOW, rules=RULES)
    assert plan.starts[OWNER.key].at_ns == NOW + 60 * 10**9


def test_it_is_remembered_until_it_sits_or_a_minute_after_the_last_one_left() -> None:
    owed = EvictionBeneficiaries()
    owed.add_eviction("v", "b")
    owed.add_eviction("w", "b")
    owed.add_eviction("x", "c")
    owed.record_departure("v", 5)
    assert owed.list_claims(10**18) == ("b", "c")
    owed.record_departure("w", 7)
    assert [owed.list_claims(at) for at in (7 + TURN_KEPT_NS - 1, 7 + TURN_KEPT_NS)] == [
        ("b", "c"),
        ("c",),
    ]
    owed.remove_claim("c")
    owed.record_departure("x", 9)
    assert owed.list_claims(9) == ("b",)


def test_what_was_written_down_is_taken_up_once_and_time_in_which_nobody_looked_does_not_count() -> (
    None
):
    owed, told = EvictionBeneficiaries(), [("v", "b"), ("w", "b"), ("x", "c")]
    owed.restore_evictions(told, {("x", "c")}, 100)
    assert [owed.list_claims(at) for at in (100, 100 + TURN_KEPT_NS)] == [("b", "c"), ("c",)]
    owed.restore_evictions(told, {("x", "c")}, 100 + TURN_KEPT_NS)
    assert owed.list_claims(100 + TURN_KEPT_NS) == ("c",)


def test_the_beneficiary_whose_victims_left_last_has_the_first_turn() -> None:
    owed = EvictionBeneficiaries()
    for number, claim in enumerate(("early", "late", "waiting")):
        owed.add_eviction(f"victim-{number}", claim)
    assert owed.list_claims(NOW) == ("early", "late", "waiting")
    owed.record_departure("victim-0", NOW)
    owed.record_departure("victim-1", NOW + 1)
    assert owed.list_claims(NOW + 1) == ("late", "early", "waiting")
    owed.remove_claim("late")
    assert owed.list_claims(NOW + 1) == ("early", "waiting")
