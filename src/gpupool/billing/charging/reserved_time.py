"""Divide the time of a reservation: what its jobs used, what stood free for it, what was missing.

Everything is counted in millionths of a reserved seat times seconds, so the three parts are the
reservation's capacity exactly. Pure: knows no table and no price. docs/decisions/0123.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gpupool.base.units import MIB
from gpupool.metering.books import (
    MICRO,
    WHOLE_MILLI,
    ZERO,
    UsageAmount,
    compute_dominant_micro,
)
from gpupool.model.claim import Shape


@dataclass(frozen=True)
class CardModel:
    """A model of cards, with the memory of one card."""

    model: str
    memory_mib: int


@dataclass(frozen=True)
class ReservedWindow:
    """One reservation in one stretch of time, in whole seconds: `seats` times the shape."""

    reservation_id: int
    tenant_id: int
    shape: Shape
    seats: int
    start_s: int
    end_s: int

    @property
    def capacity(self) -> int:
        """All that it reserves, in millionths of a seat times seconds."""
        return self.seats * MICRO * (self.end_s - self.start_s)


@dataclass(frozen=True)
class UsedSeat:
    """One seat of a job that names the reservation; `dominant_micro` is its part of the card."""

    model: str
    gpu_milli: int
    dominant_micro: int
    start_s: int
    end_s: int


@dataclass(frozen=True)
class ReservedPart:
    """What became of a reservation on the cards of one model; `amount` is what was left unused.

    The first three are millionths of a seat times seconds. `missing` was neither used nor free: its
    cards were late, or gone. It is in the part of one model alone.
    """

    reservation_id: int
    tenant_id: int
    model: str
    used: int
    unused: int
    missing: int
    amount: UsageAmount


def measure_seat(shape: Shape, card: CardModel) -> UsageAmount:
    """Measure what one reserved seat takes of a card each second."""
    if shape.memory_bytes is None:
        # Without an amount it is the same part of the memory as of the compute.
        memory_mib = card.memory_mib * shape.gpu_milli // WHOLE_MILLI
    else:
        memory_mib = -(-shape.memory_bytes // MIB)
    dominant = compute_dominant_micro(shape.gpu_milli, memory_mib, card.memory_mib)
    return UsageAmount(shape.gpu_milli, memory_mib, dominant)


def divide_window(
    window: ReservedWindow,
    used_seats: Iterable[UsedSeat],
    cards: Sequence[CardModel],
    idle: Mapping[str, UsageAmount],
) -> list[ReservedPart]:
    """Divide a window; the parts add up to its capacity exactly.

    Args:
        window: the reservation, in a time in which nothing of it changes.
        used_seats: seats of jobs that name it, also beyond the window.
        cards: the models that it may have, the one first that is charged first.
        idle: what no job held of each model in the window. More is never called unused.

    >>> gpu = Shape(1000, None, 1)
    >>> window = ReservedWindow(1, 2, gpu, 2, 0, 10)
    >>> job = UsedSeat("L40S", 1000, MICRO, 0, 5)
    >>> card = CardModel("L40S", 1000)
    >>> part = divide_window(window, [job], [card], {"L40S": UsageAmount(10**5, 10**5, 10**8)})[0]
    >>> part.used // MICRO, part.unused // MICRO, part.missing
    (5, 15, 0)
    """
    seat_of = {card.model: measure_seat(window.shape, card) for card in cards}
    used = _sum_used(window, [one for one in used_seats if one.model in seat_of], seat_of)
    left = window.capacity - sum(used.values())
    parts = []
    for card in cards:
        seat = seat_of[card.model]
        unused = min(left, _count_free(seat, idle.get(card.model, ZERO)))
        left -= unused
        amount = UsageAmount(
            seat.card_milliseconds * unused // MICRO,
            seat.memory_mib_seconds * unused // MICRO,
            seat.dominant_micro_seconds * unused // MICRO,
        )
        parts.append(
            ReservedPart(
                window.reservation_id,
                window.tenant_id,
                card.model,
                used.get(card.model, 0),
                unused,
                0,
                amount,
            )
        )
    return _add_missing(window, parts, left)


def _add_missing(
    window: ReservedWindow, parts: list[ReservedPart], missing: int
) -> list[ReservedPart]:
    if missing:
        model = parts[0].model if parts else ""
        parts.append(
            ReservedPart(window.reservation_id, window.tenant_id, model, 0, 0, missing, ZERO)
        )
    return add_parts(parts)


def add_parts(parts: Iterable[ReservedPart]) -> list[ReservedPart]:
    """Add up the parts of each reservation and model; parts of nothing are left out."""
    sums: dict[tuple[int, str], ReservedPart] = {}
    for part in parts:
        key = (part.reservation_id, part.model)
        old = sums.get(key)
        sums[key] = part if old is None else _add(old, part)
    return [part for part in sums.values() if part.used or part.unused or part.missing]


def _add(one: ReservedPart, other: ReservedPart) -> ReservedPart:
    return ReservedPart(
        one.reservation_id,
        one.tenant_id,
        one.model,
        one.used + other.used,
        one.unused + other.unused,
        one.missing + other.missing,
        one.amount + other.amount,
    )


def _count_free(seat: UsageAmount, idle: UsageAmount) -> int:
    """Count the seats that an idle amount holds, in millionths of a seat times seconds."""
    counts = []
    for free, each in (
        (idle.card_milliseconds, seat.card_milliseconds),
        (idle.memory_mib_seconds, seat.memory_mib_seconds),
        (idle.dominant_micro_seconds, seat.dominant_micro_seconds),
    ):
        if each:
            counts.append(max(0, free) * MICRO // each)
    return min(counts, default=0)


def _sum_used(
    window: ReservedWindow, used_seats: Sequence[UsedSeat], seat_of: Mapping[str, UsageAmount]
) -> dict[str, int]:
    """Sum up by model what jobs used, in each second no more than is reserved."""
    steps: dict[int, list[tuple[str, int, int]]] = defaultdict(list)
    for one in used_seats:
        start_s = max(one.start_s, window.start_s)
        end_s = min(one.end_s, window.end_s)
        if start_s < end_s:
            steps[start_s].append((one.model, one.gpu_milli, one.dominant_micro))
            steps[end_s].append((one.model, -one.gpu_milli, -one.dominant_micro))
    milli = dict.fromkeys(seat_of, 0)
    dominant = dict.fromkeys(seat_of, 0)
    total = dict.fromkeys(seat_of, 0)
    before_s = window.start_s
    for second in sorted(steps):
        room = window.seats * MICRO
        for model, seat in seat_of.items():
            taken = min(room, _count_seats(seat, milli[model], dominant[model]))
            room -= taken
            total[model] += taken * (second - before_s)
        before_s = second
        for model, more_milli, more_dominant in steps[second]:
            milli[model] += more_milli
            dominant[model] += more_dominant
    return total


def _count_seats(seat: UsageAmount, milli: int, dominant_micro: int) -> int:
    """Count the millionths of seats that jobs take, rounded up: nothing is charged twice."""
    by_compute = -(-milli * MICRO // seat.card_milliseconds) if seat.card_milliseconds else 0
    by_dominant = 0
    if seat.dominant_micro_seconds:
        by_dominant = -(-dominant_micro * MICRO // seat.dominant_micro_seconds)
    return max(by_compute, by_dominant)
