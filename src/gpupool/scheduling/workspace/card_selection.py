"""Selection of cards for one claim: open to its tenant, inside the quota's rest, and how many fit."""

from __future__ import annotations

import numpy as np

from gpupool.scheduling.filtering.feasibility import FITS, ClaimFit
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.snapshot.columns import Bools, Ints


def exclude_closed(
    closed: Bools | None, fit: ClaimFit, free: FreeCapacity, among: Bools | None
) -> Bools | None:
    """Of the nodes asked for, those with enough fitting cards that are not closed."""
    if closed is None:
        return among
    # Counted, not tested card by card: a node with enough open cards keeps its place in the scores.
    enough: Bools = free.count_cards_by_node((fit.why == FITS) & ~closed) >= fit.shape.count
    return enough if among is None else enough & among


def count_fits_on_card(free: FreeCapacity, fit: ClaimFit, node: int, row: int) -> int:
    """Count how many more shares of the shape fit on one card, with processors and main memory."""
    shape = fit.shape
    wanted = (
        (int(free.milli[row]), shape.held_milli),
        (int(free.size[row]), int(fit.need[row])),
        (int(free.cpu_milli[node]), shape.cpu_milli),
        (int(free.host_bytes[node]), shape.host_bytes),
    )
    return max(0, min((left // each for left, each in wanted if each), default=0))


def select_affordable(order: Ints, fit: ClaimFit, room: int | None) -> Ints:
    """Return the first cards of the order whose seats stay inside the quota's rest."""
    count = fit.shape.count
    if room is None or fit.shape.memory_bytes is not None:
        return order[:count]
    chosen: list[int] = []
    for place, row in enumerate(order):
        # Whether the cheapest cards behind this one would still leave quota for it. So the best
        # affordable set is found in one pass, in the policy's order.
        later = np.sort(fit.need[order[place + 1 :]])[: count - len(chosen) - 1]
        if len(chosen) < count and int(fit.need[row]) + int(later.sum()) <= room:
            chosen.append(int(row))
            room -= int(fit.need[row])
    return np.array(chosen, dtype=np.int64)
