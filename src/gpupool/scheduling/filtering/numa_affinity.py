"""Prefer cards whose NUMA node has enough free processors and memory for the claim.

This orders the cards of a chosen node. What the near NUMA nodes lack comes from other NUMA nodes.
If the claim requires one NUMA node, the preference becomes a condition on cards, processors and
memory together. Claims that ask for cards alone are not affected. `scoring/topology` handles claims
that require links between cards.
"""

from __future__ import annotations

import numpy as np

from gpupool.model.claim import Shape
from gpupool.model.topology import LinkKind
from gpupool.scheduling.filtering.feasibility import FITS, ClaimFit
from gpupool.scheduling.filtering.free_capacity import UNLIMITED, FreeCapacity
from gpupool.scheduling.filtering.numa_capacity import NumaCapacity
from gpupool.scheduling.snapshot.columns import Bools, Ints


def is_numa_relevant(free: FreeCapacity, shape: Shape) -> bool:
    """Return whether NUMA nodes influence which cards the shape gets."""
    return len(free.numa) > 0 and bool(shape.cpu_milli or shape.host_bytes)


def is_numa_required(shape: Shape) -> bool:
    """Return whether cards, processors and memory must come from one NUMA node."""
    return shape.within.required == LinkKind.NUMA and bool(shape.cpu_milli or shape.host_bytes)


def count_claims_by_node(fit: ClaimFit, free: FreeCapacity, usable: Bools) -> Ints:
    """Return per node an upper bound of claims that each get a NUMA node of their own.

    A node that reports no NUMA nodes counts 0: it never meets a condition on them.

    Args:
        fit: The filter's result for the shape.
        free: What is free.
        usable: Mask of the cards that may be used.
    """
    numa = free.numa
    cards = count_cards_by_numa(numa, usable & (fit.why == FITS))
    found = np.where(cards >= fit.shape.count, UNLIMITED, 0)
    if fit.shape.is_whole:
        found = cards // fit.shape.count
    for asked, column in (
        (fit.shape.cpu_milli, numa.cpu_milli),
        (fit.shape.host_bytes, numa.host_bytes),
    ):
        if asked:
            found = np.minimum(found, np.maximum(column, 0) // asked)
    return np.bincount(numa.known.node, weights=found, minlength=len(free.cards.nodes)).astype(
        np.int64
    )


def find_sufficient_cards(fit: ClaimFit, free: FreeCapacity) -> Bools:
    """Return a mask of the cards whose NUMA node has all processors and memory of the shape.

    A card of unknown NUMA node is not selected.
    """
    numa = free.numa
    shape = fit.shape
    enough = (numa.cpu_milli >= shape.cpu_milli) & (numa.host_bytes >= shape.host_bytes)
    # Entry -1 of an unknown NUMA node reads the appended last value.
    has: Bools = np.append(enough, False)[numa.of_card]
    return has


def compute_shortfall(numa: NumaCapacity, shape: Shape, rows: Ints) -> int:
    """Return how much of the claim the NUMA nodes of these cards lack, in thousandths.

    The result is 0 if no NUMA node of the cards is known.
    """
    near = np.unique(numa.of_card[rows])
    near = near[near >= 0]
    if not len(near):
        return 0
    asked = (shape.cpu_milli, numa.cpu_milli), (shape.host_bytes, numa.host_bytes)
    shortfall = 0
    for amount, column in asked:
        if amount:
            lack = amount - int(np.maximum(column[near], 0).sum())
            # Rounded up: a shortfall of one byte must not count as none.
            shortfall = max(shortfall, -(-1000 * lack // amount))
    return shortfall


def order_by_numa_affinity(free: FreeCapacity, fit: ClaimFit, rows: Ints) -> Ints:
    """Reorder a node's cards so that the NUMA node that lacks least comes first.

    Args:
        free: What is free.
        fit: The filter's result for the shape.
        rows: The node's cards in the order of the policy.

    Returns:
        All rows, reordered. If the claim requires one NUMA node, only the cards of one that has
        everything, or no rows.
    """
    numa = free.numa
    count = fit.shape.count
    if not is_numa_relevant(free, fit.shape) or not len(rows):
        return rows[:0] if is_numa_required(fit.shape) else rows
    of = numa.of_card[rows]
    groups = list[Ints]()
    # In the policy's order of cards, so that equal NUMA nodes keep that order.
    for entry in dict.fromkeys(of[of >= 0].tolist()):
        group = rows[of == entry]
        if len(group) >= count:
            groups.append(group)
    if is_numa_required(fit.shape):
        return next(
            (group for group in groups if not compute_shortfall(numa, fit.shape, group)), rows[:0]
        )
    # `rows` first: where no NUMA node is better, the policy's order stays.
    best = min([rows, *groups], key=lambda group: compute_shortfall(numa, fit.shape, group[:count]))
    return np.concatenate((best, rows[~np.isin(rows, best)]))


def count_cards_by_numa(numa: NumaCapacity, chosen: Bools) -> Ints:
    """Return per NUMA node how many of its cards the mask selects."""
    of = numa.of_card[chosen]
    return np.bincount(of[of >= 0], minlength=len(numa.cpu_milli))
