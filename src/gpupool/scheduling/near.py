"""Cards whose NUMA node has the processors and the main memory that a claim asks for.

A preference between cards of a node that was chosen already: what the near NUMA nodes lack comes from the others. With
`numa` required it is a condition, on cards, processors and memory together, and says which nodes a claim can go to.
Claims that ask for cards alone are none of its business; those that must be near by their links are `score_topology`'s.
"""

from __future__ import annotations

import numpy as np

from gpupool.model.claim import Shape
from gpupool.model.topology import LinkKind
from gpupool.scheduling.feasible import FITS, Fit
from gpupool.scheduling.free import UNLIMITED, Free
from gpupool.scheduling.numa import Numa
from gpupool.scheduling.snapshot import Bools, Ints


def concerns(free: Free, shape: Shape) -> bool:
    """Whether NUMA nodes have a say in which cards such a claim gets."""
    return len(free.numa) > 0 and bool(shape.cpu_milli or shape.host_bytes)


def required(shape: Shape) -> bool:
    """Cards, processors and memory have to come from one NUMA node."""
    return shape.within.required == LinkKind.NUMA and bool(shape.cpu_milli or shape.host_bytes)


def copies(fit: Fit, free: Free, usable: Bools) -> Ints:
    """Per node, at most how many claims of the shape have each one NUMA node of their own, among these cards.

    0 where nothing is known of the NUMA nodes: a node that does not say can never meet a condition on them.
    """
    numa = free.numa
    cards = cards_by_numa(numa, usable & (fit.why == FITS))
    found = np.where(cards >= fit.shape.count, UNLIMITED, 0)
    if fit.shape.whole:
        found = cards // fit.shape.count
    for asked, column in ((fit.shape.cpu_milli, numa.cpu_milli), (fit.shape.host_bytes, numa.host_bytes)):
        if asked:
            found = np.minimum(found, np.maximum(column, 0) // asked)
    return np.bincount(numa.known.node, weights=found, minlength=len(free.cards.nodes)).astype(np.int64)


def cards(fit: Fit, free: Free) -> Bools:
    """Cards whose NUMA node has all the processors and the memory that the shape asks for; none where nobody knows."""
    numa, shape = free.numa, fit.shape
    enough = (numa.cpu_milli >= shape.cpu_milli) & (numa.host_bytes >= shape.host_bytes)
    has: Bools = np.append(enough, False)[numa.of_card]  # the last for those of unknown NUMA node
    return has


def far(numa: Numa, shape: Shape, rows: Ints) -> int:
    """How much of what is asked for the NUMA nodes of these cards lack, in thousandths; 0 where none is known."""
    near = np.unique(numa.of_card[rows])
    near = near[near >= 0]
    if not len(near):
        return 0
    asked = (shape.cpu_milli, numa.cpu_milli), (shape.host_bytes, numa.host_bytes)
    lacking = [(amount - int(np.maximum(column[near], 0).sum()), amount) for amount, column in asked if amount]
    return max(0, *(-(-1000 * lack // amount) for lack, amount in lacking))


def order(free: Free, fit: Fit, rows: Ints) -> Ints:
    """The policy's order of a node's cards with the cards of that NUMA node first that lacks least, if any lacks less.

    Where the claim requires one NUMA node, these are all; none where no NUMA node has everything.
    """
    numa, count = free.numa, fit.shape.count
    if not concerns(free, fit.shape) or not len(rows):
        return rows[:0] if required(fit.shape) else rows
    of = numa.of_card[rows]
    groups = [rows[of == entry] for entry in dict.fromkeys(of[of >= 0].tolist())]
    groups = [group for group in groups if len(group) >= count]
    if required(fit.shape):
        return next((group for group in groups if not far(numa, fit.shape, group)), rows[:0])
    best = min([rows, *groups], key=lambda group: far(numa, fit.shape, group[:count]))
    return np.concatenate((best, rows[~np.isin(rows, best)]))


def cards_by_numa(numa: Numa, chosen: Bools) -> Ints:
    """Per entry how many of its cards are chosen."""
    of = numa.of_card[chosen]
    return np.bincount(of[of >= 0], minlength=len(numa.cpu_milli))
