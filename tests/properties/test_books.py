"""What holds for the books, whatever was held, whenever it was folded, and however often the server
died."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from hypothesis import event, given, settings
from hypothesis import strategies as st

from gpupool.metering.books import (
    ZERO,
    BookAccount,
    CardSpan,
    MeteredSeat,
    RollupMarks,
    UsageAmount,
    add_up_account,
    cut_seat,
    split_by_slot,
)
from gpupool.metering.rollup import read_marks, roll_up
from gpupool.store.database import sqlite_url
from gpupool.wire.report import ReportOut
from tests.support.metering_books import ADMIN, CARD_MIB, DAY, HOUR, PEOPLE, START_S, Pool, S
from tests.support.properties import whole_pools

RANGE_S = 60

# The arithmetic against a simulation that goes second by second --------------------------------


@st.composite
def spans_of_a_card(draw: st.DrawFn) -> list[CardSpan]:
    cuts = sorted(draw(st.sets(st.integers(0, RANGE_S), max_size=4)))
    kinds = st.sampled_from(["pooled", "overhead", "unmanaged", None])
    found = []
    for start, end in pairwise([*cuts, None]):
        kind = draw(kinds)
        if kind is not None and start is not None:
            found.append(CardSpan(0, kind, 100, start, end))
    return found


seats_of_a_card = st.lists(
    st.builds(
        MeteredSeat,
        device=st.just(0),
        gpu_milli=st.sampled_from([0, 1, 250, 333]),
        memory_mib=st.integers(1, 33),
        start_s=st.integers(0, RANGE_S),
        end_s=st.none() | st.integers(RANGE_S, 2 * RANGE_S),
        owner=st.sampled_from(["ada", "bob"]),
    ),
    max_size=3,
)


def second_by_second(
    seats: Sequence[MeteredSeat], spans: Sequence[CardSpan], since_s: int, until_s: int
) -> BookAccount:
    book = BookAccount()
    for second in range(since_s, until_s):
        for span in (span for span in spans if _in_force(span, second)):
            left = UsageAmount(1000, span.memory_mib, 1_000_000)
            book.capacity += left
            for seat in (seat for seat in seats if _in_force(seat, second)):
                micro = max(seat.gpu_milli * 1000, seat.memory_mib * 1_000_000 // span.memory_mib)
                took = UsageAmount(seat.gpu_milli, seat.memory_mib, micro)
                book.owners[seat.owner] = book.owners.get(seat.owner, ZERO) + took
                left -= took
            kind = {"pooled": "idle"}.get(span.kind, span.kind)
            book.rest[kind] = book.rest.get(kind, ZERO) + left  # type: ignore[index]
    return book


def _in_force(thing: MeteredSeat | CardSpan, second: int) -> bool:
    return thing.start_s <= second and (thing.end_s is None or second < thing.end_s)


def _told(book: BookAccount) -> tuple[object, ...]:
    owners = {name: amount for name, amount in book.owners.items() if amount != ZERO}
    return (
        owners,
        {kind: amount for kind, amount in book.rest.items() if amount != ZERO},
        book.capacity,
    )


@given(seats_of_a_card, spans_of_a_card(), st.integers(0, RANGE_S), st.integers(0, RANGE_S))
def test_the_account_of_a_range_is_what_counting_every_second_gives(
    seats: list[MeteredSeat], spans: list[CardSpan], one: int, other: int
) -> None:
    since, until = sorted((one, other))
    assert _told(add_up_account(seats, spans, since, until)) == _told(
        second_by_second(seats, spans, since, until)
    )


@given(seats_of_a_card, spans_of_a_card(), st.integers(0, RANGE_S))
def test_the_rows_of_an_account_add_up_to_the_capacity(
    seats: list[MeteredSeat], spans: list[CardSpan], until: int
) -> None:
    book = add_up_account(seats, spans, 0, until)
    assert sum([*book.owners.values(), *book.rest.values()], ZERO) == book.capacity


@given(st.integers(0, 10**7), st.integers(0, 10**6), st.sampled_from([1, 300, HOUR, DAY]))
def test_splitting_loses_no_second_and_crosses_no_border(
    start: int, length: int, width: int
) -> None:
    parts = list(split_by_slot(start, start + min(length, 500 * width), width))
    assert sum(counted for _, counted in parts) == min(length, 500 * width)
    assert all(slot % width == 0 and 0 < counted <= width for slot, counted in parts)
    assert [slot for slot, _ in parts] == sorted({slot for slot, _ in parts})


@given(seats_of_a_card, spans_of_a_card(), st.integers(0, RANGE_S))
def test_the_pieces_of_a_seat_are_the_seat(
    seats: list[MeteredSeat], spans: list[CardSpan], until: int
) -> None:
    for seat in seats:
        whole = add_up_account([seat], spans, 0, until).owners.get(seat.owner, ZERO)
        assert sum((piece.amount for piece in cut_seat(seat, spans, until)), ZERO) == whole


@given(st.integers(0, 60 * DAY), st.integers(0, 60 * DAY), st.integers(0, 900), st.integers(0, 60))
def test_a_range_is_widened_as_little_as_the_books_need(
    one: int, other: int, hours: int, days: int
) -> None:
    marks = RollupMarks(fine_s=max(hours * HOUR, days * DAY), coarse_s=days * DAY)
    asked, (since, until) = sorted((one, other)), marks.align_range(*sorted((one, other)))
    assert since <= asked[0]
    assert until >= asked[1]
    for point, moved in ((asked[0], since), (asked[1], until)):
        width = 1 if point >= marks.fine_s else HOUR if point > marks.coarse_s else DAY
        assert abs(point - moved) < width
        assert moved >= marks.fine_s or moved % HOUR == 0
        assert moved >= marks.coarse_s or moved % DAY == 0


# The real books, folded and restarted at any time, against that arithmetic ---------------------

grants = st.tuples(
    st.just("grant"),
    st.integers(0, len(PEOPLE) - 1),
    st.integers(0, 1),
    st.sampled_from([0, 1, 250, 333, 1000]),
    st.sampled_from([1, 4096, 15356, CARD_MIB]),
)
steps = st.one_of(
    grants,
    grants,
    st.tuples(st.just("release"), st.integers(0, 20)),
    st.tuples(
        st.just("resize"),
        st.integers(0, 20),
        st.sampled_from([0, 2, 500, 1000]),
        st.sampled_from([7, CARD_MIB]),
    ),
    st.tuples(st.just("wait"), st.sampled_from([0.3, 1.0, 59.9, 3599.5, 3600.0, 5 * HOUR + 0.25])),
    st.tuples(st.just("wait"), st.sampled_from([DAY + 1.5, 3 * DAY + 0.5, 37 * DAY + 7.75])),
    st.tuples(st.just("roll"), st.integers(1, 5) | st.just(10_000)),
    st.tuples(st.just("restart"), st.integers(-2 * DAY, 600)),
    st.tuples(st.just("health"), st.integers(0, 1), st.sampled_from(["failed", "ok"])),
    st.tuples(st.just("drain"), st.integers(0, 1)),
    st.tuples(st.just("adopt"), st.integers(0, 1)),
    st.tuples(st.just("vanish")),
    st.tuples(st.just("appear")),
)


def _do(pool: Pool, step: tuple[object, ...]) -> None:
    match step:
        case ("grant", int(person), int(index), int(milli), int(memory_mib)):
            pool.grant(person, index, milli, memory_mib)
        case ("release", int(number)) if pool.held():
            pool.release(pool.held()[number % len(pool.held())])
        case ("resize", int(number), int(milli), int(memory_mib)) if pool.held():
            pool.resize(pool.held()[number % len(pool.held())], milli, memory_mib)
        case ("wait", float(seconds) | int(seconds)):
            pool.time.forward(seconds)
        case ("roll", int(count)):
            roll_up(pool.store, count)
        case ("restart", int(wall_step)):
            pool.time.wall_ns += wall_step * S
            pool.start()
        case _:
            _to_cards(pool, step)


def _to_cards(pool: Pool, step: tuple[object, ...]) -> None:
    lost = [
        index
        for index in range(2)
        if pool.fleet.get_device(f"node-1:{index}", ADMIN).state == "lost"
    ]
    match step:
        case ("health", int(index), str(health)) if index not in lost:
            pool.health(index, health)
        case ("drain", int(index)) if index not in lost:
            pool.drain(index)
        case ("adopt", int(index)) if index not in lost:
            pool.adopt(index)
        case ("vanish",):
            pool.register([0])
        case ("appear",):
            pool.register([0, 1])


def _agrees(pool: Pool, report: ReportOut) -> None:
    """The report's rows are those of the notes, second for second."""
    since_s, until_s = report.since_ns // S, report.until_ns // S
    book = add_up_account(list(pool.seats.values()), pool.spans, since_s, until_s)
    owners = {name: (a.card_milliseconds, a.memory_mib_seconds) for name, a in book.owners.items()}
    rows = {
        r.user: (r.card_milliseconds, r.memory_mib_seconds)
        for r in report.rows
        if r.kind == "tenant"
    }
    assert {name: both for name, both in rows.items() if any(both)} == {
        n: b for n, b in owners.items() if any(b)
    }
    for row in report.rows:
        if row.kind != "tenant":
            told = book.rest.get(row.kind, ZERO)
            assert (row.kind, row.card_milliseconds) == (row.kind, told.card_milliseconds)
            assert (row.kind, row.memory_mib_seconds) == (row.kind, told.memory_mib_seconds)
    assert report.capacity_card_milliseconds == book.capacity.card_milliseconds
    assert report.capacity_memory_mib_seconds == book.capacity.memory_mib_seconds
    assert report.closes


