"""Which entries of the queue a spent budget holds."""

from __future__ import annotations

from dataclasses import replace

from gpupool.allocations.budgeting.holds import BudgetHold, BudgetHolds
from gpupool.allocations.cache.pending_jobs import QueueEntry
from gpupool.model.claim import Shape
from gpupool.scheduling import ClassKey

ENTRY = QueueEntry("j-1", ClassKey("nlp", 0, Shape(1000, 1)), 0, None, 7, project="chat")
HOLD = BudgetHold("b-1", "nlp", None, None, "spent")


def make_holds(*holds: BudgetHold) -> BudgetHolds:
    made = BudgetHolds()
    made.set_holds(holds)
    return made


def test_a_hold_covers_its_tenant_project_and_user() -> None:
    assert HOLD.covers(ENTRY)
    assert replace(HOLD, project="chat", user_id=7).covers(ENTRY)
    assert not replace(HOLD, tenant="vision").covers(ENTRY)
    assert not replace(HOLD, project="other").covers(ENTRY)
    assert not replace(HOLD, user_id=8).covers(ENTRY)


def test_an_entry_is_kept_while_it_is_held_and_counted_once() -> None:
    holds = make_holds(HOLD)
    assert holds.keep_entry(ENTRY)
    assert holds.keep_entry(ENTRY)
    assert (holds.count_entries("nlp"), holds.count_entries(("nlp", 7))) == (1, 1)
    assert holds.find_sentence("j-1") == "spent"
    holds.remove_entry("j-1")
    holds.remove_entry("j-1")
    assert (holds.count_entries("nlp"), holds.find_sentence("j-1")) == (0, None)


def test_members_of_a_held_array_wait_for_its_budget() -> None:
    holds = make_holds(HOLD)
    holds.keep_entry(replace(ENTRY, job="y-4k9x2m7q8w"))
    assert holds.find_sentence("y-4k9x2m7q8w.17") == "spent"


def test_only_other_owners_are_a_change() -> None:
    holds = make_holds(HOLD)
    assert not holds.set_holds([replace(HOLD, sentence="more is spent")])
    assert holds.set_holds([HOLD, replace(HOLD, budget="b-2", user_id=7)])
    assert holds.set_holds([])
    assert not holds.keep_entry(ENTRY)
