"""Use what is emptiest, so that neighbours disturb each other least: the opposite of binpack.

Ties go to the lowest index here as well, so that the order is stable.
"""

from __future__ import annotations

import numpy as np

from gpupool.model.claim import Shape
from gpupool.scheduling import score_binpack
from gpupool.scheduling.free import Free
from gpupool.scheduling.snapshot import Ints

NODE, CARD = "emptiest", "emptiest"


def node_cost(free: Free, shape: Shape) -> Ints:
    """Per node, lower is better: most compute left; for whole cards most untouched ones first."""
    return -score_binpack.node_cost(free, shape)


def card_order(free: Free, rows: Ints) -> Ints:
    """The rows, best first: most compute left, untouched before used, most memory left, lowest index."""
    return rows[np.lexsort((-free.size[rows], ~free.untouched(rows), -free.milli[rows]))]
