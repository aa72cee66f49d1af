"""The law of the books, in integers and without a database: who held what, and what was left.

Time is whole seconds of the ledger's clock. Something that was held from one instant to
another counts floor(end) - floor(start) seconds, so two holders that follow each other on
one card never count a second twice nor lose one between them. Every second of a known card
is in exactly one span, whose kind names the part of it that was not held.
Knows nothing of tables, names or prices.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

HOUR_S, DAY_S = 3600, 86400
WHOLE_MILLI = 1000
MICRO = 1_000_000

SpanKind = Literal["pooled", "overhead", "unmanaged"]
RowKind = Literal["tenant", "idle", "overhead", "unmanaged"]
REMAINDER_OF: Mapping[SpanKind, RowKind] = {"pooled": "idle", "overhead": "overhead", "unmanaged": "unmanaged"}
"""The name in a report of the part of a span that was not held."""


@dataclass(frozen=True, slots=True)
class Amount:
    """Two columns that close by themselves, and the one that prices follow by default.

    `dominant_micro_seconds` is the larger of a share's two parts of its card, in millionths
    of the card (rounded down once per share), times seconds.
    """

    card_milliseconds: int = 0
    memory_mib_seconds: int = 0
    dominant_micro_seconds: int = 0

    def __add__(self, other: Amount) -> Amount:
        return Amount(
            self.card_milliseconds + other.card_milliseconds,
            self.memory_mib_seconds + other.memory_mib_seconds,
            self.dominant_micro_seconds + other.dominant_micro_seconds,
        )

    def __sub__(self, other: Amount) -> Amount:
        return Amount(
            self.card_milliseconds - other.card_milliseconds,
            self.memory_mib_seconds - other.memory_mib_seconds,
            self.dominant_micro_seconds - other.dominant_micro_seconds,
        )


ZERO = Amount()


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of time in which a card was one thing to the pool; an open one has no end."""

    device: int
    kind: SpanKind
    memory_mib: int
    start_s: int
    end_s: int | None = None


@dataclass(frozen=True, slots=True)
class Seat:
    """One card's part of an allocation, as long as it was held. Best effort holds 0 milli."""

    device: int
    gpu_milli: int
    memory_mib: int
    start_s: int
    end_s: int | None = None
    owner: str = ""


@dataclass(frozen=True, slots=True)
class Piece:
    """Part of a seat inside one hour and one span."""

    hour_s: int
    under: SpanKind
    amount: Amount


