"""Measures how even numbers are."""

from __future__ import annotations

from collections.abc import Sequence


def compute_jain_index(values: Sequence[float]) -> float:
    """Return Jain's index of fairness: 1.0 when all are equal, 1/n when one has everything.

    R. Jain, D. Chiu, W. Hawe, DEC Research Report TR-301 (1984).
    """
    # All zero is even, and has no ratio.
    squares = sum(value * value for value in values)
    return 1.0 if not squares else sum(values) ** 2 / (len(values) * squares)
