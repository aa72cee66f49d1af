"""The price that a claim adds to the nodes in use, as a term of a score.

A label holds the price of a node per hour, in any single currency. An empty node costs nothing,
because it can be switched off or returned to a cloud. The claim that starts using a node pays its
full price. On a node in use a claim pays for the part that it takes, so cheap nodes fill before
expensive ones. See docs/decisions/0031-power-and-price.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation

import numpy as np

from gpupool.base.units import WHOLE
from gpupool.scheduling.filtering.feasibility import ClaimFit
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.snapshot.columns import Bools, Ints

#: Of a node: a decimal number, as `24.50`.
LABEL = "gpupool.dev/price-per-hour"

#: Millionths in one unit of the currency.
MICRO = 1_000_000
#: A higher price is taken for a typing error; sums of prices then stay within 64 bits.
_HIGHEST = Decimal(10) ** 6


class PriceTerm:
    """Added price in millionths of the currency per hour.

    `unit` is the price of the mean card with its part of the node.
    """

    WORD = "cheapest"
    PART = "price"
    PART_UNIT = MICRO

    def __init__(self, free: FreeCapacity) -> None:
        self._free = free
        self._cards = free.count_cards_by_node(np.ones(len(free.cards), dtype=np.bool_))
        self.price = read_prices(free.cards.node_labels)
        cards = int(self._cards.sum())
        self.unit = max(1, int(self.price.sum()) // max(1, cards))

    def compute_cost(self, fit: ClaimFit, nodes: Ints) -> Ints:
        """Return what the claim adds to the price of each node."""
        price = self.price[nodes]
        part: Ints = price * self._compute_asked_part(fit, nodes) // WHOLE
        # A node that holds nothing need not be paid for, so the claim that opens it pays all of it.
        return np.where(self._is_in_use(nodes), part, price)

    def compute_pool_price(self) -> int:
        """Return the price of all nodes in use."""
        nodes = np.arange(len(self.price))
        return int(self.price[self._is_in_use(nodes)].sum())

    def _compute_asked_part(self, fit: ClaimFit, nodes: Ints) -> Ints:
        """Return the part of a node that the claim takes, in thousandths.

        It is the larger of the part of its cards' compute and the part of its processors.
        """
        shape = fit.shape
        hosts = self._free.cards.hosts
        asked: Ints = shape.held_milli * shape.count // np.maximum(self._cards[nodes], 1)
        if hosts is not None:
            cpu = shape.cpu_milli * WHOLE // np.maximum(hosts.cpu_milli[nodes], 1)
            asked = np.maximum(asked, cpu)
        return np.minimum(asked, WHOLE)

    def _is_in_use(self, nodes: Ints) -> Bools:
        rows, there = self._free.get_row_table(nodes)
        used: Bools = (~self._free.is_untouched(rows) & self._free.open[rows] & there).any(axis=1)
        hosts = self._free.cards.hosts
        if hosts is not None:
            used |= self._free.cpu_milli[nodes] < hosts.cpu_milli[nodes]
        return used


def read_prices(labels: tuple[Mapping[str, str], ...]) -> Ints:
    """Return the price of each node in millionths per hour.

    A node without a valid price gets the mean of the others, or 0 if no node has one.

    >>> read_prices(({LABEL: "2.5"}, {}, {LABEL: "1"})).tolist()
    [2500000, 1750000, 1000000]
    """
    known = [_read_price(one.get(LABEL)) for one in labels]
    given = [price for price in known if price is not None]
    mean = sum(given) // len(given) if given else 0
    return np.array([mean if price is None else price for price in known], dtype=np.int64)


def _read_price(text: str | None) -> int | None:
    try:
        # Decimal and not float: the label is text, and 0.1 has no exact float.
        price = Decimal(text or "")
    except InvalidOperation:
        return None
    return int(price * MICRO) if price.is_finite() and 0 <= price <= _HIGHEST else None
