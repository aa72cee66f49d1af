"""The parts of a span add up to it; who gets how much of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupool.metering.energy.division import (
    EnergyPart,
    HeldShare,
    PowerSpan,
    cut_span,
    divide_span,
)

S = 10**9
TEN = PowerSpan(1, 100 * S, 110 * S, 1000)


def share(owner: str, milli: int, start: int = 0, end: int | None = None) -> HeldShare[str]:
    return HeldShare(owner, f"j-{owner}", milli, start * S, None if end is None else end * S)


shares = st.lists(
    st.builds(
        HeldShare,
        owner=st.sampled_from("abc"),
        job=st.sampled_from(["j-a", "j-b", "j-c", "j-d"]),
        gpu_milli=st.sampled_from([0, 1, 250, 333, 1000]),
        start_ns=st.integers(0, 2000),
        end_ns=st.none() | st.integers(0, 2000),
    ),
    max_size=5,
)
spans = st.builds(
    PowerSpan,
    device_id=st.just(1),
    start_ns=st.integers(0, 1000),
    end_ns=st.integers(1001, 2000),
    millijoules=st.integers(0, 10**9),
    uses=st.dictionaries(
        st.sampled_from(["j-a", "j-b", "j-c", "j-d"]), st.integers(0, 3000), max_size=4
    ),
)


@given(spans, shares)
def test_the_parts_of_a_span_add_up_and_none_is_negative(
    span: PowerSpan, held: list[HeldShare[str]]
) -> None:
    parts, left = divide_span(span, held)
    energies = [part.millijoules for part in (*parts.values(), left)]
    assert sum(energies) == span.millijoules
    assert min(energies) >= 0
    assert all(part.measured_milliseconds >= 0 for part in (*parts.values(), left))


@given(spans, st.integers(1, 700))
def test_the_pieces_of_a_span_add_up_in_energy_and_in_use(span: PowerSpan, width: int) -> None:
    long = PowerSpan(1, span.start_ns * S, span.end_ns * S, span.millijoules, span.uses)
    pieces = cut_span(long, width)
    assert sum(piece.millijoules for piece in pieces) == span.millijoules
    for job, used in span.uses.items():
        assert sum(piece.uses[job] for piece in pieces) == used
    assert pieces[0].start_ns == long.start_ns
    assert pieces[-1].end_ns == long.end_ns
    for piece in pieces:
        assert piece.start_ns // (width * S) == (piece.end_ns - 1) // (width * S)


@pytest.mark.parametrize(
    ("held", "uses", "expected", "left"),
    [
        ([], {}, {}, 1000),
        ([share("a", 250)], {}, {"a": 250}, 750),
        ([share("a", 250), share("b", 750)], {}, {"a": 250, "b": 750}, 0),
        # Measured: by use, and what both hold stays theirs.
        (
            [share("a", 500), share("b", 500)],
            {"j-a": 9 * S, "j-b": S},
            {"a": 900, "b": 100},
            0,
        ),
        # One of two is unknown: by what they hold.
        ([share("a", 500), share("b", 500)], {"j-a": 9 * S}, {"a": 500, "b": 500}, 0),
        # An idle holder has the part that it holds.
        ([share("a", 250)], {"j-a": 0}, {"a": 250}, 750),
        # Burst and best-effort have what they used.
        ([share("a", 250)], {"j-a": 8 * S}, {"a": 800}, 200),
        ([share("a", 0)], {"j-a": 5 * S}, {"a": 500}, 500),
        ([share("a", 0)], {}, {"a": 0}, 1000),
        # Held for a part of the span.
        ([share("a", 1000, 105)], {}, {"a": 500}, 500),
        ([share("a", 1000, 0, 105), share("b", 1000, 105)], {}, {"a": 500, "b": 500}, 0),
        ([share("a", 1000, 0, 100)], {}, {}, 1000),
    ],
)
def test_a_span_is_divided_by_use_else_by_what_is_held(
    held: list[HeldShare[str]], uses: dict[str, int], expected: dict[str, int], left: int
) -> None:
    parts, rest = divide_span(PowerSpan(1, 100 * S, 110 * S, 1000, uses), held)
    assert {owner: part.millijoules for owner, part in parts.items()} == expected
    assert rest.millijoules == left


def test_measured_time_is_that_of_the_books() -> None:
    parts, left = divide_span(TEN, [share("a", 300, 104), share("b", 500)])
    assert parts["a"].measured_milliseconds == 300 * 6
    assert parts["b"].measured_milliseconds == 500 * 10
    assert left.measured_milliseconds == 10_000 - 1800 - 5000
    assert EnergyPart(1, 2).plus(EnergyPart(3, 4)) == EnergyPart(4, 6)
