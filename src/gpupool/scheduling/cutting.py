"""What a part of a card is worth to shares that are cut from cards as well as they can be.

Streams see one node. That claims of a size are few, and parts that only they could use are many, is a matter of the
whole pool: the cutting stock problem, the fewest cards that take all expected shares. Its dual prices say how much of a
card a share uses up for good: 0.81 uses all of it where little is asked for that fits beside it, 0.47 a half, 0.05
nothing while there are such remnants. A part is worth the dearest shares that fit on it together. Prices are found by
column generation (Gilmore and Gomory, 1961): a simplex step for each pattern that pays, the next pattern from a
knapsack. Processors and the order of arrival play no part in it; those are what streams are for.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from gpupool.base.units import WHOLE
from gpupool.model.claim import Shape
from gpupool.scheduling.expected import Classes, Kinds
from gpupool.scheduling.snapshot import Floats, Ints

_FINE = 1 << 30
"""A free card's worth while patterns are looked for."""

_MOST_STEPS = 300
"""Of the simplex; openb's lists take up to 60. Prices of an unfinished one are worse, not wrong."""

_TINY = 1e-9


class Cuts:
    """`worth` per kind of node and free milli-devices of a card, in milli-devices, counted so many `times`."""

    def __init__(self, classes: Classes, kinds: Kinds, times: float) -> None:
        shares = classes.only((classes.count > 0) & (classes.milli < WHOLE))
        sizes, of = np.unique(shares.milli, return_inverse=True)
        asked = np.bincount(of, weights=shares.weight * shares.count, minlength=len(sizes))
        prices = np.array(share_prices(tuple(sizes.tolist()), tuple(asked.astype(np.int64).tolist())), dtype=np.int64)
        runs = np.zeros((len(sizes), len(kinds)), dtype=np.bool_)
        np.logical_or.at(runs, of, kinds.allowed(shares.models))
        self.worth = np.zeros((len(kinds), WHOLE + 1), dtype=np.int64)
        for kind in range(len(kinds)):
            here = runs[:, kind]
            packed = np.minimum(knapsack(sizes[here].tolist(), prices[here].tolist()), _FINE)
            packed[WHOLE] = _FINE
            self.worth[kind] = (int(times * WHOLE) * packed + _FINE // 2) // _FINE
        self._least: dict[int, Ints] = {}

    def least(self, shape: Shape) -> Ints:
        """Per kind of node, what the shape's cards lose of their worth at least: where it is cut best."""
        milli = shape.held_milli
        if milli not in self._least:
            self._least[milli] = (self.worth[:, milli:] - self.worth[:, : WHOLE + 1 - milli]).min(axis=1)
        found: Ints = shape.count * self._least[milli]
        return found


@lru_cache(maxsize=16)
def share_prices(sizes: tuple[int, ...], asked: tuple[int, ...]) -> tuple[int, ...]:
    """What shares of these different sizes, so many of each, use up of a card, in parts of `_FINE`.

    Prices at which no pattern of shares on one card costs more than the card, and all shares together cost as many
    cards as they need at least.
    """
    if not sizes:
        return ()
    most = WHOLE // np.array(sizes)
    inverse: Floats = np.diag(1.0 / most)
    level = np.array(asked) / most
    prices = _fine(inverse)
    for _ in range(_MOST_STEPS):
        pattern = _dearest(sizes, prices)
        if int(pattern @ np.array(prices)) <= _FINE + len(sizes):
            break
        # In exact numbers some line of the column is positive; where rounding left none, these prices have to do.
        column = (inverse * pattern).sum(axis=1)
        if column.max() <= _TINY:
            break
        inverse, level = _pivoted(inverse, level, column)
        prices = _fine(inverse)
    return prices


def knapsack(sizes: Sequence[int], prices: Sequence[int]) -> Ints:
    """By room from 0 to a whole card: the most that shares of these sizes, each as often as one likes, cost there."""
    best = np.zeros(WHOLE + 1, dtype=np.int64)
    for size, price in zip(sizes, prices, strict=True):
        while size <= WHOLE:
            best[size:] = np.maximum(best[size:], best[:-size] + price)
            size, price = 2 * size, 2 * price
    return best


def _dearest(sizes: Sequence[int], prices: Sequence[int]) -> Ints:
    """How often each share is in the pattern that costs most."""
    best, room = knapsack(sizes, prices).tolist(), WHOLE
    pattern = np.zeros(len(sizes), dtype=np.int64)
    number = 0
    while number < len(sizes):
        left = room - sizes[number]
        if left >= 0 and prices[number] > 0 and best[left] + prices[number] == best[room]:
            pattern[number] += 1
            room = left
        else:
            number += 1
    return pattern


def _pivoted(inverse: Floats, level: Floats, column: Floats) -> tuple[Floats, Floats]:
    """The basis with the pattern of that column in place of the one that is used up first."""
    allowed = np.where(column > _TINY, level / np.maximum(column, _TINY), np.inf)
    row = int(np.argmin(allowed))
    unit = inverse[row] / column[row]
    step = level[row] / column[row]
    inverse, level = inverse - column[:, None] * unit, level - column * step
    inverse[row], level[row] = unit, step
    return inverse, np.maximum(level, 0.0)


def _fine(inverse: Floats) -> tuple[int, ...]:
    """Each pattern of the basis costs one card."""
    return tuple(np.maximum(np.rint(_FINE * inverse.sum(axis=0)), 0).astype(np.int64).tolist())