@settings(whole_pools, max_examples=25)
@given(
    st.lists(steps, min_size=3, max_size=20),
    st.sampled_from([0.5, 3 * DAY + 0.5, 36 * DAY + 1.75, 40 * DAY + 0.1]),
    st.lists(steps, min_size=3, max_size=20),
    st.lists(st.tuples(st.integers(0, 80 * DAY), st.integers(0, 80 * DAY)), min_size=2, max_size=4),
)
def test_reports_close_through_folding_restarts_and_clock_steps(
    before: list[tuple[object, ...]],
    pause: float,
    after: list[tuple[object, ...]],
    asked: list[tuple[int, int]],
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        pool = Pool(sqlite_url(Path(directory) / "gpupool.db"))
        try:
            for step in [*before, ("wait", pause), *after]:
                _do(pool, step)
            _check_everything(pool, asked)
            roll_up(pool.store)
            _check_everything(pool, asked)
        finally:
            pool.engine.dispose()


def _check_everything(pool: Pool, asked: list[tuple[int, int]]) -> None:
    now_s = pool.now_s()
    with pool.store.read() as connection:
        marks = read_marks(connection)
    event(
        f"oldest kept by the {'second' if marks.fine_s <= START_S else 'hour' if marks.coarse_s <= START_S else 'day'}"
    )
    reports = [pool.metering.make_report(ADMIN, 0, now_s * S, ["user"])]
    for one, other in asked:
        since, until = sorted((one % (now_s - START_S + HOUR), other % (now_s - START_S + HOUR)))
        begin_s = min(START_S + since, now_s)
        reports.append(
            pool.metering.make_report(
                ADMIN, begin_s * S, max(begin_s, START_S + until) * S, ["user"]
            )
        )
    for report in reports:
        _agrees(pool, report)
