"""The policies FGD and Stream Fill computed by the native library: faster, with equal decisions.

What a policy expects and charges comes from its own module (`fgd`, `stream_fill`). This module
converts it to the form that the library reads and contains no rule.
"""

from __future__ import annotations

from dataclasses import replace
from weakref import WeakKeyDictionary

import numpy as np

from gpupool.model.claim import Shape
from gpupool.scheduling.filtering.capacity_change import ChangedNodes
from gpupool.scheduling.filtering.feasibility import ClaimFit
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.filtering.native_library import NativeLibrary
from gpupool.scheduling.filtering.native_raters import NativeClasses as KernelClasses
from gpupool.scheduling.filtering.native_raters import (
    NativeColumns,
    NativeFgd,
    NativeHostGroups,
    NativeRules,
    NativeShape,
    NativeStreamFill,
)
from gpupool.scheduling.filtering.native_scores import NativeScores
from gpupool.scheduling.scoring.expected_demand import DemandClasses, NodeKinds
from gpupool.scheduling.scoring.policy import ScoreUpdater, StatelessRater
from gpupool.scheduling.scoring.stream_fill.partial_card_value import PartialCardValues
from gpupool.scheduling.scoring.stream_fill.scarcity import ScarcityPrices
from gpupool.scheduling.snapshot.columns import Ints

#: Shapes of which something is remembered: 32 bytes for each and every node.
MOST_SHAPES = 256


class CompiledFgdRater(StatelessRater):
    """`fgd.FgdRater` in C."""

    NODE_WORD = "least fragmenting"
    CARD_WORD = "least fragmenting"

    def __init__(
        self, kernel: NativeLibrary, free: FreeCapacity, classes: DemandClasses, steps: Ints
    ) -> None:
        kinds = NodeKinds(free.cards)
        self._fgd = NativeFgd(
            kernel,
            build_native_columns(free, kinds),
            build_native_classes(classes, kinds),
            classes.weight,
            steps,
        )
        self._asked = NativeShapeCache(kinds)

    def rate_nodes(self, fit: ClaimFit, nodes: Ints) -> Ints:
        return self._fgd.rate_nodes(self._asked.get_shape(fit), nodes)

    def order_cards(self, fit: ClaimFit, node: int) -> Ints:
        return self._fgd.order_cards(self._asked.get_shape(fit), node)


