"""Fill what is already used, so that whole cards and whole nodes stay free for those who need them.

A score only orders what `feasible` let through: it never decides whether something fits.
"""

from __future__ import annotations

import numpy as np

from gpupool.model.claim import Shape
from gpupool.scheduling.free import Free
from gpupool.scheduling.snapshot import Ints

NODE, CARD = "fullest", "fullest"


def node_cost(free: Free, shape: Shape) -> Ints:
    """Per node, lower is better: least compute left; for whole cards fewest untouched ones first."""
    if shape.whole:
        return (free.node_whole << 32) + free.node_milli
    return free.node_milli


def card_order(free: Free, rows: Ints) -> Ints:
    """The rows, best first: least compute left, used before untouched, least memory left, lowest index."""
    return rows[np.lexsort((free.size[rows], free.untouched(rows), free.milli[rows]))]
