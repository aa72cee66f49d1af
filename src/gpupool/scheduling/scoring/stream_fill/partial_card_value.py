"""The value of a part of a card to shares, if shares are cut from cards as well as possible.

Streams value one node. That claims of a size are rare, and parts that only they can use are many,
is a property of the whole pool. It is the cutting stock problem: find the fewest cards that take
all expected shares. Its dual prices say how much of a card a share uses up for good: a share of
0.81 uses all of it if few claims fit beside it, a share of 0.47 a half, a share of 0.05 nothing
while such remnants exist. The value of a part is the sum of the prices of the most expensive shares
that fit on it together. Processors and the order of arrival are left to the streams.

Prices come from column generation (Gilmore and Gomory, 1961): each simplex step adds a pattern that
costs more than a card, and a knapsack finds the next pattern.

Prices are always dual feasible: no pattern of shares on one card costs more than the card. Prices
of an iteration that stops early are not (178 sizes once charged 4.29 cards for one). Divided by the
cost of their most expensive pattern they are, and the cost of all shares is then a lower bound of
the number of cards (Farley, 1990). Many sizes are priced as groups of neighbours. See
docs/decisions/0007-placement-policy.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from gpupool.base.units import WHOLE
from gpupool.model.claim import Shape
from gpupool.scheduling.scoring.expected_demand import DemandClasses, NodeKinds
from gpupool.scheduling.scoring.stream_fill.splitmix import generate_numbers
from gpupool.scheduling.snapshot.columns import Floats, Ints

#: A free card's worth while patterns are looked for.
_FINE = 1 << 30

#: Of the simplex; openb's lists take up to 60, 40 sizes up to about 120.
_MOST_STEPS = 300

#: Prices that say so great a part of the cards in use is needed at least will do.
_NEAR_ENOUGH = 0.998

#: More different shares than that are priced in groups; 735 sizes take 8 to 24 ms, one by one 3.1
#: s.
MOST_SIZES = 40

#: Where more sizes are needed for half of all shares' compute, none stands out. openb needs 1 or 2,
#: also with 30 % odd sizes among them; 9 sizes that are asked for equally often need 3, 19 of them
#: 6.
FEW_SIZES = 4

#: Standard errors by which each size comes more or less often in the mixes whose prices are averaged.
#: With 2 an oracle leaves 0.5 points more idle on openb's default list before the pool is full.
HEDGE_ERRORS = 1.0

#: Percent; above the error of a size that was counted four times.
_MOST_HEDGED_PCT = 50

#: Mixes; for each there is one more in which every size deviates the other way.
_HEDGES = 2

#: So many times 1/MOST_SIZES of the compute asked for gives a size a price of its own.
_STANDS_OUT = 1.5

_TINY = 1e-9


class PartialCardValues:
    """`worth` per kind of node and free milli-devices of a card, in milli-devices.

    Args:
        classes: The expected classes.
        kinds: The kinds of nodes.
        times: The weight of these values beside the value of the node.
        known: The number of claims that the frequencies were counted from. If None, the prices
            ignore the error of the frequencies.
    """

    def __init__(
        self, classes: DemandClasses, kinds: NodeKinds, times: float, known: float | None = None
    ) -> None:
        shares, sizes, of, asked = _collect_shares(classes)
        mix = tuple(sizes.tolist()), tuple(asked.tolist())
        found = price_shares(*mix) if known is None else hedge_prices(*mix, known)
        prices = np.array(found, dtype=np.int64)
        runs = np.zeros((len(sizes), len(kinds)), dtype=np.bool_)
        np.logical_or.at(runs, of, kinds.find_allowed(shares.models))
        self.worth = np.zeros((len(kinds), WHOLE + 1), dtype=np.int64)
        for kind in range(len(kinds)):
            here = runs[:, kind]
            packed = np.minimum(solve_knapsack(sizes[here].tolist(), prices[here].tolist()), _FINE)
            # A free card is worth a whole card, even where shares could use less of it.
            packed[WHOLE] = _FINE
            # Rounded once, here: the library and NumPy read the same integers.
            self.worth[kind] = (int(times * WHOLE) * packed + _FINE // 2) // _FINE
        self._least: dict[int, Ints] = {}

    def compute_least_loss(self, shape: Shape) -> Ints:
        """Return per kind of node the least value that the cards of the shape lose.

        It is the loss if the shape takes the part from which it is cut best.
        """
        milli = shape.held_milli
        if milli not in self._least:
            self._least[milli] = (self.worth[:, milli:] - self.worth[:, : WHOLE + 1 - milli]).min(
                axis=1
            )
        found: Ints = shape.count * self._least[milli]
        return found


def is_scattered(classes: DemandClasses) -> bool:
    """Return whether shares have many sizes: FEW_SIZES sizes hold less than half of their compute."""
    _, sizes, _, asked = _collect_shares(classes)
    most_first = np.sort(sizes * asked)[::-1]
    return bool(2 * most_first[:FEW_SIZES].sum() < most_first.sum())


def compute_mean_share(classes: DemandClasses) -> int:
    """Return the mean share in milli-devices, 0 if there are no shares."""
    _, sizes, _, asked = _collect_shares(classes)
    return int(sizes @ asked) // int(asked.sum()) if len(sizes) else 0


def _collect_shares(classes: DemandClasses) -> tuple[DemandClasses, Ints, Ints, Ints]:
    """Return share classes, distinct sizes, the size of each class, and requests per size."""
    shares = classes.select((classes.count > 0) & (classes.milli < WHOLE))
    sizes, of = np.unique(shares.milli, return_inverse=True)
    asked = np.bincount(of, weights=shares.weight * shares.count, minlength=len(sizes)).astype(
        np.int64
    )
    return shares, sizes, of, asked


@lru_cache(maxsize=16)
def price_shares(sizes: tuple[int, ...], asked: tuple[int, ...]) -> tuple[int, ...]:
    """Return what each share uses up of a card, in parts of `_FINE`.

    At these prices no pattern of shares on one card costs more than the card, and all shares
    together cost nearly as many cards as they need at least. A group of sizes costs what its
    smallest size does: what fits at the real sizes fits at the smallest, so no card costs more
    either. If no size stands out, the scaled price of the group's mean orders parts better: 0.1 to
    0.15 points more allocated with 99 and 199 sizes.

    Args:
        sizes: Different sizes in milli-devices, ascending.
        asked: How often each size is asked for.
    """
    if len(sizes) <= MOST_SIZES:
        return _generate_prices(sizes, asked)
    group, some_stand_out = _group_sizes(np.array(sizes), np.array(asked))
    many = np.bincount(group, weights=asked)
    if some_stand_out:
        stands_for = np.array(sizes)[np.unique(group, return_index=True)[1]]
    else:
        stands_for = np.rint(
            np.bincount(group, weights=np.array(asked) * np.array(sizes)) / many
        ).astype(np.int64)
    different, which = np.unique(stands_for, return_inverse=True)
    together = np.bincount(which, weights=many).astype(np.int64)
    of_groups = np.array(
        _generate_prices(tuple(different.tolist()), tuple(together.tolist())), dtype=np.int64
    )
    prices = of_groups[which][group].tolist()
    return _scale_prices(prices, int(solve_knapsack(sizes, prices)[WHOLE]))


@lru_cache(maxsize=16)
def hedge_prices(sizes: tuple[int, ...], asked: tuple[int, ...], known: float) -> tuple[int, ...]:
    """Return the mean of the prices for mixes near this one; it is feasible as each of them is.

    Prices jump with the mix: if 100 and 900 come about equally often, a difference of two claims
    changes them by a fifth of a card. A mix that was counted from `known` claims has an error, and
    prices must not follow it.
    """
    counted = np.array(asked, dtype=np.int64)
    # A count of n has a standard error of sqrt(n): in percent 100 / sqrt(n).
    seen = np.maximum(counted * (known / max(1, int(counted.sum()))), 1.0)
    error_pct = np.rint(100 * HEDGE_ERRORS / np.sqrt(seen)).astype(np.int64)
    hedge_pct = np.minimum(error_pct, _MOST_HEDGED_PCT)
    numbers = generate_numbers(_HEDGES * len(sizes)) >> np.uint64(40)
    signs = np.where(numbers & np.uint64(1), 1, -1).reshape(_HEDGES, len(sizes))
    total = np.zeros(len(sizes), dtype=np.int64)
    for deviation in np.concatenate((signs, -signs)):
        mix = counted * (100 + hedge_pct * deviation)
        # The mean of feasible prices is feasible: feasibility is a set of linear inequalities.
        total += np.array(price_shares(sizes, tuple(mix.tolist())), dtype=np.int64)
    return tuple((total // (2 * _HEDGES)).tolist())


def _group_sizes(sizes: Ints, asked: Ints) -> tuple[Ints, bool]:
    """Return the group of each size, about MOST_SIZES in all, and whether any size stands out.

    A size that stands out is a group of its own and ends the group before it. The other groups have
    equal compute.
    """
    compute = sizes * asked
    own = compute * MOST_SIZES >= _STANDS_OUT * compute.sum()
    rest = np.where(own, 0, compute)
    parts = max(1, MOST_SIZES - int(own.sum()))
    part = (2 * np.cumsum(rest) - rest) * parts // max(1, 2 * int(rest.sum()) + 1)
    between = 2 * np.cumsum(own) - own
    _, group = np.unique(np.where(own, 0, part) + between * (parts + 1), return_inverse=True)
    return group.reshape(-1), bool(own.any())


def _generate_prices(sizes: tuple[int, ...], asked: tuple[int, ...]) -> tuple[int, ...]:
    """Return prices by column generation.

    Of all prices that the iteration met, scaled to be feasible, those with the highest lower bound
    of the number of cards are returned.
    """
    if not sizes:
        return ()
    most = WHOLE // np.array(sizes)
    # The first basis: each pattern cuts one size alone, as often as it fits on a card.
    inverse: Floats = np.diag(1.0 / most)
    level = np.array(asked) / most
    best = (0,) * len(sizes)
    needed = -1
    for _ in range(_MOST_STEPS):
        prices = _compute_prices(inverse)
        pattern = _find_dearest_pattern(sizes, prices)
        costs = int(pattern @ np.array(prices))
        # Farley's bound: let z be the cost of the dearest pattern. Prices / z are dual feasible, so
        # by weak duality no solution needs fewer cards than they charge.
        feasible = _scale_prices(prices, costs)
        bound = sum(price * number for price, number in zip(feasible, asked, strict=True))
        if bound > needed:
            best = feasible
            needed = bound
        # No pattern costs more than a card: optimal, but for rounding by less than one unit per
        # size.
        if costs <= _FINE + len(sizes):
            break
        # `level.sum()` is the number of cards in use, an upper bound; `needed` is the lower one.
        if needed >= _NEAR_ENOUGH * _FINE * float(level.sum()):
            break
        # In exact numbers some line of the column is positive; where rounding left none, these
        # prices have to do.
        column = (inverse * pattern).sum(axis=1)
        if column.max() <= _TINY:
            break
        inverse, level = _pivot_basis(inverse, level, column)
    return best


def _scale_prices(prices: Sequence[int], dearest: int) -> tuple[int, ...]:
    """Return the prices divided by the cost of the most expensive pattern, if that exceeds a card."""
    if dearest <= _FINE:
        return tuple(prices)
    return tuple(price * _FINE // dearest for price in prices)


def solve_knapsack(sizes: Sequence[int], prices: Sequence[int]) -> Ints:
    """Return by room from 0 to a whole card the highest cost of shares that fit, each any number of
    times.

    Each size is added in powers of two, so one pass per power replaces a loop over counts.
    """
    best = np.zeros(WHOLE + 1, dtype=np.int64)
    for size, price in zip(sizes, prices, strict=True):
        while size <= WHOLE:
            best[size:] = np.maximum(best[size:], best[:-size] + price)
            # 1, 2, 4, ... copies as single items reach every count.
            size, price = 2 * size, 2 * price
    return best


def _find_dearest_pattern(sizes: Sequence[int], prices: Sequence[int]) -> Ints:
    """Return how often each share occurs in the most expensive pattern."""
    best = solve_knapsack(sizes, prices).tolist()
    room = WHOLE
    pattern = np.zeros(len(sizes), dtype=np.int64)
    number = 0
    while number < len(sizes):
        left = room - sizes[number]
        # Prices are integers, so equality tells whether this size is in an optimal pattern. The
        # smallest sizes are tried first, which makes the pattern deterministic.
        if left >= 0 and prices[number] > 0 and best[left] + prices[number] == best[room]:
            pattern[number] += 1
            room = left
        else:
            number += 1
    return pattern


def _pivot_basis(inverse: Floats, level: Floats, column: Floats) -> tuple[Floats, Floats]:
    """Return the basis in which the pattern of that column replaces the one that is used up first."""
    # The ratio test of the simplex method: the pattern whose level first falls to 0 leaves the
    # basis.
    allowed = np.where(column > _TINY, level / np.maximum(column, _TINY), np.inf)
    row = int(np.argmin(allowed))
    unit = inverse[row] / column[row]
    step = level[row] / column[row]
    inverse, level = inverse - column[:, None] * unit, level - column * step
    inverse[row] = unit
    level[row] = step
    return inverse, np.maximum(level, 0.0)


def _compute_prices(inverse: Floats) -> tuple[int, ...]:
    """Return prices at which each pattern of the basis costs one card."""
    return tuple(np.maximum(np.rint(_FINE * inverse.sum(axis=0)), 0).astype(np.int64).tolist())
