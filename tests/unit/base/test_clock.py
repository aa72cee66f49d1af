"""A ledger clock that never runs back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupool.base.clock import LedgerClock


class Machine:
    """A wall clock that can be set and a boot clock that cannot."""

    def __init__(self) -> None:
        self.wall_now, self.boot_now = 1_000_000, 50

    def wall(self) -> int:
        return self.wall_now

    def boot(self) -> int:
        return self.boot_now


@given(
    st.lists(st.tuples(st.integers(0, 1000), st.integers(-5000, 5000)), max_size=30),
    st.integers(0, 2_000_000),
)
def test_the_ledger_clock_never_runs_back_whatever_the_wall_clock_does(
    steps: list[tuple[int, int]], floor: int
) -> None:
    machine = Machine()
    clock = LedgerClock(floor, wall=machine.wall, boot=machine.boot)
    seen = [clock.now_ns()]
    for passed, jump in steps:
        machine.boot_now += passed
        machine.wall_now += passed + jump
        seen.append(clock.now_ns())
    assert seen == sorted(seen)
    assert seen[0] >= floor
    assert seen[-1] - seen[0] == sum(passed for passed, _ in steps)


def test_a_clock_set_back_before_a_restart_goes_on_from_the_books() -> None:
    machine = Machine()
    clock = LedgerClock(5_000_000, wall=machine.wall, boot=machine.boot)
    assert clock.now_ns() == 5_000_000
    assert clock.ahead_ns() == 4_000_000


@pytest.mark.parametrize(
    ("floor", "wall", "expected"), [(0, 9_000_000, 9_000_000), (7_000_000, 0, 7_000_000)]
)
def test_a_clock_begun_later_follows_the_wall_clock_and_the_books(
    floor: int, wall: int, expected: int
) -> None:
    machine = Machine()
    clock = LedgerClock(wall=machine.wall, boot=machine.boot)
    machine.wall_now, machine.boot_now = wall, 60
    clock.begin_at(floor)
    assert clock.now_ns() == expected
    machine.boot_now += 5
    assert clock.now_ns() == expected + 5


def test_a_clock_begun_later_with_the_wall_set_back_does_not_run_back() -> None:
    machine = Machine()
    clock = LedgerClock(wall=machine.wall, boot=machine.boot)
    before = clock.now_ns()
    machine.wall_now = 0
    clock.begin_at(0)
    assert clock.now_ns() == before