@dataclass(frozen=True)
class Marks:
    """How fine the books still are: to the second from `fine_s` on, to the hour from `coarse_s`, before it to the day.

    `fine_s` is a whole hour, `coarse_s` a whole day and not after it.
    """

    fine_s: int = 0
    coarse_s: int = 0

    def floor(self, second: int) -> int:
        """The latest instant not after `second` at which the books can be cut."""
        return second - second % self.resolution(second)

    def ceil(self, second: int) -> int:
        """The earliest instant not before `second` at which the books can be cut."""
        width = self.resolution(second - 1)
        return -(-second // width) * width

    def resolution(self, second: int) -> int:
        """Seconds that the books still tell apart around `second`."""
        if second >= self.fine_s:
            return 1
        return HOUR_S if second >= self.coarse_s else DAY_S

    def align(self, since_s: int, until_s: int) -> tuple[int, int]:
        """The smallest range around the asked one that the books can answer exactly.

        >>> Marks(fine_s=7200).align(1800, 9000)
        (0, 9000)
        """
        return self.floor(since_s), self.ceil(until_s)


def seconds(start_s: int, end_s: int | None, since_s: int, until_s: int) -> int:
    """Whole seconds of [start, end) inside [since, until); no end: it still goes on.

    >>> seconds(10, None, 0, 15), seconds(10, 12, 0, 15), seconds(20, 30, 0, 15)
    (5, 2, 0)
    """
    end = until_s if end_s is None else min(end_s, until_s)
    return max(0, end - max(start_s, since_s))


def split(start_s: int, end_s: int, width_s: int) -> Iterator[tuple[int, int]]:
    """(slot, seconds in it) for every slot of that width which [start, end) touches; no second is lost.

    >>> list(split(3500, 7300, HOUR_S))
    [(0, 100), (3600, 3600), (7200, 100)]
    """
    while start_s < end_s:
        slot = start_s - start_s % width_s
        stop = min(slot + width_s, end_s)
        yield slot, stop - start_s
        start_s = stop


def dominant_micro(gpu_milli: int, memory_mib: int, card_memory_mib: int) -> int:
    """The larger of a share's part of the compute and of the memory, in millionths of the card.

    >>> dominant_micro(300, 40960, 81920), dominant_micro(300, 8192, 81920)
    (500000, 300000)
    """
    by_memory = memory_mib * MICRO // card_memory_mib if card_memory_mib else 0
    return max(gpu_milli * (MICRO // WHOLE_MILLI), by_memory)


def held(seat: Seat, span: Span, counted_s: int) -> Amount:
    """What a seat takes of its card in so many seconds of a span."""
    dominant = dominant_micro(seat.gpu_milli, seat.memory_mib, span.memory_mib)
    return Amount(seat.gpu_milli * counted_s, seat.memory_mib * counted_s, dominant * counted_s)


def capacity(span: Span, counted_s: int) -> Amount:
    """What a card gives in so many seconds of a span."""
    return Amount(WHOLE_MILLI * counted_s, span.memory_mib * counted_s, MICRO * counted_s)


def pieces(seat: Seat, spans: Iterable[Span], until_s: int) -> Iterator[Piece]:
    """A seat up to `until_s`, cut at every whole hour and at every span of its card.

    Seconds in which the card had no span (it was not there) are not counted.
    """
    for span in spans:
        end = until_s if span.end_s is None else min(span.end_s, until_s)
        end = end if seat.end_s is None else min(end, seat.end_s)
        for hour_s, counted_s in split(max(seat.start_s, span.start_s), end, HOUR_S):
            yield Piece(hour_s, span.kind, held(seat, span, counted_s))


@dataclass
class Account:
    """What a range of time adds up to. `capacity` is the sum of all the rest, exactly."""

    owners: dict[str, Amount] = field(default_factory=dict)
    rest: dict[RowKind, Amount] = field(default_factory=dict)
    capacity: Amount = ZERO


def account(seats: Sequence[Seat], spans: Sequence[Span], since_s: int, until_s: int) -> Account:
    """The books of a range, computed from its seats and spans alone.

    >>> card = Span(device=0, kind="pooled", memory_mib=1000, start_s=0)
    >>> book = account([Seat(0, 300, 500, 0, 60, owner="ada")], [card], 0, 100)
    >>> book.owners["ada"].card_milliseconds, book.rest["idle"].card_milliseconds, book.capacity.card_milliseconds
    (18000, 82000, 100000)
    """
    book = Account()
    for span in spans:
        total = capacity(span, seconds(span.start_s, span.end_s, since_s, until_s))
        book.capacity += total
        kind = REMAINDER_OF[span.kind]
        book.rest[kind] = book.rest.get(kind, ZERO) + total
        start, end = max(span.start_s, since_s), until_s if span.end_s is None else min(span.end_s, until_s)
        for seat in seats:
            if seat.device == span.device:
                amount = held(seat, span, seconds(seat.start_s, seat.end_s, start, end))
                book.owners[seat.owner] = book.owners.get(seat.owner, ZERO) + amount
                book.rest[kind] -= amount
    return book


def remainders(total: Mapping[SpanKind, Amount], taken: Mapping[SpanKind, Amount]) -> Mapping[RowKind, Amount]:
    """What was not held, per kind: a card's capacity in spans of that kind less what was held in them."""
    return {REMAINDER_OF[kind]: total.get(kind, ZERO) - taken.get(kind, ZERO) for kind in REMAINDER_OF}
