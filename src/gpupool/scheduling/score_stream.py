"""Stream Fill, the default: a claim goes where it displaces least of what is likely to come.

A node is worth what streams of expected claims would still place on it (`streams`), or, where claims end and give back
what they hold or no few sizes stand for all, what the next one could use of it (`usable`). A claim's displacement is
what its node is worth less afterwards; the score is what it places less that, less what it opens or takes of what is
dear (`prices`), in steps, so that nodes tie and the order of ties packs. Where nothing is expected yet, it is binpack.
Found by experiment against FGD (docs/concepts/placement.md).
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace

import numpy as np

from gpupool.model.claim import Shape
from gpupool.scheduling.by_memory import UsableByMemory, ValuesByMemory
from gpupool.scheduling.compiled import CompiledStreamFill
from gpupool.scheduling.cutting import Cuts, is_scattered, mean_share
from gpupool.scheduling.expected import Classes, Kinds, histogram, is_short, memory_matters, scarcer, typical
from gpupool.scheduling.feasible import FITS, Fit
from gpupool.scheduling.free import Free
from gpupool.scheduling.host_resource import PROCESSORS, HostResource
from gpupool.scheduling.kernel_calls import Rules, Scores
from gpupool.scheduling.policy import Mender, Rater, tightest
from gpupool.scheduling.prices import Prices
from gpupool.scheduling.score_binpack import Binpack
from gpupool.scheduling.snapshot import Expected, Ints
from gpupool.scheduling.streams import NUMBER, State, States, Values, drawn
from gpupool.scheduling.usable import Usable

NAME = "default"

STEP = 150
"""Milli-devices to one step of the score; from 100 to 200 do as well, finer ones scatter claims."""

FINE_STEP_BELOW = 475
"""Of shares with a smaller mean (in milli-devices) steps are smaller, by the square of it: 150 hides where a share of
100 goes. Up to 1.6 points with 5 to 20 small sizes. By memory of cards they are not: 1.1 to 2.3 points are lost."""

NEAR_STEP = 40
"""The same where claims end; 25 does as well, 100 does not."""

SCATTERED_STEP = 1
"""The same where shares are of so many sizes that none stands out: hardly two nodes tie, and that is worth 0.2 to 0.6
points with 99 to 999 sizes (40 leaves gpu-packing ahead)."""

CUTS, NEAR_CUTS, SCATTERED_CUTS = 2.0, 0.25, 0.5
"""How often the worth of parts of cards counts beside what streams fill, beside what the next claim could use, and
beside that where shares are of so many sizes that none stands out."""

ENDING_PCT = 50
"""From so much on that comes back, the next claim counts and not the stream."""

FRESH_CARD = 100
"""What a share pays that opens a free card, in milli-devices."""

NO_WAY = -(1 << 60)
"""Stands for a card that is not there to be taken."""

_REMEMBERED = 512
_FEW = 64


def start(free: Free, expected: Expected, seed: int) -> Rater:
    look = Look.of(free, expected)
    if not (look.classes.count > 0).any():
        return Binpack(free)
    if free.kernel is None:
        return StreamFill(free, look)
    kinds = look.kinds(free)
    prices, cuts = Prices(free, kinds, look.classes, ending=look.ending), look.cuts(kinds)
    return CompiledStreamFill(free.kernel, free, kinds, look.likely, prices, cuts, _rules(look, cuts))


@dataclass(frozen=True)
class Look:
    """How far ahead to look, and at what: decided once from what is expected and what the pool is made of.

    `near`: the next claim counts, not the stream. So it is where claims end, and where sizes are so many (`scattered`)
    that no stream of 200 can stand for them. `resource` is the host's that worths and prices count. Where it is gone
    before cards are (`short`), which claims still share a host decides, and that is what streams see; what is left of a
    card is not dear then, and cuts count nothing.
    """

    classes: Classes
    likely: Classes
    ending: bool = False
    scattered: bool = False
    resource: HostResource = PROCESSORS
    short: bool = False

    @classmethod
    def of(cls, free: Free, expected: Expected) -> Look:
        by_memory = memory_matters(expected, free.cards)
        classes = histogram(expected, by_memory=by_memory)
        likely = typical(classes)
        look = cls(classes, likely, expected.returned_pct >= ENDING_PCT, is_scattered(likely))
        if look.ending:
            return look
        resource = scarcer(expected, free.cards)
        look = replace(look, short=is_short(expected, free.cards, resource))
        if look.near or resource is PROCESSORS:
            return look
        classes = histogram(expected, by_memory=by_memory, resource=resource)
        return replace(look, classes=classes, likely=typical(classes), resource=resource)

    @property
    def near(self) -> bool:
        return self.ending or (self.scattered and not self.short)

    def kinds(self, free: Free) -> Kinds:
        return Kinds(free.cards, self.classes, self.resource)

    def cuts(self, kinds: Kinds) -> Cuts:
        """None by memory: cards with two sides are not cut as those with one are, and their prices mislead."""
        times = CUTS if not self.near else SCATTERED_CUTS if self.scattered else NEAR_CUTS
        return Cuts(self.likely, kinds, 0.0 if kinds.by_memory or self.short else times)

    def values(self, kinds: Kinds, cuts: Cuts) -> States:
        if kinds.by_memory:
            return (UsableByMemory if self.near else ValuesByMemory)(self.likely, kinds, cuts)
        return (Usable if self.near else Values)(self.likely, kinds, cuts)

    @property
    def step(self) -> int:
        if self.near:
            return SCATTERED_STEP if self.scattered else NEAR_STEP
        mean = mean_share(self.likely)
        if len(self.likely.memory) or not 0 < mean < FINE_STEP_BELOW:
            return STEP
        return max(1, STEP * mean * mean // FINE_STEP_BELOW**2)


def _rules(look: Look, cuts: Cuts) -> Rules:
    scale = look.likely.total if look.near else NUMBER
    streams = np.zeros((0, 0), dtype=np.int16) if look.near else drawn(look.likely)
    weight = look.likely.weight if look.near else None
    grain = look.resource.grain
    return Rules(streams, grain, look.step * scale, FRESH_CARD * scale, scale * cuts.worth, weight)


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

    def __init__(self, free: Free, look: Look) -> None:
        self._free, self._kinds = free, look.kinds(free)
        self._resource, self._host_free = look.resource, look.resource.free_of(free)
        self._cuts = look.cuts(self._kinds)
        self._values = look.values(self._kinds, self._cuts)
        self._scale, self._step = self._values.scale, look.step
        self._prices = Prices(free, self._kinds, look.classes, ending=look.ending)
        self._version = np.zeros(len(free.cards.nodes), dtype=np.int64)
        self._read = free.now()
        self._known: OrderedDict[Shape, _Known] = OrderedDict()

    def restart(self, generation: int) -> None:
        """Prices begin anew; all else that is remembered are answers that would be the same again."""
        self._prices.restart()

    @property
    def epoch(self) -> int:
        return self._prices.watch()

    @property
    def prices(self) -> Prices:
        """As they are now."""
        return self._prices

    def rate(self, fit: Fit, nodes: Ints) -> Ints:
        self._prices.watch()
        known = self._of(fit.shape)
        self._learn(known, fit, nodes[known.seen[nodes] != self._version[nodes]])
        best = np.maximum(
            self._paid(fit.shape, nodes, known.used[nodes], known.opened[nodes]),
            self._paid(fit.shape, nodes, known.fresh[nodes], np.ones(len(nodes), dtype=np.int64)),
        )
        return self._score(fit.shape, nodes, best)

    def mender(self, fit: Fit, scores: Scores) -> Mender | None:
        return None

    def settle(self, scores: Ints) -> Ints:
        return scores

    def follows(self, shape: Shape) -> bool:
        """What displaces least changes with each claim."""
        return False

    def choose(self, fit: Fit, node: int) -> Ints:
        """One share on the card where it displaces least, the first of equals; others on the tightest."""
        rows = tightest(self._free, fit, node)
        if not is_one_share(fit.shape) or len(rows) < 2:
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
        cells, host, kinds = (
            self._values.cells(self._free, nodes),
            self._host_free[nodes],
            self._kinds.of_node[nodes],
        )
        first, like = _alike(np.column_stack((kinds, host, np.sort(2 * cells + fits, axis=1))))
        each = zip(*(column[first].tolist() for column in (kinds, host, cells, fits)), strict=True)
        gains = np.array([self._gain(known, fit.shape, *one) for one in each], dtype=np.int64)
        known.used[nodes], known.fresh[nodes], known.opened[nodes] = gains[like].T
        known.seen[nodes] = self._version[nodes]

    def _gain(
        self, known: _Known, shape: Shape, kind: int, host: int, cells: list[int], fits: list[bool]
    ) -> tuple[int, int, int]:
        """What is placed less what is displaced, times the scale; what each state told is kept."""
        state = self._values.state(kind, host, cells)
        sizes: tuple[int, ...] = ()
        if is_one_share(shape):
            sizes = tuple(sorted({cell for cell, fit in zip(cells, fits, strict=True) if fit}))
        key = state, (host, *sizes)
        found = known.by_state.get(key)
        if found is None:
            if len(known.by_state) >= 4 * len(self._version) + 4096:
                known.by_state.clear()
            found = known.by_state[key] = self._worked_out(shape, kind, state, host, sizes)
        return found

    def _worked_out(
        self, shape: Shape, kind: int, state: State, host: int, sizes: tuple[int, ...]
    ) -> tuple[int, int, int]:
        values, seat, asked = self._values, self._values.seat(shape, kind), self._resource.of_shape(shape)
        base = self._scale * shape.count * shape.held_milli - values.of(state)
        if not is_one_share(shape):
            after = values.placed(state, asked, host, shape.count, seat)
            return base + values.of(after), NO_WAY, values.bare(state) - values.bare(after)
        gain = {s: base + values.of(values.cut(state, asked, host, s, seat)) for s in sizes}
        used = max((gain[size] for size in sizes if not values.is_bare(size)), default=NO_WAY)
        return used, max((gain[size] for size in sizes if values.is_bare(size)), default=NO_WAY), 0

    def _on_card(self, shape: Shape, node: int, size: int) -> int:
        """The score of one share on a card of that size."""
        nodes, kind, host = np.array([node]), int(self._kinds.of_node[node]), int(self._host_free[node])
        state = self._values.state(kind, host, self._values.cells(self._free, nodes)[0].tolist())
        gain = max(self._worked_out(shape, kind, state, host, (size,))[:2])
        opened = np.array([int(self._values.is_bare(size))])
        return int(self._score(shape, nodes, self._paid(shape, nodes, np.array([gain]), opened))[0])

    def _paid(self, shape: Shape, nodes: Ints, gain: Ints, opened: Ints) -> Ints:
        """Less what shares pay for free cards, and what is paid for slots of dear hosts."""
        if not shape.whole:
            gain = gain - self._scale * FRESH_CARD * opened
        if not self._prices.price.any():
            return gain
        return gain - self._scale * self._prices.lost(nodes, opened, self._resource.of_shape(shape))

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


def is_one_share(shape: Shape) -> bool:
    return shape.count == 1 and not shape.whole
