"""The order of nodes that breaks ties between equal scores."""

from __future__ import annotations

import numpy as np

from gpupool.scheduling.snapshot.columns import Ints


def build_mixed_order(nodes: int) -> Ints:
    """Return a fixed pseudo-random order of nodes (splitmix64 of each node's number)."""
    mixed = (np.arange(nodes, dtype=np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.argsort(mixed ^ (mixed >> np.uint64(31)), kind="stable")
