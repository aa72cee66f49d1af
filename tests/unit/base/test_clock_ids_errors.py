"""A ledger clock that never runs back, names that can be typed, codes that stay."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupool.base.clock import LedgerClock
from gpupool.base.errors import BadName, GpupoolError, PoolLost, catalogue, from_code
from gpupool.base.ids import check_name, is_id, new_id


class Machine:
    """A wall clock that can be set and a boot clock that cannot."""

    def __init__(self) -> None:
        self.wall_now, self.boot_now = 1_000_000, 50

    def wall(self) -> int:
        return self.wall_now

    def boot(self) -> int:
        return self.boot_now


@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(-5000, 5000)), max_size=30), st.integers(0, 2_000_000))
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


@pytest.mark.parametrize(("floor", "wall", "expected"), [(0, 9_000_000, 9_000_000), (7_000_000, 0, 7_000_000)])
def test_a_clock_begun_later_follows_the_wall_clock_and_the_books(floor: int, wall: int, expected: int) -> None:
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


def test_ids_have_one_shape_and_cannot_be_names() -> None:
    made = new_id("j", lambda size: b"\xff" * size)
    assert made == "j-zzzzzzzzzz"
    assert is_id(made)
    assert not is_id("train-1")
    with pytest.raises(BadName):
        check_name(made)


@pytest.mark.parametrize("name", ["", "a\nb", "-x", "x-", "a b", "x" * 64, "naïve", "a/b", "\udcff"])
def test_names_that_cannot_be_typed_or_shown_are_refused(name: str) -> None:
    with pytest.raises(BadName):
        check_name(name)


@given(st.text(max_size=80))
def test_a_name_that_passes_is_one_line_of_plain_characters(name: str) -> None:
    try:
        assert check_name(name).isascii()
    except BadName as error:
        assert error.hint


def test_every_error_has_a_code_of_its_own() -> None:
    def walk(cls: type[GpupoolError]) -> list[type[GpupoolError]]:
        return [cls, *(found for sub in cls.__subclasses__() for found in walk(sub))]

    classes = walk(GpupoolError)[1:]
    assert len({cls.code for cls in classes}) == len(classes) == len(catalogue())


def test_an_error_travels_by_its_code_and_an_unknown_code_keeps_its_words() -> None:
    assert isinstance(from_code("GP-5008", "gone"), PoolLost)
    newer = from_code("GP-7777", "from the future", hint="upgrade")
    assert (newer.code, str(newer)) == ("GP-7777", "GP-7777: from the future\n  upgrade")
