"""What the pool could still give: by card for `gpus`, by model for those who choose.

Numbers only, from the same columns that claims are placed with.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpupool.base.units import MIB
from gpupool.scheduling.free import Free
from gpupool.scheduling.snapshot import Bools, Cards, Ints


@dataclass(frozen=True)
class Room:
    """Of one model: the largest share that one card can take now, and how many cards are wholly free."""

    model: str
    gpu_milli: int
    memory_bytes: int
    whole_free: int
    cards: int


def placeable(cards: Cards) -> tuple[Ints, Ints]:
    """Per card the largest (milli, bytes in whole MiB) that one share can get now; 0 unless it is open."""
    free = Free(cards)
    milli, size = np.where(free.open, free.milli, 0), np.where(free.open, free.size, 0)
    return np.maximum(milli, 0), np.maximum(size, 0) // MIB * MIB


def largest_placeable(cards: Cards) -> tuple[Room, ...]:
    """By model, in the order of the snapshot: the share of the card with most compute free, then most memory."""
    milli, size = placeable(cards)
    whole = Free(cards).untouched()
    return tuple(_room(cards, int(model), milli, size, whole) for model in np.unique(cards.model))


def _room(cards: Cards, model: int, milli: Ints, size: Ints, whole: Bools) -> Room:
    rows = np.flatnonzero(cards.model == model)
    best = rows[np.lexsort((size[rows], milli[rows]))[-1]]
    free = int(np.count_nonzero(whole[rows]))
    return Room(cards.models[model], int(milli[best]), int(size[best]), free, len(rows))
