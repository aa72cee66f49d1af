"""Seats that others were told to leave: whose they are until that claim sits."""

from __future__ import annotations

from dataclasses import replace

from gpupool.scheduling.cycle import cycle
from gpupool.scheduling.owed import KEPT_NS, Owed, owed_first
from gpupool.scheduling.snapshot import Running, Snapshot, Waiting
from gpupool.scheduling.victims import PreemptionRules
from tests.support.gang_builders import gang, occupied, role, running
from tests.support.scheduling_builders import cards, snapshot, tenant, waiting, whole

NOW = 100 * 3600 * 10**9

B = waiting("b", want=whole(), priority=100, tenant="nlp", at=9)
RIVAL = waiting("rival", want=whole(), priority=100, tenant="vision", at=5)
HIGHER = waiting("higher", want=whole(), priority=101, tenant="vision", at=9)


def pool(*classes: Waiting, of: str = "1xH200", jobs: tuple[Running, ...] = (), owed: tuple[str, ...] = ()) -> Snapshot:
    """`nlp` has had more than its part of the pool, `vision` nothing."""
    tenants = {"nlp": replace(tenant(), past=10**12), "vision": tenant(), "other": tenant()}
    made = snapshot(occupied(cards(of), *jobs), *classes, tenants=tenants)
    return replace(made, running=jobs, owed=owed)


def placed(before: Snapshot) -> list[str]:
    return [one.job for one in cycle(before, NOW).placements]


def sitter(name: str, row: int, leaving_for: str = "", **more: object) -> Running:
    job = running(cards("2xH200"), name, f"node-1/{row}", want=whole(), since=0, **more)  # type: ignore[arg-type]
    return replace(job, leaving_for=leaving_for, preemptible=not leaving_for)


def test_a_claim_for_which_others_left_goes_before_one_that_stands_lower_in_the_fair_share() -> None:
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


def test_one_inside_its_guarantee_takes_no_seat_that_was_left_for_a_borrower_of_its_priority() -> None:
    before = pool(B, RIVAL, owed=("b",))
    tenants = before.tenants | {"nlp": tenant(0, None), "vision": tenant(1000, None)}
    preemptible = replace(B, preemptible=True)
    assert placed(replace(before, waiting=(preemptible, RIVAL), tenants=tenants)) == ["b"]
    assert placed(replace(before, waiting=(preemptible, RIVAL), tenants=tenants, owed=())) == ["rival"]


def test_of_its_own_class_too_it_goes_first() -> None:
    same = waiting("older", "b", want=whole(), priority=100, tenant="nlp", ages=(1, 9))
    assert placed(pool(same)) == ["older"]
    assert placed(pool(same, owed=("b",))) == ["b"]
    (moved,) = owed_first(pool(same), {"b"}).waiting
    assert (moved.heads, moved.heads_ns, moved.oldest_ns) == (("b", "older"), (9, 1), 1)


def test_one_that_finds_no_seat_any_more_waits_its_turn_and_holds_nobody_up() -> None:
    wide = waiting("wide", want=whole(2), priority=100, tenant="nlp", at=9)
    firm = replace(sitter("firm", 0, priority=100), preemptible=False)
    before = pool(wide, RIVAL, of="2xH200", jobs=(firm,), owed=("wide",))
    assert placed(before) == ["rival"]
    assert cycle(before, NOW) == cycle(before, NOW)


def test_nobody_else_has_to_leave_when_the_last_has_left() -> None:
    others = (sitter("low", 0),)
    found = cycle(pool(B, RIVAL, of="2xH200", jobs=others, owed=("b",)), NOW, rules=PreemptionRules(protected_s=0))
    assert ([one.job for one in found.placements], [one.beneficiary for one in found.evictions]) == (["b"], ["rival"])


def test_it_is_remembered_until_it_sits_or_a_minute_after_the_last_one_left() -> None:
    owed = Owed()
    owed.told("v", "b")
    owed.told("w", "b")
    owed.told("x", "c")
    owed.left("v", 5)
    assert owed.names(10**18) == ("b", "c")
    owed.left("w", 7)
    assert [owed.names(at) for at in (7 + KEPT_NS - 1, 7 + KEPT_NS)] == [("b", "c"), ("c",)]
    owed.settle("c")
    owed.left("x", 9)
    assert owed.names(9) == ("b",)


def test_what_was_written_down_is_taken_up_once_and_time_in_which_nobody_looked_does_not_count() -> None:
    owed, told = Owed(), [("v", "b"), ("w", "b"), ("x", "c")]
    owed.remember(told, {("x", "c")}, 100)
    assert [owed.names(at) for at in (100, 100 + KEPT_NS)] == [("b", "c"), ("c",)]
    owed.remember(told, {("x", "c")}, 100 + KEPT_NS)
    assert owed.names(100 + KEPT_NS) == ("c",)
