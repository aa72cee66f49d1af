"""Pseudo-random numbers that are the same on every machine."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_SEED = 12345


def generate_numbers(count: int) -> npt.NDArray[np.uint64]:
    """Return the first numbers of splitmix64 (Steele, Lea and Flood, 2014)."""
    numbers = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    numbers += np.uint64(_SEED)
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))
