"""Stream Fill, the default: a claim goes where it displaces least of what is likely to come.

A node is worth what streams of expected claims would still place on it (`streams`), or, where claims end and give back
what they hold, what the next one could use of it (`usable`). A claim's displacement is what its node is worth less
afterwards; the score is what it places less that, less what it opens or takes of what is dear (`prices`), in steps, so
that nodes tie and the order of ties packs. Where nothing is expected yet, it is binpack.
Found by experiment against FGD (docs/concepts/placement.md).
"""

from __future__ import annotations

from collections import OrderedDict

import numpy as np

from gpupool.model.claim import Shape
from gpupool.scheduling.by_memory import UsableByMemory, ValuesByMemory
from gpupool.scheduling.compiled import CompiledStreamFill
from gpupool.scheduling.cutting import Cuts
from gpupool.scheduling.expected import Classes, Kinds, histogram, memory_matters, typical
from gpupool.scheduling.feasible import FITS, Fit
from gpupool.scheduling.free import Free
from gpupool.scheduling.kernel_calls import Rules
from gpupool.scheduling.policy import Rater, tightest
from gpupool.scheduling.prices import Prices
from gpupool.scheduling.score_binpack import Binpack
from gpupool.scheduling.snapshot import Expected, Ints
from gpupool.scheduling.streams import NUMBER, QUANTUM, State, States, Values, drawn
from gpupool.scheduling.usable import Usable

NAME = "default"

STEP = 150
"""Milli-devices to one step of the score; from 100 to 200 do as well, finer ones scatter claims."""

NEAR_STEP = 40
"""The same where claims end; 25 does as well, 100 does not."""

CUTS, NEAR_CUTS = 2.0, 0.25
"""How often the worth of parts of cards counts beside what streams fill, or the next claim could use."""

ENDING_PCT = 50
"""From so much on that comes back, the next claim counts and not the stream."""

FRESH_CARD = 100
"""What a share pays that opens a free card, in milli-devices."""

NO_WAY = -(1 << 60)
"""Stands for a card that is not there to be taken."""

_REMEMBERED = 512
_FEW = 64


def start(free: Free, expected: Expected, seed: int) -> Rater:
    classes = histogram(expected, by_memory=memory_matters(expected, free.cards))
    if not (classes.count > 0).any():
        return Binpack(free)
    ending = expected.returned_pct >= ENDING_PCT
    if free.kernel is None:
        return StreamFill(free, classes, ending=ending)
    kinds, likely = Kinds(free.cards, classes), typical(classes)
    prices, cuts = Prices(free, kinds, classes, ending=ending), cuts_for(likely, kinds, ending=ending)
    return CompiledStreamFill(free.kernel, free, kinds, likely, prices, cuts, _rules(likely, cuts, ending=ending))


def cuts_for(likely: Classes, kinds: Kinds, *, ending: bool) -> Cuts:
    """None by memory: cards with two sides are not cut as those with one are, and their prices mislead."""
    times = NEAR_CUTS if ending else CUTS
    return Cuts(likely, kinds, 0.0 if kinds.by_memory else times)


def _rules(likely: Classes, cuts: Cuts, *, ending: bool) -> Rules:
    if ending:
        scale, streams = likely.total, np.zeros((0, 0), dtype=np.int16)
        return Rules(streams, QUANTUM, NEAR_STEP * scale, FRESH_CARD * scale, scale * cuts.worth, likely.weight)
    return Rules(drawn(likely), QUANTUM, STEP * NUMBER, FRESH_CARD * NUMBER, NUMBER * cuts.worth)


def _values(likely: Classes, kinds: Kinds, cuts: Cuts, *, ending: bool) -> States:
    if kinds.by_memory:
        return (UsableByMemory if ending else ValuesByMemory)(likely, kinds, cuts)
    return (Usable if ending else Values)(likely, kinds, cuts)


class _Known:
    """What a shape gains on each node before anything is paid: on its best used card, and on a free one.

    Where which card makes no difference there is only the first, and `opened` free cards are taken.
    """

    def __init__(self, nodes: int) -> None:
        self.used = np.full(nodes, NO_WAY, dtype=np.int64)
        self.fresh = np.full(nodes, NO_WAY, dtype=np.int64)
        self.opened = np.zeros(nodes, dtype=np.int64)
        self.seen = np.full(nodes, -1, dtype=np.int64)
        """Of each node's version."""
        self.by_state: dict[tuple[State, tuple[int, ...]], tuple[int, int, int]] = {}


