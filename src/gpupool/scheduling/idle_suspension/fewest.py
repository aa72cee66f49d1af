"""The fewest of an ordered list that suffice for something."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence

#: Whether these suffice. More of them never suffice less.
Suffices = Callable[[Sequence[str]], bool]


def find_prefix(names: Sequence[str], suffices: Suffices) -> list[str] | None:
    """Find the shortest beginning of the list that suffices; None if all together do not."""
    enough = bisect_left(range(len(names) + 1), True, key=lambda count: suffices(names[:count]))
    return list(names[:enough]) if enough <= len(names) else None


def drop_unneeded(chosen: Sequence[str], suffices: Suffices) -> list[str]:
    """Drop those without which the others suffice too, the last first."""
    kept = list(chosen)
    for name in reversed(chosen):
        fewer = [other for other in kept if other != name]
        if suffices(fewer):
            kept = fewer
    return kept
