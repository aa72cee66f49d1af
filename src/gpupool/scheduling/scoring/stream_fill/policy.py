"""Stream Fill, the default policy: a claim goes where it displaces least of the expected demand.

The value of a node is what streams of expected claims would still place on it (`value_stream`). If
claims end soon, or if sizes are too many for a stream to represent, it is what the next claim could
use of it (`value_next_claim`). A claim's displacement is the value that its node loses. The score
is the compute that it places, less the displacement, less prices of scarce resources (`scarcity`).
The score is rounded to steps, so that nodes tie and the tie order packs. Without expected demand
the policy is binpack. Found by experiments against FGD (docs/concepts/placement.md,
docs/decisions/0007-placement-policy.md).
"""

from __future__ import annotations

from collections import OrderedDict

import numpy as np

from gpupool.model.claim import Shape
from gpupool.scheduling.filtering.feasibility import FITS, ClaimFit
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.filtering.native_raters import NativeRules
from gpupool.scheduling.filtering.native_scores import NativeScores
from gpupool.scheduling.scoring.binpack import BinpackRater
from gpupool.scheduling.scoring.native_policies import CompiledStreamFillRater
from gpupool.scheduling.scoring.policy import NodeRater, ScoreUpdater, order_tightest
from gpupool.scheduling.scoring.stream_fill.model import StreamFillModel
from gpupool.scheduling.scoring.stream_fill.partial_card_value import (
    PartialCardValues,
)
from gpupool.scheduling.scoring.stream_fill.scarcity import ScarcityPrices
from gpupool.scheduling.scoring.stream_fill.value_stream import (
    NUMBER,
    NodeState,
    draw_streams,
)
from gpupool.scheduling.snapshot.claims import ExpectedDemand
from gpupool.scheduling.snapshot.columns import Ints

NAME = "default"

#: What a share pays that opens a free card, in milli-devices.
FRESH_CARD = 100

#: Stands for a card that is not there to be taken.
NO_WAY = -(1 << 60)

#: Shapes whose gains are kept.
_REMEMBERED = 512
#: Nodes up to which sorting costs more than it saves.
_FEW = 64


def start_rater(free: FreeCapacity, expected: ExpectedDemand, seed: int) -> NodeRater:
    """Start the policy on a pool, in the native library if it serves the pool."""
    look = StreamFillModel.choose(free, expected)
    if not (look.classes.count > 0).any():
        return BinpackRater(free)
    if free.kernel is None:
        return StreamFillRater(free, look)
    kinds = look.build_kinds(free)
    prices = ScarcityPrices(free, kinds, look.classes, ending=look.ending)
    cuts = look.build_part_values(kinds)
    return CompiledStreamFillRater(
        free.kernel, free, kinds, look.likely, prices, cuts, _build_rules(look, cuts)
    )


def _build_rules(look: StreamFillModel, cuts: PartialCardValues) -> NativeRules:
    scale = look.likely.total if look.near else NUMBER
    streams = np.zeros((0, 0), dtype=np.int16) if look.near else draw_streams(look.likely)
    weight = look.likely.weight if look.near else None
    grain = look.resource.grain
    return NativeRules(
        streams, grain, look.step * scale, FRESH_CARD * scale, scale * cuts.worth, weight
    )


class _ShapeGains:
    """The gain of a shape on each node without prices: on its best used card, and on a free card.

    If the choice of card makes no difference only the first is set, and `opened` counts free cards.
    """

    def __init__(self, nodes: int) -> None:
        self.used = np.full(nodes, NO_WAY, dtype=np.int64)
        self.fresh = np.full(nodes, NO_WAY, dtype=np.int64)
        self.opened = np.zeros(nodes, dtype=np.int64)
        #: Of each node's version.
        self.seen = np.full(nodes, -1, dtype=np.int64)
        self.by_state: dict[tuple[NodeState, tuple[int, ...]], tuple[int, int, int]] = {}


