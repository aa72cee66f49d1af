"""What a claim would add to the price of the nodes in use: a term of a score.

A node's price is a label, per hour and in any one currency. A node that holds nothing need not be paid for (it can be
switched off, or given back to a cloud): the claim that opens it pays all of its price. On a node in use a claim pays
for the part that it takes, so that cheap nodes fill before dear ones. Docs: docs/decisions/0031-power-and-price.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation

import numpy as np

from gpupool.base.units import WHOLE
from gpupool.scheduling.feasible import Fit
from gpupool.scheduling.free import Free
from gpupool.scheduling.snapshot import Bools, Ints

LABEL = "gpupool.dev/price-per-hour"
"""Of a node: a decimal number, as `24.50`."""

MICRO = 1_000_000
_HIGHEST = Decimal(10) ** 6


class PriceTerm:
    """In millionths of the currency per hour. `unit` is what the mean card costs, with its part of the node."""

    WORD = "cheapest"
    PART, PART_UNIT = "price", MICRO

    def __init__(self, free: Free) -> None:
        self._free = free
        self._cards = free.count_by_node(np.ones(len(free.cards), dtype=np.bool_))
        self.price = prices_of(free.cards.node_labels)
        cards = int(self._cards.sum())
        self.unit = max(1, int(self.price.sum()) // max(1, cards))

    def cost(self, fit: Fit, nodes: Ints) -> Ints:
        """What the claim adds to the price of these nodes."""
        price = self.price[nodes]
        part: Ints = price * self._asked(fit, nodes) // WHOLE
        return np.where(self._in_use(nodes), part, price)

    def of_pool(self) -> int:
        """The price of all nodes in use."""
        nodes = np.arange(len(self.price))
        return int(self.price[self._in_use(nodes)].sum())

    def _asked(self, fit: Fit, nodes: Ints) -> Ints:
        """What the claim takes of a node, in thousandths: of its cards' compute or its processors, what is more."""
        shape, hosts = fit.shape, self._free.cards.hosts
        asked: Ints = shape.held_milli * shape.count // np.maximum(self._cards[nodes], 1)
        if hosts is not None:
            cpu = shape.cpu_milli * WHOLE // np.maximum(hosts.cpu_milli[nodes], 1)
            asked = np.maximum(asked, cpu)
        return np.minimum(asked, WHOLE)

    def _in_use(self, nodes: Ints) -> Bools:
        rows, there = self._free.seats(nodes)
        used: Bools = (~self._free.untouched(rows) & self._free.open[rows] & there).any(axis=1)
        hosts = self._free.cards.hosts
        if hosts is not None:
            used |= self._free.cpu_milli[nodes] < hosts.cpu_milli[nodes]
        return used


def prices_of(labels: tuple[Mapping[str, str], ...]) -> Ints:
    """Millionths per hour by node. Without a (legible) price it is the mean of the others, 0 if none has one.

    >>> prices_of(({LABEL: "2.5"}, {}, {LABEL: "1"})).tolist()
    [2500000, 1750000, 1000000]
    """
    known = [_price(one.get(LABEL)) for one in labels]
    given = [price for price in known if price is not None]
    mean = sum(given) // len(given) if given else 0
    return np.array([mean if price is None else price for price in known], dtype=np.int64)


def _price(text: str | None) -> int | None:
    try:
        price = Decimal(text or "")
    except InvalidOperation:
        return None
    return int(price * MICRO) if price.is_finite() and 0 <= price <= _HIGHEST else None
