"""Define the arithmetic of the books, in integers and without a database.

Time is whole seconds of the ledger's clock. What was held from one instant to another counts
floor(end) - floor(start) seconds, so two holders that follow each other on one card never count a
second twice nor lose one between them. Every second of a known card is in exactly one span, whose
kind names the part of it that was not held. Knows nothing of tables, names or prices.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

#: Widths of the books' slots in seconds; days are days of UTC.
HOUR_S = 3600
DAY_S = 86400
#: Thousandths, and millionths, of one card.
WHOLE_MILLI = 1000
MICRO = 1_000_000

SpanKind = Literal["pooled", "overhead", "unmanaged"]
RowKind = Literal["tenant", "idle", "overhead", "unmanaged"]
#: The name in a report of the part of a span that was not held.
REMAINDER_OF: Mapping[SpanKind, RowKind] = {
    "pooled": "idle",
    "overhead": "overhead",
    "unmanaged": "unmanaged",
}


@dataclass(frozen=True, slots=True)
class UsageAmount:
    """Three sums: compute and memory add up to the capacity, and prices follow the third by default.

    `dominant_micro_seconds` is the larger of a share's two parts of its card, in millionths
    of the card (rounded down once per share), times seconds.
    """

    card_milliseconds: int = 0
    memory_mib_seconds: int = 0
    dominant_micro_seconds: int = 0

    def __add__(self, other: UsageAmount) -> UsageAmount:
        return UsageAmount(
            self.card_milliseconds + other.card_milliseconds,
            self.memory_mib_seconds + other.memory_mib_seconds,
            self.dominant_micro_seconds + other.dominant_micro_seconds,
        )

    def __sub__(self, other: UsageAmount) -> UsageAmount:
        return UsageAmount(
            self.card_milliseconds - other.card_milliseconds,
            self.memory_mib_seconds - other.memory_mib_seconds,
            self.dominant_micro_seconds - other.dominant_micro_seconds,
        )


ZERO = UsageAmount()


@dataclass(frozen=True, slots=True)
class HostAmount:
    """Processors and main memory that were held beside cards, or without any."""

    cpu_milli_seconds: int = 0
    memory_mib_seconds: int = 0

    def __add__(self, other: HostAmount) -> HostAmount:
        return HostAmount(
            self.cpu_milli_seconds + other.cpu_milli_seconds,
            self.memory_mib_seconds + other.memory_mib_seconds,
        )


@dataclass(frozen=True, slots=True)
class CardSpan:
    """A time in which a card was one thing to the pool; an open one has no end."""

    device: int
    kind: SpanKind
    memory_mib: int
    start_s: int
    end_s: int | None = None


@dataclass(frozen=True, slots=True)
class MeteredSeat:
    """One card's part of an allocation, as long as it was held. Without a promise it is 0 milli."""

    device: int
    gpu_milli: int
    memory_mib: int
    start_s: int
    end_s: int | None = None
    owner: str = ""


@dataclass(frozen=True, slots=True)
class SeatPiece:
    """Part of a seat inside one hour and one span."""

    hour_s: int
    under: SpanKind
    amount: UsageAmount


