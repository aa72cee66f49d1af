"""A pool of three nodes, and how a policy scores claims on it."""

from __future__ import annotations

import numpy as np

from gpupool.base.units import GIB
from gpupool.model.claim import Shape
from gpupool.scheduling.filtering.feasibility import ClaimFit
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.scoring.policy import PlacementPolicy
from gpupool.scheduling.snapshot.claims import ExpectedDemand
from tests.support.scheduling_builders import cards

PAIR, BARE = Shape(1000, 0, 2, cpu_milli=8000), Shape(0, 0, 0, cpu_milli=8000)


USED = {"node-1/0": (600, 0), "node-2/0": (1000, 0), "node-2/1": (250, 0)}


def free_pool() -> FreeCapacity:
    """Three nodes of four cards: 3400, 2750 and 4000 of them free; 64, 32 and 64 cores."""
    free = FreeCapacity(cards("3x4xT4", used=USED, hosts=(64_000, GIB)))
    free.set_hosts(np.array([1]), np.array([32_000]), np.array([GIB]))
    return free


def scores(policy: PlacementPolicy, shape: Shape, free: FreeCapacity | None = None) -> list[int]:
    free = free or free_pool()
    rater = policy.start_rater(free, ExpectedDemand(), 42)
    found: list[int] = rater.normalize_scores(
        rater.rate_nodes(ClaimFit(shape, free), np.arange(3))
    ).tolist()
    return found


SHARE = Shape(300, 0, cpu_milli=8000)
