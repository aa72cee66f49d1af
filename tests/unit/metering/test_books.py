"""The arithmetic of the books: where they can be cut, and what a seat takes of its card."""

from __future__ import annotations

import pytest

from gpupool.metering.books import (
    DAY_S,
    HOUR_S,
    ZERO,
    CardSpan,
    MeteredSeat,
    RollupMarks,
    UsageAmount,
    add_up_account,
    compute_dominant_micro,
    compute_remainders,
    count_seconds,
    cut_seat,
    split_by_slot,
)

#: Days before 2 d, hours before 2 d 3 h, then seconds.
MARKS = RollupMarks(fine_s=2 * DAY_S + 3 * HOUR_S, coarse_s=2 * DAY_S)
CARD = CardSpan(device=0, kind="pooled", memory_mib=1000, start_s=0)


@pytest.mark.parametrize(
    ("second", "before", "after"),
    [
        (MARKS.fine_s + 5, MARKS.fine_s + 5, MARKS.fine_s + 5),
        (MARKS.fine_s, MARKS.fine_s, MARKS.fine_s),
        (MARKS.fine_s - 1, MARKS.fine_s - HOUR_S, MARKS.fine_s),
        (MARKS.coarse_s, MARKS.coarse_s, MARKS.coarse_s),
        (MARKS.coarse_s + 1, MARKS.coarse_s, MARKS.coarse_s + HOUR_S),
        (MARKS.coarse_s - 1, MARKS.coarse_s - DAY_S, MARKS.coarse_s),
    ],
)
def test_books_are_cut_at_the_slots_that_they_still_have(
    second: int, before: int, after: int
) -> None:
    assert (MARKS.cut_before(second), MARKS.cut_after(second)) == (before, after)


def test_count_seconds_outside_the_range_is_none() -> None:
    assert count_seconds(10, 20, 20, 30) == 0
    assert count_seconds(30, None, 20, 30) == 0
    assert count_seconds(10, 40, 20, 30) == 10


def test_split_by_slot_loses_no_second() -> None:
    pieces = list(split_by_slot(HOUR_S - 1, 3 * HOUR_S + 1, HOUR_S))
    assert pieces == [(0, 1), (HOUR_S, HOUR_S), (2 * HOUR_S, HOUR_S), (3 * HOUR_S, 1)]
    assert list(split_by_slot(5, 5, HOUR_S)) == []


def test_dominant_part_is_the_larger_and_rounds_down() -> None:
    assert compute_dominant_micro(300, 1, 3) == 333_333
    assert compute_dominant_micro(400, 1, 3) == 400_000
    assert compute_dominant_micro(0, 5, 0) == 0


def test_cut_seat_ends_with_the_seat_the_span_or_the_moment() -> None:
    spans = [
        CardSpan(0, "pooled", 1000, 0, HOUR_S + 10),
        # No span for 10 s: the card was not there.
        CardSpan(0, "overhead", 1000, HOUR_S + 20),
    ]
    seat = MeteredSeat(0, 500, 100, HOUR_S - 5, HOUR_S + 40)
    pieces = list(cut_seat(seat, spans, HOUR_S + 30))
    assert [(one.hour_s, one.under, one.amount.card_milliseconds) for one in pieces] == [
        (0, "pooled", 5 * 500),
        (HOUR_S, "pooled", 10 * 500),
        (HOUR_S, "overhead", 10 * 500),
    ]


def test_account_of_two_holders_one_after_the_other_closes() -> None:
    seats = [
        MeteredSeat(0, 1000, 1000, 0, 60, "ada"),
        MeteredSeat(0, 300, 900, 60, None, "bob"),
        MeteredSeat(1, 1000, 1000, 0, None, "elsewhere"),
    ]
    book = add_up_account(seats, [CARD], 30, 90)
    assert set(book.owners) == {"ada", "bob"}
    assert book.owners["ada"] == UsageAmount(30_000, 30_000, 30_000_000)
    assert book.owners["bob"] == UsageAmount(9_000, 27_000, 27_000_000)
    total = book.owners["ada"] + book.owners["bob"]
    assert total + book.rest["idle"] == book.capacity == UsageAmount(60_000, 60_000, 60_000_000)


def test_remainders_name_every_kind_of_span() -> None:
    found = compute_remainders(
        {"pooled": UsageAmount(10, 10, 10)}, {"pooled": UsageAmount(4, 3, 2)}
    )
    assert found == {"idle": UsageAmount(6, 7, 8), "overhead": ZERO, "unmanaged": ZERO}
