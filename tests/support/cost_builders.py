"""Shapes, priced pools and placements for tests of the cost terms."""

from __future__ import annotations

import numpy as np

from gpupool.base.units import GIB
from gpupool.model.claim import Shape
from gpupool.scheduling.filtering.feasibility import ClaimFit
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.scoring.cost_terms.power_term import PowerTerm
from gpupool.scheduling.scoring.cost_terms.price_term import LABEL, PriceTerm
from gpupool.scheduling.snapshot.cards import CardTable
from tests.support.scheduling_builders import cards

SHARE = Shape(300, GIB)


WHOLE_CARDS = Shape(1000, None, 2)


def priced(*prices: str) -> CardTable:
    labels = {f"node-{number}": {LABEL: price} for number, price in enumerate(prices, 1) if price}
    return cards(f"{len(prices)}x4xT4", labels=labels, hosts=(40_000, 64 * GIB))


def cost_of(term: PowerTerm | PriceTerm, free: FreeCapacity, shape: Shape) -> list[int]:
    """On each node that takes the shape."""
    fit = ClaimFit(shape, free)
    cost: list[int] = term.compute_cost(fit, np.flatnonzero(fit.roomy)).tolist()
    return cost


def place(free: FreeCapacity, shape: Shape, node: int, rows: list[int]) -> None:
    fit = ClaimFit(shape, free)
    free.take_seats(
        node, np.array(rows), shape.held_milli, fit.need[rows], shape.cpu_milli, shape.host_bytes
    )
