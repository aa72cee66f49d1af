"""The two costly placement policies with the compiled kernel in place of NumPy: other times, the same decisions.

What a policy expects, weighs and charges comes from its own file (`score_fragmentation`, `score_stream`); here it is
only handed to the kernel in the form that it reads. Knows no rule.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

import numpy as np

from gpupool.scheduling.expected import Classes, Kinds
from gpupool.scheduling.feasible import Fit
from gpupool.scheduling.free import Free
from gpupool.scheduling.kernel import Asked, Columns, Fgd, Kernel
from gpupool.scheduling.kernel import Classes as KernelClasses
from gpupool.scheduling.policy import Unmoved
from gpupool.scheduling.snapshot import Ints


class CompiledFgd(Unmoved):
    """`score_fragmentation.Fgd` in C."""

    NODE, CARD = "least fragmenting", "least fragmenting"

    def __init__(self, kernel: Kernel, free: Free, classes: Classes, steps: Ints) -> None:
        kinds = Kinds(free.cards)
        self._fgd = Fgd(kernel, columns_of(free, kinds), classes_of(classes, kinds), classes.weight, steps)
        self._asked = Questions()

    def rate(self, fit: Fit, nodes: Ints) -> Ints:
        return self._fgd.rate(self._asked.of(fit), nodes)

    def choose(self, fit: Fit, node: int) -> Ints:
        return self._fgd.choose(self._asked.of(fit), node)


class Questions:
    """Every fit's shape in the form that the kernel reads, for as long as the fit is in use."""

    def __init__(self) -> None:
        self._of: WeakKeyDictionary[Fit, Asked] = WeakKeyDictionary()

    def of(self, fit: Fit) -> Asked:
        found = self._of.get(fit)
        if found is None:
            shape = fit.shape
            found = self._of[fit] = Asked(shape.count, shape.held_milli, shape.cpu_milli, fit.why)
        return found


def columns_of(free: Free, kinds: Kinds) -> Columns:
    return Columns(free.places, free.cpu_milli, kinds.of_node, len(kinds))


def classes_of(classes: Classes, kinds: Kinds) -> KernelClasses:
    allowed = kinds.allowed(classes.models).astype(np.uint8)
    return KernelClasses(classes.count, classes.milli, classes.cpu_milli, allowed)
