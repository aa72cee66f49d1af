"""The life of a suspension: each move ends where it wanted to or where it came from."""

from __future__ import annotations

from gpupool.model.deadlines import SUSPENSIONS
from gpupool.model.suspension import (
    AWAY,
    TRANSITIONS,
    UNDERWAY,
    IdleSuspensionRules,
    SuspensionState,
)


def test_every_state_can_be_reached_and_left() -> None:
    assert set(TRANSITIONS) == {None, *SuspensionState}
    reached = {new for news in TRANSITIONS.values() for new in news}
    assert reached == {None, *SuspensionState}
    assert all(TRANSITIONS.values())
    assert set(SUSPENSIONS) == set(SuspensionState)


def test_a_move_under_way_ends_in_one_of_two_states_that_are_at_rest() -> None:
    for state in UNDERWAY:
        assert len(TRANSITIONS[state]) == 2
        assert not TRANSITIONS[state] & UNDERWAY
    assert UNDERWAY < AWAY
    assert SuspensionState.FAILED not in AWAY


def test_a_factor_limits_running_and_idle_suspended_shares_together() -> None:
    assert IdleSuspensionRules().compute_limit(140) == 140
    assert IdleSuspensionRules(memory_factor_milli=1500).compute_limit(141) == 211
