"""Node values for claims that ask for more of a card's memory than of its compute.

The values are those of `value_stream` and `value_next_claim` on cards with two dimensions: a claim
fits if both suffice, and compute without free memory has no value. The free part of a card, and
what a seat takes, is one integer: milli-devices times GRAIN plus thousandths of the card's memory.
If memory follows compute this module is not used, and decisions equal those without it.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from functools import cache

import numpy as np

from gpupool.base.units import WHOLE
from gpupool.model.claim import Shape
from gpupool.scheduling.filtering.free_capacity import NO_CARD, FreeCapacity
from gpupool.scheduling.scoring.expected_demand import DemandClasses, NodeKinds
from gpupool.scheduling.scoring.stream_fill.partial_card_value import PartialCardValues
from gpupool.scheduling.scoring.stream_fill.value_stream import (
    NUMBER,
    NodeState,
    NodeValueModel,
    draw_streams,
)
from gpupool.scheduling.snapshot.columns import Ints

#: Above WHOLE (1000 thousandths of memory), so that both parts of a number stay apart. The library
#: has the same constant.
GRAIN = 1 << 11
#: A card of which nothing is in use.
FULL = WHOLE * GRAIN + WHOLE

#: Grains of its host, cards, what a seat takes, what it is: number of the class.
MemoryClaim = tuple[int, int, int, int]


class _MemoryValueModel(NodeValueModel):
    """States hold every card exactly; unusable parts are removed when a value is looked up."""

    def __init__(
        self, classes: DemandClasses, kinds: NodeKinds, cuts: PartialCardValues | None = None
    ) -> None:
        super().__init__(classes, kinds, cuts)
        self._kinds = kinds
        self._need_of = cache(lambda shape: kinds.compute_need(shape).tolist())
        hosts = (-(-classes.host // self._grain)).tolist()
        counts = classes.count.tolist()
        milli = classes.milli.tolist()
        self._entries: list[list[MemoryClaim]] = []
        for needs, runs in zip(self._menus, self._runs, strict=True):
            numbers = np.flatnonzero(runs).tolist()
            entries = [(hosts[n], counts[n], milli[n] * GRAIN + needs[n], n) for n in numbers]
            self._entries.append(entries)
        self._least_need = [_find_least_need(entries) for entries in self._entries]
        self._most = [_find_most_memory(entries) for entries in self._entries]

    def get_cells(self, free: FreeCapacity, nodes: Ints) -> Ints:
        rows, there = free.get_row_table(nodes)
        return np.where(there & (free.cells[nodes] >= 0), self.get_sizes(free, rows), NO_CARD)

    def get_sizes(self, free: FreeCapacity, rows: Ints) -> Ints:
        there = free.cards.memory_bytes[rows]
        part = np.where(there > 0, free.size[rows] * WHOLE // np.maximum(there, 1), WHOLE)
        sizes: Ints = np.minimum(free.milli[rows], WHOLE) * GRAIN + np.clip(part, 0, WHOLE)
        return sizes

    def is_bare(self, size: int) -> bool:
        return size >= WHOLE * GRAIN

    def count_bare(self, state: NodeState) -> int:
        return state.whole + len(state.parts) - bisect_left(state.parts, WHOLE * GRAIN)

    def measure_seat(self, shape: Shape, kind: int) -> int:
        return shape.held_milli * GRAIN + int(self._need_of(shape)[kind])

    def build_state(self, kind: int, host: int, cells: Sequence[int]) -> NodeState:
        parts = sorted(cell for cell in cells if GRAIN <= cell < FULL)
        return NodeState(
            self._menu_of[kind],
            host // self._grain,
            sum(cell >= FULL for cell in cells),
            tuple(parts),
        )

    def place_claim(
        self, state: NodeState, asked: int, host: int, count: int, seat: int
    ) -> NodeState:
        parts = list(state.parts)
        whole = state.whole
        if seat >= WHOLE * GRAIN:
            whole -= count
        elif count and seat >= GRAIN:
            # By bytes it fits; where rounded thousandths do not say so, compute alone tells which
            # cards they are.
            chosen = choose_seats(parts, whole, count, seat) or choose_seats(
                parts, whole, count, seat - seat % GRAIN
            )
            whole -= cut_cards(parts, chosen, seat)
        return NodeState(state.menu, (host - asked) // self._grain, whole, tuple(parts))

    def cut_card(self, state: NodeState, asked: int, host: int, size: int, seat: int) -> NodeState:
        left = (host - asked) // self._grain
        if seat < GRAIN:
            return state._replace(host=left)
        parts = list(state.parts)
        fresh = cut_cards(parts, [size], seat)
        return NodeState(state.menu, left, state.whole - fresh, tuple(parts))

    def get_value(self, state: NodeState) -> int:
        least = self._least[state.menu] * GRAIN
        need = self._least_need[state.menu]
        most = self._most[state.menu]
        # Here and not in `build_state`: a later claim may need the part that is of no use now.
        parts = tuple(
            _cap_part(part, *most) for part in state.parts if part >= least and part % GRAIN >= need
        )
        return super().get_value(state._replace(parts=parts))

    def _value_parts(self, state: NodeState, cuts: Sequence[int]) -> int:
        return state.whole * cuts[WHOLE] + sum(cuts[part // GRAIN] for part in state.parts)


class MemoryStreamValueModel(_MemoryValueModel):
    """What streams of claims fill; see `value_stream.StreamValueModel`."""

    scale = NUMBER

    def __init__(
        self, classes: DemandClasses, kinds: NodeKinds, cuts: PartialCardValues | None = None
    ) -> None:
        super().__init__(classes, kinds, cuts)
        streams = draw_streams(classes).tolist()
        self._streams: list[list[list[MemoryClaim]]] = []
        for entries in self._entries:
            by_class = {entry[3]: entry for entry in entries}
            lines = []
            for stream in streams:
                lines.append([by_class[number] for number in stream if number in by_class])
            self._streams.append(lines)

    def _compute_worth(self, state: NodeState) -> int:
        return sum(
            _fill_node(line, state, self._least[state.menu]) for line in self._streams[state.menu]
        )


class MemoryNextClaimValueModel(_MemoryValueModel):
    """What the next claim could use; see `value_next_claim.NextClaimValueModel`.

    On a card, only compute counts for which memory suffices.
    """

    def __init__(
        self, classes: DemandClasses, kinds: NodeKinds, cuts: PartialCardValues | None = None
    ) -> None:
        self.scale = classes.total
        super().__init__(classes, kinds, cuts)
        self._weight: list[int] = classes.weight.tolist()

    def _compute_worth(self, state: NodeState) -> int:
        worth = 0
        for host, count, seat, number in self._entries[state.menu]:
            wide = [part for part in state.parts if can_take(part, seat)]
            if host <= state.host and len(wide) + state.whole >= count:
                used = state.whole * _compute_usable(FULL, seat) + sum(
                    _compute_usable(part, seat) for part in wide
                )
                worth += self._weight[number] * used
        return worth


def can_take(part: int, seat: int) -> bool:
    """Return whether compute and memory of the part suffice for the seat."""
    return part // GRAIN >= seat // GRAIN and part % GRAIN >= seat % GRAIN


def subtract_seat(part: int, seat: int) -> int:
    """Return what a seat leaves of a card. Memory was rounded and is therefore cut off at 0."""
    # Both were rounded to thousandths; their difference may be -1 where bytes leave nothing.
    return (part // GRAIN - seat // GRAIN) * GRAIN + max(part % GRAIN - seat % GRAIN, 0)


def choose_seats(parts: Sequence[int], whole: int, count: int, seat: int) -> list[int]:
    """Return the tightest cards for the seats, free cards last; an empty list if there are too few."""
    chosen = [part for part in parts if can_take(part, seat)][:count]
    fresh = count - len(chosen)
    return [*chosen, *[FULL] * fresh] if fresh <= whole else []


def cut_cards(parts: list[int], chosen: Sequence[int], seat: int) -> int:
    """Cut a seat from each of these cards, and return how many free cards were used."""
    for size in chosen:
        if size < FULL:
            del parts[bisect_left(parts, size)]
    for size in chosen:
        if subtract_seat(size, seat) >= GRAIN:
            insort(parts, subtract_seat(size, seat))
    return sum(size >= FULL for size in chosen)


def _fill_node(line: Sequence[MemoryClaim], state: NodeState, least: int) -> int:
    """Return the compute that one stream places."""
    host = state.host
    whole = state.whole
    parts = list(state.parts)
    filled = 0
    for asked, count, seat, _ in line:
        if asked > host or (seat >= WHOLE * GRAIN and count > whole):
            continue
        chosen = (
            [FULL] * count if seat >= WHOLE * GRAIN else choose_seats(parts, whole, count, seat)
        )
        if chosen:
            whole -= cut_cards(parts, chosen, seat)
            host -= asked
            filled += count * (seat // GRAIN)
    return filled


def _compute_usable(part: int, seat: int) -> int:
    """Return how much compute of a card a class could use before memory runs out."""
    milli, need = divmod(seat, GRAIN)
    # Memory for m / need seats carries m / need * milli of compute; the scarcer of both counts.
    return min(part // GRAIN, part % GRAIN * milli // need) if need else part // GRAIN


def _find_least_need(entries: Sequence[MemoryClaim]) -> int:
    return min((seat % GRAIN for _, _, seat, _ in entries), default=WHOLE)


def _find_most_memory(entries: Sequence[MemoryClaim]) -> tuple[int, int]:
    """Return memory and compute of the class with the most memory per compute."""
    need = 0
    milli = 1
    for _, _, seat, _ in entries:
        if seat % GRAIN * milli > need * (seat // GRAIN):
            milli, need = divmod(seat, GRAIN)
    return need, milli


def _cap_part(part: int, need: int, milli: int) -> int:
    """Return the part with no more memory than claims could use beside its compute."""
    compute, memory = divmod(part, GRAIN)
    # Memory beyond that is never used, so nodes that differ only in it share a state.
    return compute * GRAIN + min(memory, -(-compute * need // milli))
