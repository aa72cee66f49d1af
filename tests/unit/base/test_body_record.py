"""Failures of one body: when it is in trouble, and when it is given up."""

from __future__ import annotations

import pytest

from gpupool.base.body_record import PATIENCE_SECONDS, STEADY_SECONDS, BodyRecord
from gpupool.base.errors import StoreBusy
from tests.support.hand_clock import Clock


@pytest.mark.parametrize(
    ("error", "gives_up"), [(ValueError(), True), (StoreBusy("x"), False), (OSError(28, ""), False)]
)
def test_only_what_a_new_process_could_mend_is_given_up(error: Exception, gives_up: bool) -> None:
    clock = Clock()
    record = BodyRecord("t", clock)
    may_go_on = True
    while clock.now <= PATIENCE_SECONDS and may_go_on:
        record.begin()
        may_go_on = record.record_failure(error)
        clock.now += 1
    assert may_go_on is not gives_up
    trouble = record.find_trouble()
    assert trouble is not None
    assert trouble.dead is gives_up


def test_a_body_that_ran_for_a_while_has_a_whole_patience_again() -> None:
    clock = Clock()
    record = BodyRecord("t", clock)
    for _ in range(100):
        record.begin()
        clock.now += STEADY_SECONDS
        assert record.find_trouble() is None
        assert record.record_failure(ValueError())


def test_trouble_says_since_when_the_body_fails_and_the_first_line() -> None:
    clock = Clock()
    record = BodyRecord("placing", clock)
    assert record.find_trouble() is None
    record.begin()
    record.record_failure(ValueError("no plan\nand a second line"))
    clock.now += 7
    found = record.find_trouble()
    assert found is not None
    assert (found.text, found.dead) == ("fails since 7 s: no plan", False)
    record.record_failure(ValueError())
    found = record.find_trouble()
    assert found is not None
    assert found.text == "fails since 7 s: ValueError"


def test_trouble_is_over_when_the_body_is_well_or_ran_steadily() -> None:
    clock = Clock()
    record = BodyRecord("placing", clock)
    record.record_failure(ValueError("x"))
    record.begin()
    clock.now += STEADY_SECONDS - 1
    assert record.find_trouble() is not None
    clock.now += 1
    assert record.find_trouble() is None
    record.record_failure(ValueError("x"))
    record.mark_well()
    assert record.find_trouble() is None


def test_trouble_of_a_body_that_ended_is_dead() -> None:
    record = BodyRecord("placing", Clock())
    record.record_end(SystemExit())
    found = record.find_trouble()
    assert found is not None
    assert (found.text, found.dead) == ("ended after 1 failures: SystemExit", True)