class StreamFill:
    """At work on one pool, for classes that stay as they are."""

    SCALED = False
    NODE, CARD = "least displacing", "least displacing"

    def __init__(self, free: Free, classes: Classes, *, ending: bool) -> None:
        self._free, self._kinds = free, Kinds(free.cards, classes)
        likely = typical(classes)
        self._cuts = cuts_for(likely, self._kinds, ending=ending)
        self._values = _values(likely, self._kinds, self._cuts, ending=ending)
        self._scale, self._step = self._values.scale, NEAR_STEP if ending else STEP
        self._prices = Prices(free, self._kinds, classes, ending=ending)
        self._version = np.zeros(len(free.cards.nodes), dtype=np.int64)
        self._read = free.now()
        self._known: OrderedDict[Shape, _Known] = OrderedDict()

    @property
    def epoch(self) -> int:
        return self._prices.watch()

    def rate(self, fit: Fit, nodes: Ints) -> Ints:
        self._prices.watch()
        known = self._of(fit.shape)
        self._learn(known, fit, nodes[known.seen[nodes] != self._version[nodes]])
        best = np.maximum(
            self._paid(fit.shape, nodes, known.used[nodes], known.opened[nodes]),
            self._paid(fit.shape, nodes, known.fresh[nodes], np.ones(len(nodes), dtype=np.int64)),
        )
        return self._score(fit.shape, nodes, best)

    def settle(self, scores: Ints) -> Ints:
        return scores

    def follows(self, shape: Shape) -> bool:
        """What displaces least changes with each claim."""
        return False

    def choose(self, fit: Fit, node: int) -> Ints:
        """One share on the card where it displaces least, the first of equals; others on the tightest."""
        rows = tightest(self._free, fit, node)
        if not _one_share(fit.shape) or len(rows) < 2:
            return rows
        rows = np.sort(rows)
        sizes = self._values.sizes(self._free, rows)
        each = {size: self._on_card(fit.shape, node, size) for size in set(sizes.tolist())}
        scores = np.array([each[size] for size in sizes.tolist()], dtype=np.int64)
        return rows[np.argsort(-scores, kind="stable")]

    def took(self, shape: Shape, node: int) -> None:
        """Nothing to remember: what is free says it all."""

    def gave(self, shape: Shape, node: int) -> None:
        """Nothing to remember: what is free says it all."""

    def _of(self, shape: Shape) -> _Known:
        """What is known of the shape, after a look at which nodes have changed."""
        if self._read != self._free.now():
            self._version[self._free.changed(self._read)] += 1
            self._read = self._free.now()
        known = self._known.pop(shape, None) or _Known(len(self._version))
        self._known[shape] = known
        if len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
        return known

    def _learn(self, known: _Known, fit: Fit, nodes: Ints) -> None:
        if len(nodes) == 0:
            return
        rows, there = self._free.seats(nodes)
        fits = (fit.why[rows] == FITS) & there if len(self._free.cards) else there
        cells, cpu, kinds = (
            self._values.cells(self._free, nodes),
            self._free.cpu_milli[nodes],
            self._kinds.of_node[nodes],
        )
        first, like = _alike(np.column_stack((kinds, cpu, np.sort(2 * cells + fits, axis=1))))
        each = zip(*(column[first].tolist() for column in (kinds, cpu, cells, fits)), strict=True)
        gains = np.array([self._gain(known, fit.shape, *one) for one in each], dtype=np.int64)
        known.used[nodes], known.fresh[nodes], known.opened[nodes] = gains[like].T
        known.seen[nodes] = self._version[nodes]

    def _gain(
        self, known: _Known, shape: Shape, kind: int, cpu: int, cells: list[int], fits: list[bool]
    ) -> tuple[int, int, int]:
        """What is placed less what is displaced, times the scale; what each state told is kept."""
        state = self._values.state(kind, cpu, cells)
        sizes: tuple[int, ...] = ()
        if _one_share(shape):
            sizes = tuple(sorted({cell for cell, fit in zip(cells, fits, strict=True) if fit}))
        key = state, (cpu, *sizes)
        found = known.by_state.get(key)
        if found is None:
            if len(known.by_state) >= 4 * len(self._version) + 4096:
                known.by_state.clear()
            found = known.by_state[key] = self._worked_out(shape, kind, state, cpu, sizes)
        return found

    def _worked_out(
        self, shape: Shape, kind: int, state: State, cpu: int, sizes: tuple[int, ...]
    ) -> tuple[int, int, int]:
        values, seat = self._values, self._values.seat(shape, kind)
        base = self._scale * shape.count * shape.held_milli - values.of(state)
        if not _one_share(shape):
            after = values.placed(state, shape.cpu_milli, cpu, shape.count, seat)
            return base + values.of(after), NO_WAY, values.bare(state) - values.bare(after)
        gain = {s: base + values.of(values.cut(state, shape.cpu_milli, cpu, s, seat)) for s in sizes}
        used = max((gain[size] for size in sizes if not values.is_bare(size)), default=NO_WAY)
        return used, max((gain[size] for size in sizes if values.is_bare(size)), default=NO_WAY), 0

    def _on_card(self, shape: Shape, node: int, size: int) -> int:
        """The score of one share on a card of that size."""
        nodes, kind, cpu = np.array([node]), int(self._kinds.of_node[node]), int(self._free.cpu_milli[node])
        state = self._values.state(kind, cpu, self._values.cells(self._free, nodes)[0].tolist())
        gain = max(self._worked_out(shape, kind, state, cpu, (size,))[:2])
        opened = np.array([int(self._values.is_bare(size))])
        return int(self._score(shape, nodes, self._paid(shape, nodes, np.array([gain]), opened))[0])

    def _paid(self, shape: Shape, nodes: Ints, gain: Ints, opened: Ints) -> Ints:
        """Less what shares pay for free cards, and what is paid for slots of dear hosts."""
        if not shape.whole:
            gain = gain - self._scale * FRESH_CARD * opened
        if not self._prices.price.any():
            return gain
        return gain - self._scale * self._prices.lost(nodes, opened, shape.cpu_milli)

    def _score(self, shape: Shape, nodes: Ints, gain: Ints) -> Ints:
        tolls = self._prices.tolls(self._scale * shape.count * shape.held_milli) - self._scale * self._cuts.least(shape)
        score: Ints = (gain - tolls[self._kinds.of_node[nodes]]) // (self._scale * self._step)
        return score


def _alike(lines: Ints) -> tuple[Ints, Ints]:
    """The first of each kind of line, and for every line which of those it is like; few are not worth the sorting."""
    if len(lines) < _FEW:
        return np.arange(len(lines)), np.arange(len(lines))
    _, first, like = np.unique(lines, axis=0, return_index=True, return_inverse=True)
    return first, like.reshape(-1)


def _one_share(shape: Shape) -> bool:
    return shape.count == 1 and not shape.whole
