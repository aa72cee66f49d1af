"""The two costly placement policies with the compiled kernel in place of NumPy: other times, the same decisions.

What a policy expects, weighs and charges comes from its own file (`score_fragmentation`, `score_stream`); here it is
only handed to the kernel in the form that it reads. Knows no rule.
"""

from __future__ import annotations

from dataclasses import replace
from weakref import WeakKeyDictionary

import numpy as np

from gpupool.model.claim import Shape
from gpupool.scheduling.cutting import Cuts
from gpupool.scheduling.expected import Classes, Kinds
from gpupool.scheduling.feasible import Fit
from gpupool.scheduling.free import Free, Listed
from gpupool.scheduling.kernel import Kernel
from gpupool.scheduling.kernel_calls import Asked, Columns, Fgd, Hosts, Rules, Scores, StreamFill
from gpupool.scheduling.kernel_calls import Classes as KernelClasses
from gpupool.scheduling.policy import Mender, Unmoved
from gpupool.scheduling.prices import Prices
from gpupool.scheduling.snapshot import Ints

SLOTS = 256
"""Shapes of which something is remembered: 32 bytes for each and every node."""


class CompiledFgd(Unmoved):
    """`score_fragmentation.Fgd` in C."""

    NODE, CARD = "least fragmenting", "least fragmenting"

    def __init__(self, kernel: Kernel, free: Free, classes: Classes, steps: Ints) -> None:
        kinds = Kinds(free.cards)
        self._fgd = Fgd(kernel, columns_of(free, kinds), classes_of(classes, kinds), classes.weight, steps)
        self._asked = Questions(kinds)

    def rate(self, fit: Fit, nodes: Ints) -> Ints:
        return self._fgd.rate(self._asked.of(fit), nodes)

    def choose(self, fit: Fit, node: int) -> Ints:
        return self._fgd.choose(self._asked.of(fit), node)


class CompiledStreamFill:
    """`score_stream.StreamFill` in C; prices are set in Python, a few dozen times while a pool fills."""

    SCALED = False
    NODE, CARD = "least displacing", "least displacing"

    def __init__(
        self,
        kernel: Kernel,
        free: Free,
        kinds: Kinds,
        expected: Classes,
        prices: Prices,
        cuts: Cuts,
        rules: Rules,
    ) -> None:
        self._prices, self._cuts, self._scale = prices, cuts, rules.scale
        self._resource = kinds.resource
        self._price = np.zeros(len(prices.price), dtype=np.int64)
        self._hosts = Hosts(prices.count, prices.host, prices.allowed.astype(np.uint8), self._price)
        columns = columns_of(free, kinds)
        self._filled = StreamFill(kernel, columns, classes_of(expected, kinds), rules, self._hosts)
        self._asked, self._tolls, self._slots = (
            Questions(kinds),
            dict[tuple[int, int], Ints](),
            dict[tuple[int, ...], int](),
        )
        self._epoch = -1

    def restart(self, generation: int) -> None:
        """Prices begin anew; all else that is remembered are answers that would be the same again."""
        self._prices.restart()

    @property
    def epoch(self) -> int:
        epoch = self._prices.watch()
        if epoch != self._epoch:
            self._epoch = epoch
            self._tolls.clear()
            self._price[:] = self._scale * self._prices.price
        return epoch

    @property
    def prices(self) -> Prices:
        """As they are now."""
        return self._prices

    def rate(self, fit: Fit, nodes: Ints) -> Ints:
        _ = self.epoch  # prices as they are now
        return self._filled.rate(self._asked.of(fit), self._slot(fit.shape), self._toll(fit.shape), nodes)

    def mender(self, fit: Fit, scores: Scores) -> Mender | None:
        asked, shape, slot = self._asked.of(fit), fit.shape, self._slot(fit.shape)
        toll, epoch = self._toll(shape), self._epoch

        def mend(nodes: Listed) -> bool:
            nonlocal toll, epoch
            if epoch != self._epoch:
                toll, epoch = self._toll(shape), self._epoch
            self._filled.mend(asked, slot, toll, scores, *nodes)
            return True

        return mend

    def settle(self, scores: Ints) -> Ints:
        return scores

    def follows(self, shape: Shape) -> bool:
        """What displaces least changes with each claim."""
        return False

    def choose(self, fit: Fit, node: int) -> Ints:
        return self._filled.choose(self._asked.of(fit), self._toll(fit.shape), node)

    def took(self, shape: Shape, node: int) -> None:
        """Nothing to remember: what is free says it all."""

    def gave(self, shape: Shape, node: int) -> None:
        """Nothing to remember: what is free says it all."""

    def _toll(self, shape: Shape) -> Ints:
        """What it pays on each kind of node, less what its cards lose of their worth in any case."""
        key = shape.count, shape.held_milli
        found = self._tolls.get(key)
        if found is None:
            tolls = self._prices.tolls(self._scale * shape.count * shape.held_milli)
            found = self._tolls[key] = tolls - self._scale * self._cuts.least(shape)
        return found

    def _slot(self, shape: Shape) -> int:
        """Where the kernel remembers what it knows of such shapes; when there are no more places, all begin anew."""
        memory = -1 if shape.memory_bytes is None else shape.memory_bytes
        part = -1 if shape.memory_milli is None else shape.memory_milli
        key = shape.count, shape.held_milli, self._resource.of_shape(shape), memory, part
        found = self._slots.get(key)
        if found is None:
            if len(self._slots) == SLOTS:
                self._slots.clear()
            found = self._slots[key] = len(self._slots)
        return found


class Questions:
    """Every fit's shape in the form that the kernel reads, for as long as the fit is in use."""

    def __init__(self, kinds: Kinds) -> None:
        self._kinds = kinds
        self._of: WeakKeyDictionary[Fit, Asked] = WeakKeyDictionary()

    def of(self, fit: Fit) -> Asked:
        found = self._of.get(fit)
        if found is None:
            shape, host = fit.shape, self._kinds.resource.of_shape(fit.shape)
            need = self._kinds.need_of(shape) if self._kinds.by_memory else None
            found = self._of[fit] = Asked(shape.count, shape.held_milli, host, fit.why, need)
        return found


def columns_of(free: Free, kinds: Kinds) -> Columns:
    columns = Columns(free.places, kinds.resource.free_of(free), kinds.of_node, len(kinds))
    if not kinds.by_memory:
        return columns
    return replace(columns, size=free.size, memory=np.ascontiguousarray(free.cards.memory_bytes))


def classes_of(classes: Classes, kinds: Kinds) -> KernelClasses:
    allowed = kinds.allowed(classes.models).astype(np.uint8)
    need = kinds.needs(classes) if kinds.by_memory else None
    return KernelClasses(classes.count, classes.milli, classes.host, allowed, need)