@dataclass(frozen=True)
class RollupMarks:
    """How fine the books still are: seconds from `fine_s` on, hours from `coarse_s` on, else days.

    `fine_s` is a whole hour, `coarse_s` a whole day and not after it.
    """

    fine_s: int = 0
    coarse_s: int = 0

    def cut_before(self, second: int) -> int:
        """Return the latest instant not after `second` at which the books can be cut."""
        return second - second % self.get_resolution(second)

    def cut_after(self, second: int) -> int:
        """Return the earliest instant not before `second` at which the books can be cut."""
        # The slot before the instant decides: at a mark itself the finer slots begin.
        width = self.get_resolution(second - 1)
        return -(-second // width) * width

    def get_resolution(self, second: int) -> int:
        """Return the width, in seconds, of the slots around `second`."""
        if second >= self.fine_s:
            return 1
        return HOUR_S if second >= self.coarse_s else DAY_S

    def align_range(self, since_s: int, until_s: int) -> tuple[int, int]:
        """Return the smallest range around the requested one that the books can answer exactly.

        >>> RollupMarks(fine_s=7200).align_range(1800, 9000)
        (0, 9000)
        """
        return self.cut_before(since_s), self.cut_after(until_s)


def count_seconds(start_s: int, end_s: int | None, since_s: int, until_s: int) -> int:
    """Count the whole seconds of [start, end) inside [since, until); without an end it goes on.

    >>> count_seconds(10, None, 0, 15), count_seconds(10, 12, 0, 15), count_seconds(20, 30, 0, 15)
    (5, 2, 0)
    """
    end = until_s if end_s is None else min(end_s, until_s)
    return max(0, end - max(start_s, since_s))


def split_by_slot(start_s: int, end_s: int, width_s: int) -> Iterator[tuple[int, int]]:
    """Yield (slot, seconds in it) for every slot of that width that [start, end) touches.

    >>> list(split_by_slot(3500, 7300, HOUR_S))
    [(0, 100), (3600, 3600), (7200, 100)]
    """
    while start_s < end_s:
        slot = start_s - start_s % width_s
        stop = min(slot + width_s, end_s)
        yield slot, stop - start_s
        start_s = stop


def compute_dominant_micro(gpu_milli: int, memory_mib: int, card_memory_mib: int) -> int:
    """Compute the larger of a share's parts of compute and memory, in millionths of the card.

    >>> compute_dominant_micro(300, 40960, 81920), compute_dominant_micro(300, 8192, 81920)
    (500000, 300000)
    """
    by_memory = memory_mib * MICRO // card_memory_mib if card_memory_mib else 0
    return max(gpu_milli * (MICRO // WHOLE_MILLI), by_memory)


def compute_held(seat: MeteredSeat, span: CardSpan, counted_s: int) -> UsageAmount:
    """Compute what a seat takes of its card in so many seconds of a span."""
    dominant = compute_dominant_micro(seat.gpu_milli, seat.memory_mib, span.memory_mib)
    return UsageAmount(
        seat.gpu_milli * counted_s, seat.memory_mib * counted_s, dominant * counted_s
    )


def compute_capacity(span: CardSpan, counted_s: int) -> UsageAmount:
    """Compute what a card gives in so many seconds of a span."""
    return UsageAmount(WHOLE_MILLI * counted_s, span.memory_mib * counted_s, MICRO * counted_s)


def cut_seat(seat: MeteredSeat, spans: Iterable[CardSpan], until_s: int) -> Iterator[SeatPiece]:
    """Cut a seat up to `until_s` at every whole hour and at every span of its card.

    Seconds in which the card had no span (it was not there) are not counted.
    """
    for span in spans:
        end = until_s if span.end_s is None else min(span.end_s, until_s)
        end = end if seat.end_s is None else min(end, seat.end_s)
        for hour_s, counted_s in split_by_slot(max(seat.start_s, span.start_s), end, HOUR_S):
            yield SeatPiece(hour_s, span.kind, compute_held(seat, span, counted_s))


@dataclass
class BookAccount:
    """The sums of a range of time; `capacity` is exactly `owners` and `rest` together."""

    owners: dict[str, UsageAmount] = field(default_factory=dict)
    rest: dict[RowKind, UsageAmount] = field(default_factory=dict)
    capacity: UsageAmount = ZERO


def add_up_account(
    seats: Sequence[MeteredSeat], spans: Sequence[CardSpan], since_s: int, until_s: int
) -> BookAccount:
    """Add up the books of a range from its seats and spans alone.

    The reports do this by SQL; this plain version is what tests compare them with.

    >>> card = CardSpan(device=0, kind="pooled", memory_mib=1000, start_s=0)
    >>> book = add_up_account([MeteredSeat(0, 300, 500, 0, 60, owner="ada")], [card], 0, 100)
    >>> book.owners["ada"].card_milliseconds, book.rest["idle"].card_milliseconds, book.capacity.card_milliseconds
    (18000, 82000, 100000)
    """
    book = BookAccount()
    for span in spans:
        total = compute_capacity(span, count_seconds(span.start_s, span.end_s, since_s, until_s))
        book.capacity += total
        kind = REMAINDER_OF[span.kind]
        book.rest[kind] = book.rest.get(kind, ZERO) + total
        start = max(span.start_s, since_s)
        end = until_s if span.end_s is None else min(span.end_s, until_s)
        for seat in seats:
            if seat.device == span.device:
                amount = compute_held(
                    seat, span, count_seconds(seat.start_s, seat.end_s, start, end)
                )
                book.owners[seat.owner] = book.owners.get(seat.owner, ZERO) + amount
                book.rest[kind] -= amount
    return book


def compute_remainders(
    total: Mapping[SpanKind, UsageAmount], taken: Mapping[SpanKind, UsageAmount]
) -> Mapping[RowKind, UsageAmount]:
    """Compute what was not held: a card's capacity less what was held, for each kind of span."""
    return {
        REMAINDER_OF[kind]: total.get(kind, ZERO) - taken.get(kind, ZERO) for kind in REMAINDER_OF
    }