class CompiledStreamFillRater:
    """`stream_fill.policy.StreamFillRater` in C.

    Python sets the prices, a few dozen times while a pool fills.
    """

    NEEDS_NORMALIZATION = False
    NODE_WORD = "least displacing"
    CARD_WORD = "least displacing"

    def __init__(
        self,
        kernel: NativeLibrary,
        free: FreeCapacity,
        kinds: NodeKinds,
        expected: DemandClasses,
        prices: ScarcityPrices,
        cuts: PartialCardValues,
        rules: NativeRules,
    ) -> None:
        self._prices = prices
        self._cuts = cuts
        self._scale = rules.scale
        self._resource = kinds.resource
        self._price = np.zeros(len(prices.price), dtype=np.int64)
        allowed = prices.allowed.astype(np.uint8)
        self._hosts = NativeHostGroups(
            prices.count, prices.host, allowed, self._price, prices.near_slot
        )
        columns = build_native_columns(free, kinds)
        self._filled = NativeStreamFill(
            kernel, columns, build_native_classes(expected, kinds), rules, self._hosts
        )
        self._asked = NativeShapeCache(kinds)
        self._tolls = dict[tuple[int, int], Ints]()
        self._slots = dict[tuple[int, ...], int]()
        self._epoch = -1

    def begin_plan(self, generation: int) -> None:
        """Reset the prices. All other cached values would be computed equal again."""
        self._prices.begin_plan()

    @property
    def epoch(self) -> int:
        epoch = self._prices.update_epoch()
        if epoch != self._epoch:
            self._epoch = epoch
            self._tolls.clear()
            # In place: the library holds the address of this column.
            self._price[:] = self._scale * self._prices.price
        return epoch

    @property
    def prices(self) -> ScarcityPrices:
        """The current prices."""
        return self._prices

    def rate_nodes(self, fit: ClaimFit, nodes: Ints) -> Ints:
        # Reading it sets prices and tolls anew if enough has changed hands.
        _ = self.epoch  # prices as they are now
        return self._filled.rate_nodes(
            self._asked.get_shape(fit),
            self._get_slot(fit.shape),
            self._compute_toll(fit.shape),
            nodes,
        )

    def build_updater(self, fit: ClaimFit, scores: NativeScores) -> ScoreUpdater | None:
        asked = self._asked.get_shape(fit)
        shape = fit.shape
        slot = self._get_slot(fit.shape)
        toll = self._compute_toll(shape)
        epoch = self._epoch

        def mend(nodes: ChangedNodes) -> bool:
            nonlocal toll, epoch
            if epoch != self._epoch:
                toll = self._compute_toll(shape)
                epoch = self._epoch
            self._filled.update_scores(asked, slot, toll, scores, *nodes)
            return True

        return mend

    def normalize_scores(self, scores: Ints) -> Ints:
        return scores

    def can_reuse_card(self, shape: Shape) -> bool:
        """Return False: each claim changes which placement displaces least."""
        return False

    def order_cards(self, fit: ClaimFit, node: int) -> Ints:
        return self._filled.order_cards(
            self._asked.get_shape(fit), self._compute_toll(fit.shape), node
        )

    def on_take(self, shape: Shape, node: int) -> None:
        """Do nothing: free capacity is the only state."""

    def on_release(self, shape: Shape, node: int) -> None:
        """Do nothing: free capacity is the only state."""

    def _compute_toll(self, shape: Shape) -> Ints:
        """Return the toll per kind of node, less the unavoidable loss of card value."""
        key = shape.count, shape.held_milli
        found = self._tolls.get(key)
        if found is None:
            tolls = self._prices.compute_tolls(self._scale * shape.count * shape.held_milli)
            found = self._tolls[key] = tolls - self._scale * self._cuts.compute_least_loss(shape)
        return found

    def _get_slot(self, shape: Shape) -> int:
        """Return the number of the shape's cache in the library.

        When all numbers are used, numbering starts again and the library discards the old caches.
        """
        memory = -1 if shape.memory_bytes is None else shape.memory_bytes
        part = -1 if shape.memory_milli is None else shape.memory_milli
        key = shape.count, shape.held_milli, self._resource.get_asked(shape), memory, part
        found = self._slots.get(key)
        if found is None:
            if len(self._slots) == MOST_SHAPES:
                # Shapes beyond the library's slots begin anew: their gains are computed again, and
                # are equal.
                self._slots.clear()
            found = self._slots[key] = len(self._slots)
        return found


class NativeShapeCache:
    """The native form of each fit's shape, for as long as the fit lives."""

    def __init__(self, kinds: NodeKinds) -> None:
        self._kinds = kinds
        self._of: WeakKeyDictionary[ClaimFit, NativeShape] = WeakKeyDictionary()

    def get_shape(self, fit: ClaimFit) -> NativeShape:
        """Return the native form of the fit's shape."""
        found = self._of.get(fit)
        if found is None:
            shape = fit.shape
            host = self._kinds.resource.get_asked(fit.shape)
            need = self._kinds.compute_need(shape) if self._kinds.by_memory else None
            found = self._of[fit] = NativeShape(shape.count, shape.held_milli, host, fit.why, need)
        return found


def build_native_columns(free: FreeCapacity, kinds: NodeKinds) -> NativeColumns:
    """Return the columns of free capacity for the library."""
    columns = NativeColumns(free.places, kinds.resource.get_free(free), kinds.of_node, len(kinds))
    if not kinds.by_memory:
        return columns
    return replace(columns, size=free.size, memory=np.ascontiguousarray(free.cards.memory_bytes))


def build_native_classes(classes: DemandClasses, kinds: NodeKinds) -> KernelClasses:
    """Return the expected classes for the library."""
    allowed = kinds.find_allowed(classes.models).astype(np.uint8)
    need = kinds.compute_needs(classes) if kinds.by_memory else None
    return KernelClasses(classes.count, classes.milli, classes.host, allowed, need)
