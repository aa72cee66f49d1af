"""Partitions: the node, the card and the place whose cut leaves the most that others could still be cut into.

Beside the placement policies, which know shares and whole cards: whatever the policy of a pool is, its cards in
partition mode are cut by this rule. What a cut loses is counted in milli-devices, over the profiles as often as they
were asked for (`partitions.value`); the loss of a claim is that of all its cards.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from gpupool.model.partition import Placement as Place
from gpupool.scheduling.feasible import Fit
from gpupool.scheduling.free import Free
from gpupool.scheduling.partitions import Pieces, Profiles, best_cut
from gpupool.scheduling.policy import Unmoved, fitting_rows
from gpupool.scheduling.snapshot import Cards, Expected, Ints

UNSEEN = 0.01
"""What a profile counts that nobody has asked for, of all that was asked for: it is worth little, and not nothing."""

_GRAIN = 1000
"""Losses are compared in thousandths of a milli-device."""

_REMEMBERED = 1 << 15


class Cuts(Unmoved):
    """At work on one pool, for claims to partitions alone."""

    NODE, CARD = "least broken up", "least broken up"

    def __init__(self, free: Free, expected: Expected) -> None:
        self._free, self._wanted = free, wanted(free.cards, expected)
        self._known: dict[tuple[Profiles, Pieces, str], tuple[Place, int] | None] = {}

    def rate(self, fit: Fit, nodes: Ints) -> Ints:
        losses = (self._losses(fit, int(node)) for node in nodes)
        least = (-int(np.sort(lost)[: fit.shape.count].sum()) for lost in losses)
        return np.fromiter(least, dtype=np.int64, count=len(nodes))

    def choose(self, fit: Fit, node: int) -> Ints:
        """Rows of the node's fitting cards, the one that loses least first, then by index."""
        return fitting_rows(self._free, fit, node)[np.argsort(self._losses(fit, node), kind="stable")]

    def places(self, profile: str, rows: Ints) -> tuple[Place, ...]:
        """Which piece of each of these cards to take; each of them has one."""
        found = [self._best(int(row), profile) for row in rows]
        return tuple(best[0] for best in found if best is not None)

    def _losses(self, fit: Fit, node: int) -> Ints:
        rows, profile = fitting_rows(self._free, fit, node), fit.shape.profile or ""
        found = [self._best(int(row), profile) for row in rows]
        return np.array([best[1] for best in found if best is not None], dtype=np.int64)

    def _best(self, row: int, profile: str) -> tuple[Place, int] | None:
        cut = self._free.cuts[row]
        key = cut.profiles, cut.taken, profile
        if key not in self._known:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            found = best_cut(cut.profiles, cut.taken, profile, self._wanted)
            self._known[key] = found and (found[0], round(found[1] * _GRAIN))
        return self._known[key]


def wanted(cards: Cards, expected: Expected) -> dict[str, float] | None:
    """By profile, how often it is asked for; None where nothing is known, so that all count alike."""
    asked: dict[str, float] = defaultdict(float)
    for shape, count in zip(expected.shapes, expected.counts, strict=True):
        if shape.profile is not None:
            asked[shape.profile] += count * shape.count
    if not asked:
        return None
    unseen = UNSEEN * sum(asked.values())
    published = dict.fromkeys(profile.name for cut in cards.cuts.values() for profile in cut.profiles)
    return {name: asked.get(name, 0.0) + unseen for name in published}
