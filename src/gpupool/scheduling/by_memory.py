"""What a node is worth where claims ask for more of a card's memory than of its compute.

The same two worths as in `streams` and `usable`, on cards that have two sides: a claim fits where both are wide
enough, and compute beside memory that is gone is worth nothing. What is free of a card, and what a seat takes, is one
number here: milli-devices, and below them thousandths of the card's memory. While memory follows compute none of this
is used, and nothing decides otherwise than without it.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from functools import cache

import numpy as np

from gpupool.base.units import WHOLE
from gpupool.model.claim import Shape
from gpupool.scheduling.cutting import Cuts
from gpupool.scheduling.expected import Classes, Kinds
from gpupool.scheduling.free import NO_CARD, Free
from gpupool.scheduling.snapshot import Ints
from gpupool.scheduling.streams import NUMBER, State, States, drawn

GRAIN = 1 << 11
FULL = WHOLE * GRAIN + WHOLE
"""A card of which nothing is in use."""

Entry = tuple[int, int, int, int]
"""Grains of its host, cards, what a seat takes, what it is: number of the class."""


class _ByMemory(States):
    """States hold every card as it is; what no class can use is left out where a worth is looked up."""

    def __init__(self, classes: Classes, kinds: Kinds, cuts: Cuts | None = None) -> None:
        super().__init__(classes, kinds, cuts)
        self._kinds, self._need_of = kinds, cache(lambda shape: kinds.need_of(shape).tolist())
        hosts = (-(-classes.host // self._grain)).tolist()
        rest = list(zip(hosts, classes.count.tolist(), classes.milli.tolist(), strict=True))
        self._entries = [
            [
                (host, count, milli * GRAIN + need, n)
                for n, ((host, count, milli), need) in enumerate(zip(rest, menu, strict=True))
                if runs[n]
            ]
            for menu, runs in zip(self._menus, self._runs, strict=True)
        ]
        self._least_need = [
            min((seat % GRAIN for _, _, seat, _ in entries), default=WHOLE) for entries in self._entries
        ]
        self._most = [_most(entries) for entries in self._entries]

    def cells(self, free: Free, nodes: Ints) -> Ints:
        rows, there = free.seats(nodes)
        return np.where(there & (free.cells[nodes] >= 0), self.sizes(free, rows), NO_CARD)

    def sizes(self, free: Free, rows: Ints) -> Ints:
        there = free.cards.memory_bytes[rows]
        part = np.where(there > 0, free.size[rows] * WHOLE // np.maximum(there, 1), WHOLE)
        sizes: Ints = np.minimum(free.milli[rows], WHOLE) * GRAIN + np.clip(part, 0, WHOLE)
        return sizes

    def is_bare(self, size: int) -> bool:
        return size >= WHOLE * GRAIN

    def bare(self, state: State) -> int:
        return state.whole + len(state.parts) - bisect_left(state.parts, WHOLE * GRAIN)

    def seat(self, shape: Shape, kind: int) -> int:
        return shape.held_milli * GRAIN + int(self._need_of(shape)[kind])

    def state(self, kind: int, host: int, cells: Sequence[int]) -> State:
        parts = sorted(cell for cell in cells if GRAIN <= cell < FULL)
        return State(self._menu_of[kind], host // self._grain, sum(cell >= FULL for cell in cells), tuple(parts))

    def placed(self, state: State, asked: int, host: int, count: int, seat: int) -> State:
        parts, whole = list(state.parts), state.whole
        if seat >= WHOLE * GRAIN:
            whole -= count
        elif count and seat >= GRAIN:
            # By bytes it fits; where rounded thousandths do not say so, compute alone tells which cards they are.
            chosen = seats(parts, whole, count, seat) or seats(parts, whole, count, seat - seat % GRAIN)
            whole -= cut_from(parts, chosen, seat)
        return State(state.menu, (host - asked) // self._grain, whole, tuple(parts))

    def cut(self, state: State, asked: int, host: int, size: int, seat: int) -> State:
        left = (host - asked) // self._grain
        if seat < GRAIN:
            return state._replace(host=left)
        parts = list(state.parts)
        fresh = cut_from(parts, [size], seat)
        return State(state.menu, left, state.whole - fresh, tuple(parts))

    def of(self, state: State) -> int:
        least, need, most = self._least[state.menu] * GRAIN, self._least_need[state.menu], self._most[state.menu]
        parts = tuple(_capped(part, *most) for part in state.parts if part >= least and part % GRAIN >= need)
        return super().of(state._replace(parts=parts))

    def _of_cuts(self, state: State, cuts: Sequence[int]) -> int:
        return state.whole * cuts[WHOLE] + sum(cuts[part // GRAIN] for part in state.parts)


class ValuesByMemory(_ByMemory):
    """What streams of claims fill; see `streams.Values`."""

    scale = NUMBER

    def __init__(self, classes: Classes, kinds: Kinds, cuts: Cuts | None = None) -> None:
        super().__init__(classes, kinds, cuts)
        by_class = [{entry[3]: entry for entry in entries} for entries in self._entries]
        lines = drawn(classes).tolist()
        self._streams = [[[of[n] for n in line if n in of] for line in lines] for of in by_class]

    def _worth(self, state: State) -> int:
        return sum(_walk(line, state, self._least[state.menu]) for line in self._streams[state.menu])


class UsableByMemory(_ByMemory):
    """What the claim that comes next could use; see `usable.Usable`. On a card it is what memory is enough for."""

    def __init__(self, classes: Classes, kinds: Kinds, cuts: Cuts | None = None) -> None:
        self.scale = classes.total
        super().__init__(classes, kinds, cuts)
        self._weight: list[int] = classes.weight.tolist()

    def _worth(self, state: State) -> int:
        worth = 0
        for host, count, seat, number in self._entries[state.menu]:
            wide = [part for part in state.parts if takes(part, seat)]
            if host <= state.host and len(wide) + state.whole >= count:
                used = state.whole * _within_memory(FULL, seat) + sum(_within_memory(part, seat) for part in wide)
                worth += self._weight[number] * used
        return worth


def takes(part: int, seat: int) -> bool:
    return part // GRAIN >= seat // GRAIN and part % GRAIN >= seat % GRAIN


def less(part: int, seat: int) -> int:
    """What a seat leaves of a card; memory was rounded, and so is never less than none."""
    return (part // GRAIN - seat // GRAIN) * GRAIN + max(part % GRAIN - seat % GRAIN, 0)


def seats(parts: Sequence[int], whole: int, count: int, seat: int) -> list[int]:
    """The tightest cards for so many seats, free ones where no others are left; none where there are too few."""
    chosen = [part for part in parts if takes(part, seat)][:count]
    fresh = count - len(chosen)
    return [*chosen, *[FULL] * fresh] if fresh <= whole else []


def cut_from(parts: list[int], chosen: Sequence[int], seat: int) -> int:
    """A seat of each of these cards; how many free cards went is told."""
    for size in chosen:
        if size < FULL:
            del parts[bisect_left(parts, size)]
    for size in chosen:
        if less(size, seat) >= GRAIN:
            insort(parts, less(size, seat))
    return sum(size >= FULL for size in chosen)


def _walk(line: Sequence[Entry], state: State, least: int) -> int:
    """What one stream places."""
    host, whole, parts, filled = state.host, state.whole, list(state.parts), 0
    for asked, count, seat, _ in line:
        if asked > host or (seat >= WHOLE * GRAIN and count > whole):
            continue
        chosen = [FULL] * count if seat >= WHOLE * GRAIN else seats(parts, whole, count, seat)
        if chosen:
            whole -= cut_from(parts, chosen, seat)
            host -= asked
            filled += count * (seat // GRAIN)
    return filled


def _within_memory(part: int, seat: int) -> int:
    """How much of a card that takes one the class could use before memory is gone."""
    milli, need = divmod(seat, GRAIN)
    return min(part // GRAIN, part % GRAIN * milli // need) if need else part // GRAIN


def _most(entries: Sequence[Entry]) -> tuple[int, int]:
    """Thousandths of memory and milli-devices of the class with most memory to its compute."""
    need, milli = 0, 1
    for _, _, seat, _ in entries:
        if seat % GRAIN * milli > need * (seat // GRAIN):
            milli, need = divmod(seat, GRAIN)
    return need, milli


def _capped(part: int, need: int, milli: int) -> int:
    """A part with no more memory than claims could use beside its compute."""
    compute, memory = divmod(part, GRAIN)
    return compute * GRAIN + min(memory, -(-compute * need // milli))
