"""What a part of a card is worth to shares that are cut from cards as well as they can be.

Streams see one node. That claims of a size are few, and parts that only they could use are many, is a matter of the
whole pool: the cutting stock problem, the fewest cards that take all expected shares. Its dual prices say how much of a
card a share uses up for good: 0.81 uses all of it where little is asked for that fits beside it, 0.47 a half, 0.05
nothing while there are such remnants. A part is worth the dearest shares that fit on it together. Prices are found by
column generation (Gilmore and Gomory, 1961): a simplex step for each pattern that pays, the next pattern from a
knapsack. Processors and the order of arrival play no part in it; those are what streams are for.

Prices are always dual feasible: no pattern of shares on one card costs more than the card. Prices of a generation that
stopped early are not by themselves (178 sizes once charged 4.29 cards for one): divided by what their dearest pattern
costs they are, and what all shares cost by them bounds the number of cards from below (Farley, 1990). Many sizes are
priced as groups of neighbours.
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
"""Of the simplex; openb's lists take up to 60, 40 sizes up to about 120."""

_NEAR_ENOUGH = 0.998
"""Prices that say so great a part of the cards in use is needed at least will do."""

MOST_SIZES = 40
"""More different shares than that are priced in groups; 735 sizes take 8 to 24 ms, one by one 3.1 s."""

FEW_SIZES = 4
"""Where more sizes are needed for half of all shares' compute, none stands out. openb needs 1 or 2, also with 30 % odd
sizes among them; 9 sizes that are asked for equally often need 3, 19 of them 6."""

_STANDS_OUT = 1.5
"""So many times 1/MOST_SIZES of the compute asked for gives a size a price of its own."""

_TINY = 1e-9


class Cuts:
    """`worth` per kind of node and free milli-devices of a card, in milli-devices, counted so many `times`."""

    def __init__(self, classes: Classes, kinds: Kinds, times: float) -> None:
        shares, sizes, of, asked = _shares(classes)
        prices = np.array(share_prices(tuple(sizes.tolist()), tuple(asked.tolist())), dtype=np.int64)
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


def is_scattered(classes: Classes) -> bool:
    """Whether no few sizes make up what shares ask for: FEW_SIZES are less than half of their compute."""
    _, sizes, _, asked = _shares(classes)
    most_first = np.sort(sizes * asked)[::-1]
    return bool(2 * most_first[:FEW_SIZES].sum() < most_first.sum())


def mean_share(classes: Classes) -> int:
    """In milli-devices, 0 where no shares are."""
    _, sizes, _, asked = _shares(classes)
    return int(sizes @ asked) // int(asked.sum()) if len(sizes) else 0


def _shares(classes: Classes) -> tuple[Classes, Ints, Ints, Ints]:
    """Classes of shares, their different sizes, which of these each class has, and how often each size is asked for."""
    shares = classes.only((classes.count > 0) & (classes.milli < WHOLE))
    sizes, of = np.unique(shares.milli, return_inverse=True)
    asked = np.bincount(of, weights=shares.weight * shares.count, minlength=len(sizes)).astype(np.int64)
    return shares, sizes, of, asked


@lru_cache(maxsize=16)
def share_prices(sizes: tuple[int, ...], asked: tuple[int, ...]) -> tuple[int, ...]:
    """What shares of these different sizes (ascending), so many of each, use up of a card, in parts of `_FINE`.

    Prices at which no pattern of shares on one card costs more than the card, and all shares together cost nearly as
    many cards as they need at least. A group of sizes costs what its smallest does, so that what fits at these sizes
    fits at the smallest and no card costs more here either. Where no size stands out the group's mean, made feasible,
    orders parts better: 0.1 to 0.15 points more allocated with 99 and 199 sizes.
    """
    if len(sizes) <= MOST_SIZES:
        return _priced(sizes, asked)
    group, some_stand_out = _grouped(np.array(sizes), np.array(asked))
    many = np.bincount(group, weights=asked)
    if some_stand_out:
        stands_for = np.array(sizes)[np.unique(group, return_index=True)[1]]
    else:
        stands_for = np.rint(np.bincount(group, weights=np.array(asked) * np.array(sizes)) / many).astype(np.int64)
    different, which = np.unique(stands_for, return_inverse=True)
    together = np.bincount(which, weights=many).astype(np.int64)
    of_groups = np.array(_priced(tuple(different.tolist()), tuple(together.tolist())), dtype=np.int64)
    prices = of_groups[which][group].tolist()
    return _feasible(prices, int(knapsack(sizes, prices)[WHOLE]))


def _grouped(sizes: Ints, asked: Ints) -> tuple[Ints, bool]:
    """Which group each size is in, ascending, about MOST_SIZES in all; and whether any size stands out.

    One that does is alone, and ends the group before it. The others are in groups of equal compute.
    """
    compute = sizes * asked
    own = compute * MOST_SIZES >= _STANDS_OUT * compute.sum()
    rest = np.where(own, 0, compute)
    parts = max(1, MOST_SIZES - int(own.sum()))
    part = (2 * np.cumsum(rest) - rest) * parts // max(1, 2 * int(rest.sum()) + 1)
    between = 2 * np.cumsum(own) - own
    _, group = np.unique(np.where(own, 0, part) + between * (parts + 1), return_inverse=True)
    return group.reshape(-1), bool(own.any())


def _priced(sizes: tuple[int, ...], asked: tuple[int, ...]) -> tuple[int, ...]:
    """By column generation: of all prices that were met, made feasible, those by which most cards are needed."""
    if not sizes:
        return ()
    most = WHOLE // np.array(sizes)
    inverse: Floats = np.diag(1.0 / most)
    level = np.array(asked) / most
    best, needed = (0,) * len(sizes), -1
    for _ in range(_MOST_STEPS):
        prices = _fine(inverse)
        pattern = _dearest(sizes, prices)
        costs = int(pattern @ np.array(prices))
        feasible = _feasible(prices, costs)
        bound = sum(price * number for price, number in zip(feasible, asked, strict=True))
        if bound > needed:
            best, needed = feasible, bound
        if costs <= _FINE + len(sizes):
            break
        if needed >= _NEAR_ENOUGH * _FINE * float(level.sum()):
            break
        # In exact numbers some line of the column is positive; where rounding left none, these prices have to do.
        column = (inverse * pattern).sum(axis=1)
        if column.max() <= _TINY:
            break
        inverse, level = _pivoted(inverse, level, column)
    return best


def _feasible(prices: Sequence[int], dearest: int) -> tuple[int, ...]:
    """The prices divided by what the dearest pattern costs, where that is more than a card."""
    if dearest <= _FINE:
        return tuple(prices)
    return tuple(price * _FINE // dearest for price in prices)


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
