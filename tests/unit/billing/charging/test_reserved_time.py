"""What became of a reservation adds up to it, against a simulation that goes second by second."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from gpupool.base.units import MIB
from gpupool.billing.charging.reserved_time import (
    CardModel,
    ReservedWindow,
    UsedSeat,
    divide_window,
    measure_seat,
)
from gpupool.metering.books import MICRO, UsageAmount
from gpupool.model.claim import Shape

CARDS = (CardModel("L40S", 1000), CardModel("H200", 4000))
WHOLE = Shape(1000, None, 1)
PLENTY = UsageAmount(10**12, 10**12, 10**15)
EVERYWHERE = {card.model: PLENTY for card in CARDS}

shapes = st.sampled_from([WHOLE, Shape(300, 500 * MIB, 1), Shape(333, None, 2), Shape(1, MIB, 1)])
windows = st.builds(
    ReservedWindow,
    reservation_id=st.just(1),
    tenant_id=st.just(2),
    shape=shapes,
    seats=st.integers(1, 4),
    start_s=st.integers(0, 20),
    end_s=st.integers(21, 40),
)
amounts = st.builds(
    UsageAmount, st.integers(-10, 50_000), st.integers(-10, 50_000), st.integers(-10, 10**8)
)


@st.composite
def draw_seats(draw: st.DrawFn) -> list[UsedSeat]:
    found = []
    for _ in range(draw(st.integers(0, 5))):
        milli = draw(st.sampled_from([0, 100, 333, 1000]))
        start_s = draw(st.integers(0, 39))
        found.append(
            UsedSeat(
                draw(st.sampled_from(["L40S", "H200", "T4"])),
                milli,
                max(milli * 1000, draw(st.integers(1, MICRO))),
                start_s,
                draw(st.integers(start_s, 50)),
            )
        )
    return found


def use_second_by_second(window: ReservedWindow, seats: Sequence[UsedSeat]) -> int:
    """Millionths of a seat times seconds that jobs use, each second at most what is reserved."""
    used = 0
    for second in range(window.start_s, window.end_s):
        taken = 0
        for card in CARDS:
            each = measure_seat(window.shape, card)
            now = [
                one
                for one in seats
                if one.model == card.model and one.start_s <= second < one.end_s
            ]
            parts = (
                (sum(one.gpu_milli for one in now), each.card_milliseconds),
                (sum(one.dominant_micro for one in now), each.dominant_micro_seconds),
            )
            taken += max(-(-number * MICRO // unit) for number, unit in parts)
        used += min(taken, window.seats * MICRO)
    return used


@settings(max_examples=60)
@given(windows, draw_seats(), st.dictionaries(st.sampled_from(["L40S", "H200"]), amounts))
def test_used_unused_and_missing_are_the_reservation_exactly(
    window: ReservedWindow, seats: list[UsedSeat], idle: dict[str, UsageAmount]
) -> None:
    parts = divide_window(window, seats, CARDS, idle)
    assert sum(part.used + part.unused + part.missing for part in parts) == window.capacity
    assert sum(part.used for part in parts) == use_second_by_second(window, seats)
    for part in parts:
        free = idle.get(part.model, UsageAmount())
        assert 0 <= part.amount.card_milliseconds <= max(0, free.card_milliseconds)
        assert 0 <= part.amount.memory_mib_seconds <= max(0, free.memory_mib_seconds)
        assert 0 <= part.amount.dominant_micro_seconds <= max(0, free.dominant_micro_seconds)


@settings(max_examples=40)
@given(windows, draw_seats())
def test_a_job_and_the_rest_of_its_reservation_are_never_more_than_it(
    window: ReservedWindow, seats: list[UsedSeat]
) -> None:
    card = CARDS[0]
    part = divide_window(window, seats, [card], EVERYWHERE)[0]
    each = measure_seat(window.shape, card)
    most = 0
    for second in range(window.start_s, window.end_s):
        held = sum(
            one.dominant_micro
            for one in seats
            if one.model == card.model and one.start_s <= second < one.end_s
        )
        most += max(0, each.dominant_micro_seconds * window.seats - held)
    assert part.amount.dominant_micro_seconds <= most


def test_unused_time_is_of_the_first_model_as_far_as_it_is_idle() -> None:
    window = ReservedWindow(1, 2, WHOLE, 2, 0, 10)
    idle = {"L40S": UsageAmount(5_000, 5_000, 5 * MICRO), "H200": PLENTY}
    first, second = divide_window(window, (), CARDS, idle)
    assert (first.model, first.amount) == ("L40S", idle["L40S"])
    assert (second.model, second.amount.card_milliseconds) == ("H200", 15_000)


def test_cards_that_are_late_are_missing_and_not_unused() -> None:
    window = ReservedWindow(1, 2, WHOLE, 1, 0, 10)
    (part,) = divide_window(window, (), CARDS[:1], {})
    assert (part.unused, part.missing) == (0, 10 * MICRO)
    (nowhere,) = divide_window(window, (), (), {})
    assert (nowhere.model, nowhere.missing) == ("", 10 * MICRO)