class StreamFillRater:
    """Stream Fill at work on one pool, for fixed classes, in NumPy."""

    NEEDS_NORMALIZATION = False
    NODE_WORD = "least displacing"
    CARD_WORD = "least displacing"

    def __init__(self, free: FreeCapacity, look: StreamFillModel) -> None:
        self._free = free
        self._kinds = look.build_kinds(free)
        self._resource = look.resource
        self._host_free = look.resource.get_free(free)
        self._cuts = look.build_part_values(self._kinds)
        self._values = look.build_node_values(self._kinds, self._cuts)
        self._scale = self._values.scale
        self._step = look.step
        self._prices = ScarcityPrices(free, self._kinds, look.classes, ending=look.ending)
        self._version = np.zeros(len(free.cards.nodes), dtype=np.int64)
        self._read = free.get_cursor()
        self._known: OrderedDict[Shape, _ShapeGains] = OrderedDict()

    def begin_plan(self, generation: int) -> None:
        """Reset the prices. All other cached values would be computed equal again."""
        self._prices.begin_plan()

    @property
    def epoch(self) -> int:
        return self._prices.update_epoch()

    @property
    def prices(self) -> ScarcityPrices:
        """The current prices."""
        return self._prices

    def rate_nodes(self, fit: ClaimFit, nodes: Ints) -> Ints:
        self._prices.update_epoch()
        known = self._get_gains(fit.shape)
        self._update_gains(known, fit, nodes[known.seen[nodes] != self._version[nodes]])
        best = np.maximum(
            self._subtract_prices(fit.shape, nodes, known.used[nodes], known.opened[nodes]),
            self._subtract_prices(
                fit.shape, nodes, known.fresh[nodes], np.ones(len(nodes), dtype=np.int64)
            ),
        )
        return self._compute_score(fit.shape, nodes, best)

    def build_updater(self, fit: ClaimFit, scores: NativeScores) -> ScoreUpdater | None:
        return None

    def normalize_scores(self, scores: Ints) -> Ints:
        return scores

    def can_reuse_card(self, shape: Shape) -> bool:
        """Return False: each claim changes which placement displaces least."""
        return False

    def order_cards(self, fit: ClaimFit, node: int) -> Ints:
        """Return the cards of a share by score, the first of equals first; other claims tightest
        first.
        """
        rows = order_tightest(self._free, fit, node)
        if not is_one_share(fit.shape) or len(rows) < 2:
            return rows
        rows = np.sort(rows)
        sizes = self._values.get_sizes(self._free, rows)
        each = dict[int, int]()
        for size in set(sizes.tolist()):
            each[size] = self._rate_card(fit.shape, node, size)
        scores = np.array([each[size] for size in sizes.tolist()], dtype=np.int64)
        return rows[np.argsort(-scores, kind="stable")]

    def on_take(self, shape: Shape, node: int) -> None:
        """Do nothing: free capacity is the only state."""

    def on_release(self, shape: Shape, node: int) -> None:
        """Do nothing: free capacity is the only state."""

    def _get_gains(self, shape: Shape) -> _ShapeGains:
        """Return the cached gains of a shape, after marking the nodes that changed."""
        if self._read != self._free.get_cursor():
            self._version[self._free.list_changed_nodes(self._read)] += 1
            self._read = self._free.get_cursor()
        known = self._known.pop(shape, None) or _ShapeGains(len(self._version))
        self._known[shape] = known
        if len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
        return known

    def _update_gains(self, known: _ShapeGains, fit: ClaimFit, nodes: Ints) -> None:
        if len(nodes) == 0:
            return
        rows, there = self._free.get_row_table(nodes)
        fits = (fit.why[rows] == FITS) & there if len(self._free.cards) else there
        cells = self._values.get_cells(self._free, nodes)
        host = self._host_free[nodes]
        kinds = self._kinds.of_node[nodes]
        # Nodes that are alike are computed once. The lowest bit says whether a card fits, so that a
        # card that is too full for the claim does not group with one that is not.
        first, like = _group_lines(
            np.column_stack((kinds, host, np.sort(2 * cells + fits, axis=1)))
        )
        each = zip(*(column[first].tolist() for column in (kinds, host, cells, fits)), strict=True)
        gains = np.array([self._get_gain(known, fit.shape, *one) for one in each], dtype=np.int64)
        known.used[nodes], known.fresh[nodes], known.opened[nodes] = gains[like].T
        # A node's version grows with each change, so one comparison finds what is stale for a
        # shape.
        known.seen[nodes] = self._version[nodes]

    def _get_gain(
        self,
        known: _ShapeGains,
        shape: Shape,
        kind: int,
        host: int,
        cells: list[int],
        fits: list[bool],
    ) -> tuple[int, int, int]:
        """Return placed less displaced compute, times the scale, cached by node state."""
        state = self._values.build_state(kind, host, cells)
        sizes: tuple[int, ...] = ()
        if is_one_share(shape):
            sizes = tuple(sorted({cell for cell, fit in zip(cells, fits, strict=True) if fit}))
        key = state, (host, *sizes)
        found = known.by_state.get(key)
        if found is None:
            if len(known.by_state) >= 4 * len(self._version) + 4096:
                known.by_state.clear()
            found = known.by_state[key] = self._compute_gain(shape, kind, state, host, sizes)
        return found

    def _compute_gain(
        self, shape: Shape, kind: int, state: NodeState, host: int, sizes: tuple[int, ...]
    ) -> tuple[int, int, int]:
        values = self._values
        seat = self._values.measure_seat(shape, kind)
        asked = self._resource.get_asked(shape)
        base = self._scale * shape.count * shape.held_milli - values.get_value(state)
        if not is_one_share(shape):
            after = values.place_claim(state, asked, host, shape.count, seat)
            return (
                base + values.get_value(after),
                NO_WAY,
                values.count_bare(state) - values.count_bare(after),
            )
        gain = {
            s: base + values.get_value(values.cut_card(state, asked, host, s, seat)) for s in sizes
        }
        used = max((gain[size] for size in sizes if not values.is_bare(size)), default=NO_WAY)
        return used, max((gain[size] for size in sizes if values.is_bare(size)), default=NO_WAY), 0

    def _rate_card(self, shape: Shape, node: int, size: int) -> int:
        """Return the score of one share on a card of that size."""
        nodes = np.array([node])
        kind = int(self._kinds.of_node[node])
        host = int(self._host_free[node])
        state = self._values.build_state(
            kind, host, self._values.get_cells(self._free, nodes)[0].tolist()
        )
        gain = max(self._compute_gain(shape, kind, state, host, (size,))[:2])
        opened = np.array([int(self._values.is_bare(size))])
        return int(
            self._compute_score(
                shape, nodes, self._subtract_prices(shape, nodes, np.array([gain]), opened)
            )[0]
        )

    def _subtract_prices(self, shape: Shape, nodes: Ints, gain: Ints, opened: Ints) -> Ints:
        """Subtract the price of free cards for shares and the price of slots on scarce hosts."""
        if not shape.is_whole:
            # Keeps shares off free cards: 0.4 points more idle at 95 % without it (decision 0007).
            gain = gain - self._scale * FRESH_CARD * opened
        if not self._prices.price.any():
            return gain
        lost = self._prices.price_lost_slots(nodes, opened, self._resource.get_asked(shape))
        return gain - self._scale * lost // 1000

    def _compute_score(self, shape: Shape, nodes: Ints, gain: Ints) -> Ints:
        tolls = self._prices.compute_tolls(
            self._scale * shape.count * shape.held_milli
        ) - self._scale * self._cuts.compute_least_loss(shape)
        # Rounded down to steps: nodes tie, and the tie order (lowest rank) fills one after the
        # other.
        score: Ints = (gain - tolls[self._kinds.of_node[nodes]]) // (self._scale * self._step)
        return score


def _group_lines(lines: Ints) -> tuple[Ints, Ints]:
    """Return the first line of each group of equal lines, and the group of every line.

    Few lines are not grouped, because sorting costs more than it saves.
    """
    if len(lines) < _FEW:
        return np.arange(len(lines)), np.arange(len(lines))
    _, first, like = np.unique(lines, axis=0, return_index=True, return_inverse=True)
    return first, like.reshape(-1)


def is_one_share(shape: Shape) -> bool:
    """Return whether the shape is a share of a single card."""
    return shape.count == 1 and not shape.is_whole
