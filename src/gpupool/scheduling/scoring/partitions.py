"""The rule for partitions: the node, card and slot that keep the most useful slots free.

This rule places partitions whatever the policy of the pool is; policies place shares and whole
cards. A loss is counted in milli-devices, with profiles weighted by how often they are asked for
(`filtering/partition_fit`). The loss of a claim is the sum over its cards.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from gpupool.model.partition import PartitionSlot
from gpupool.scheduling.filtering.feasibility import ClaimFit
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.filtering.partition_fit import Pieces, Profiles, choose_slot
from gpupool.scheduling.scoring.policy import StatelessRater, find_fitting_rows
from gpupool.scheduling.snapshot.cards import CardTable
from gpupool.scheduling.snapshot.claims import ExpectedDemand
from gpupool.scheduling.snapshot.columns import Ints

#: The weight of a profile that no claim asked for, as a part of all requests: small, but not 0.
UNSEEN = 0.01

#: Losses are compared in thousandths of a milli-device.
_GRAIN = 1000

_REMEMBERED = 1 << 15


class PartitionRater(StatelessRater):
    """The rule at work on one pool, for claims to partitions only."""

    NODE_WORD = "least broken up"
    CARD_WORD = "least broken up"

    def __init__(self, free: FreeCapacity, expected: ExpectedDemand) -> None:
        self._free = free
        self._wanted = weigh_profiles(free.cards, expected)
        self._known: dict[tuple[Profiles, Pieces, str], tuple[PartitionSlot, int] | None] = {}

    def rate_nodes(self, fit: ClaimFit, nodes: Ints) -> Ints:
        losses = (self._compute_losses(fit, int(node)) for node in nodes)
        least = (-int(np.sort(lost)[: fit.shape.count].sum()) for lost in losses)
        return np.fromiter(least, dtype=np.int64, count=len(nodes))

    def order_cards(self, fit: ClaimFit, node: int) -> Ints:
        """Return the rows of the node's fitting cards, smallest loss first, then by index."""
        return find_fitting_rows(self._free, fit, node)[
            np.argsort(self._compute_losses(fit, node), kind="stable")
        ]

    def choose_slots(self, profile: str, rows: Ints) -> tuple[PartitionSlot, ...]:
        """Return a slot on each of these cards; each of them has one."""
        found = [self._find_best(int(row), profile) for row in rows]
        return tuple(best[0] for best in found if best is not None)

    def _compute_losses(self, fit: ClaimFit, node: int) -> Ints:
        rows = find_fitting_rows(self._free, fit, node)
        profile = fit.shape.profile or ""
        found = [self._find_best(int(row), profile) for row in rows]
        return np.array([best[1] for best in found if best is not None], dtype=np.int64)

    def _find_best(self, row: int, profile: str) -> tuple[PartitionSlot, int] | None:
        cut = self._free.layouts[row]
        key = cut.profiles, cut.slots, profile
        if key not in self._known:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            found = choose_slot(cut.profiles, cut.slots, profile, self._wanted)
            self._known[key] = found and (found[0], round(found[1] * _GRAIN))
        return self._known[key]


def weigh_profiles(cards: CardTable, expected: ExpectedDemand) -> dict[str, float] | None:
    """Return a weight per profile by how often it is expected; None if no partition is expected."""
    asked: dict[str, float] = defaultdict(float)
    for shape, count in zip(expected.shapes, expected.counts, strict=True):
        if shape.profile is not None:
            asked[shape.profile] += count * shape.count
    if not asked:
        return None
    # Without it a profile that nobody asked for yet would be cut to pieces for nothing.
    unseen = UNSEEN * sum(asked.values())
    weights = dict[str, float]()
    for cut in cards.layouts.values():
        for profile in cut.profiles:
            weights[profile.name] = asked.get(profile.name, 0.0) + unseen
    return weights
