"""Floors of priority: whom a borrowing claim may not pass."""

from __future__ import annotations

from gpupool.scheduling.quota.guaranteed_claims import PriorityFloors
from tests.support.scheduling_builders import waiting

LOW = waiting("low", tenant="nlp", priority=-10)
HIGH = waiting("high", tenant="vision", priority=50)


def floors(*owed: object) -> PriorityFloors:
    """Each tenant is a group of its own; for these classes others were evicted."""
    return PriorityFloors((LOW, HIGH), lambda one: one in owed, lambda tenant: tenant)


def test_a_borrower_passes_no_class_of_another_group() -> None:
    made = floors()
    assert made.find_floor("guest", owed=False) == -10
    assert made.find_floor("nlp", owed=False) == 50, "its own group bounds it not"


def test_a_beneficiary_respects_only_beneficiaries_of_other_groups() -> None:
    made = floors(HIGH)
    assert made.find_floor("guest", owed=True) == 50
    assert made.find_floor("vision", owed=True) is None
    assert made.find_floor("vision", owed=False) == -10


def test_seats_of_a_beneficiary_are_not_borrowed_by_its_own_group() -> None:
    assert floors(LOW).find_floor("nlp", owed=False) == -10


def test_a_floor_rises_when_its_last_class_had_its_turn() -> None:
    made = floors()
    assert not made.record_turn(LOW.key, stays=True, owed=False)
    assert made.record_turn(LOW.key, stays=False, owed=False)
    assert LOW.key not in made
    assert made.find_floor("guest", owed=False) == 50
    assert not made.record_turn(LOW.key, stays=False, owed=False), "it is gone already"
    assert made.record_turn(HIGH.key, stays=False, owed=False)
    assert not made
    assert made.find_floor("guest", owed=False) is None


def test_a_level_that_two_classes_have_stays_until_both_had_their_turns() -> None:
    twin = waiting("twin", tenant="nlp", priority=-10, want=HIGH.shape, at=1)
    other = waiting("other", tenant="web", priority=-10)
    made = PriorityFloors((twin, other, HIGH), group=lambda tenant: tenant)
    assert made.record_turn(twin.key, stays=False, owed=False)
    assert made.find_floor("guest", owed=False) == -10


def test_a_beneficiary_that_stays_inside_gives_its_seats_away_after_its_turn() -> None:
    made = floors(LOW)
    assert made.record_turn(LOW.key, stays=True, owed=False)
    assert LOW.key in made
    assert made.find_floor("guest", owed=True) is None
