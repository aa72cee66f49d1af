"""Compares two accounts of one job's GPU time: the driver's, summed from samples, and the
fence's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Look:
    """Both accounts at one moment; all three in nanoseconds, each since a start of its own."""

    at_ns: int
    driver_ns: int
    fence_ns: int


def points_apart(looks: Sequence[Look]) -> float:
    """By how many points of the card the driver's account is above the fence's, from the first look
    to the last.

    Raises ValueError where no time passed.
    """
    first, last = looks[0], looks[-1]
    lasted = last.at_ns - first.at_ns
    if lasted <= 0:
        raise ValueError(
            f"two looks at different times are needed: got {len(looks)} over {lasted} ns"
        )
    driver, fence = last.driver_ns - first.driver_ns, last.fence_ns - first.fence_ns
    return 100 * (driver - fence) / lasted
