"""Divide the energy of a card among the shares that held it, in integers and without a database.

A span is the time between two samples of a card. Its parts add up to it, to the millijoule. What no
share held is left. docs/decisions/0117-energy.md.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

from gpupool.base.units import NANOS_PER_SECOND
from gpupool.metering.books import WHOLE_MILLI

Owner = TypeVar("Owner", bound=Hashable)


@dataclass(frozen=True, slots=True)
class PowerSpan:
    """What one card drew between two samples, by the ledger's clock.

    Attributes:
        uses: Nanoseconds of GPU time of each job with a fence, by its public id. A job that is
            missing was not measured in this span.
    """

    device_id: int
    start_ns: int
    end_ns: int
    millijoules: int
    uses: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HeldShare(Generic[Owner]):
    """A share of the card. An open one has no end."""

    owner: Owner
    job: str
    gpu_milli: int
    start_ns: int
    end_ns: int | None


class EnergyPart(NamedTuple):
    """Energy, and the card-milliseconds of the books in which it was measured."""

    millijoules: int = 0
    measured_milliseconds: int = 0

    def plus(self, other: EnergyPart) -> EnergyPart:
        """Add two parts."""
        return EnergyPart(
            self.millijoules + other.millijoules,
            self.measured_milliseconds + other.measured_milliseconds,
        )


def cut_span(span: PowerSpan, width_s: int) -> list[PowerSpan]:
    """Cut a span at the slots' boundaries; energy and GPU time go with the time.

    >>> [piece.millijoules for piece in cut_span(PowerSpan(1, 299 * 10**9, 301 * 10**9, 7), 300)]
    [3, 4]
    """
    width_ns = width_s * NANOS_PER_SECOND
    pieces = []
    rest = span
    while True:
        edge = rest.start_ns - rest.start_ns % width_ns + width_ns
        if edge >= rest.end_ns:
            pieces.append(rest)
            return pieces
        first_ns = edge - rest.start_ns
        length_ns = rest.end_ns - rest.start_ns
        energy = rest.millijoules * first_ns // length_ns
        uses = {job: used * first_ns // length_ns for job, used in rest.uses.items()}
        later = {job: used - uses[job] for job, used in rest.uses.items()}
        pieces.append(PowerSpan(rest.device_id, rest.start_ns, edge, energy, uses))
        rest = PowerSpan(rest.device_id, edge, rest.end_ns, rest.millijoules - energy, later)


def divide_span(
    span: PowerSpan, shares: Iterable[HeldShare[Owner]]
) -> tuple[dict[Owner, EnergyPart], EnergyPart]:
    """Divide a span among the shares of its card.

    The shares get the part of the card that they held, or the part that they used where that is
    more. They divide it by their GPU time where all of it was measured, else by what they held.

    Returns:
        The part of each owner, and what is left.
    """
    held: dict[tuple[Owner, str], int] = defaultdict(int)
    for share in shares:
        end_ns = span.end_ns if share.end_ns is None else min(share.end_ns, span.end_ns)
        overlap_ns = end_ns - max(share.start_ns, span.start_ns)
        if overlap_ns > 0:
            held[share.owner, share.job] += share.gpu_milli * overlap_ns
    capacity = WHOLE_MILLI * (span.end_ns - span.start_ns)
    occupied = min(sum(held.values()), capacity)
    weights = list(held.values())
    if held and all(job in span.uses for _, job in held):
        used = [WHOLE_MILLI * span.uses[job] for _, job in held]
        if any(used):
            weights = used
            occupied = max(occupied, min(sum(used), capacity))
    taken = span.millijoules * occupied // capacity if any(weights) else 0
    parts: dict[Owner, EnergyPart] = defaultdict(EnergyPart)
    measured = 0
    for (owner, job), energy in zip(held, split_whole(taken, weights), strict=True):
        card_ms = held[owner, job] // NANOS_PER_SECOND
        parts[owner] = parts[owner].plus(EnergyPart(energy, card_ms))
        measured += card_ms
    left_ms = max(0, capacity // NANOS_PER_SECOND - measured)
    return dict(parts), EnergyPart(span.millijoules - taken, left_ms)


def split_whole(total: int, weights: Sequence[int]) -> list[int]:
    """Split a whole number by weights, so that the parts add up to it: largest remainders first.

    >>> split_whole(10, [1, 1, 1]), split_whole(5, [0, 0])
    ([4, 3, 3], [0, 0])
    """
    whole = sum(weights)
    if not whole:
        return [0] * len(weights)
    parts = [total * weight // whole for weight in weights]
    by_rest = sorted(range(len(weights)), key=lambda number: -(total * weights[number] % whole))
    for number in by_rest[: total - sum(parts)]:
        parts[number] += 1
    return parts
