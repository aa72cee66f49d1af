"""Rejections of claims that fit, but not as near together as they require.

`explain_never` is about the empty pool, `explain_not_now` about what is free now. Locality is links
between cards, or cards together with processors and memory of one NUMA node.
"""

from __future__ import annotations

import numpy as np

from gpupool.model.claim import Rejection, RejectionReason
from gpupool.scheduling.filtering import numa_affinity
from gpupool.scheduling.filtering.domains import find_depth, list_levels
from gpupool.scheduling.filtering.feasibility import FITS, ClaimFit
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.reasons import locality_messages
from gpupool.scheduling.reasons.rejection import count_cards, count_nodes
from gpupool.scheduling.scoring.topology import LinkedCardSets
from gpupool.scheduling.snapshot.columns import Bools, Ints


def explain_never(fit: ClaimFit, free: FreeCapacity) -> Rejection | None:
    """Return the rejection if no empty node with all cards open meets the condition, else None."""
    level = fit.shape.within.required
    known = free.numa.known
    if level is None:
        return None
    if numa_affinity.is_numa_required(fit.shape):
        best, lack = _find_nearest(fit, free, fit.possible, known.cpu_milli, known.memory_bytes)
        if lack == 0:
            return None
        sentence = locality_messages.describe_not_in_one(fit.shape, best, now=False)
        hint = (
            f"--topology {level},preferred takes what is missing from the node's other NUMA nodes"
        )
        return _build_rejection(fit, free, sentence, fits_ever=False, hint=hint)
    if (
        fit.shape.count <= 1
        or find_depth(list_levels(free.cards), level)
        or LinkedCardSets(free).can_ever_fit(fit, level)
    ):
        return None
    sentence = locality_messages.describe_never_joined(fit.shape, level)
    return _build_rejection(
        fit, free, sentence, fits_ever=False, hint=f"--topology {level},preferred makes it a wish"
    )


def explain_not_now(fit: ClaimFit, free: FreeCapacity) -> Rejection:
    """Return the rejection of a claim that fits on some node, but on none as near as it requires."""
    if not numa_affinity.is_numa_required(fit.shape):
        nodes = int(np.count_nonzero(fit.roomy))
        return _build_rejection(
            fit,
            free,
            locality_messages.describe_not_joined(fit.shape, str(fit.shape.within.required), nodes),
        )
    best, _ = _find_nearest(fit, free, fit.why == FITS, free.numa.cpu_milli, free.numa.host_bytes)
    return _build_rejection(
        fit, free, locality_messages.describe_not_in_one(fit.shape, best, now=True)
    )


def _build_rejection(
    fit: ClaimFit, free: FreeCapacity, sentence: str, *, fits_ever: bool = True, hint: str = ""
) -> Rejection:
    cards = count_cards(fit) | {RejectionReason.TOPOLOGY: int(np.count_nonzero(fit.why == FITS))}
    nodes = count_nodes(fit, free) | {RejectionReason.TOPOLOGY: int(np.count_nonzero(fit.roomy))}
    return Rejection(
        sentence,
        RejectionReason.TOPOLOGY,
        _drop_zeros(cards),
        _drop_zeros(nodes),
        fits_ever=fits_ever,
        hint=hint,
    )


def _drop_zeros(counts: dict[RejectionReason, int]) -> dict[RejectionReason, int]:
    return {reason: count for reason, count in counts.items() if count}


def _find_nearest(
    fit: ClaimFit, free: FreeCapacity, cards: Bools, cpu_milli: Ints, host_bytes: Ints
) -> tuple[locality_messages.NumaNodeAmounts | None, int]:
    """Return the NUMA node that lacks least of the request, and how much in thousandths."""
    known = free.numa.known
    shape = fit.shape
    count = numa_affinity.count_cards_by_numa(free.numa, cards)
    if not count.any():
        return None, 1000
    pairs = ((shape.count, count), (shape.cpu_milli, cpu_milli), (shape.host_bytes, host_bytes))
    # Rounded up, as `numa_affinity` does it: 0 means that nothing lacks.
    lacking = [-(-1000 * np.maximum(asked - has, 0) // asked) for asked, has in pairs if asked]
    worst = np.where(count > 0, np.max(lacking, axis=0), np.iinfo(np.int64).max)
    # The first of equals, so that the message names the same NUMA node each time.
    best = int(np.argmin(worst))
    name = free.cards.nodes[known.node[best]]
    number = int(known.number[best])
    amounts = (max(int(column[best]), 0) for column in (count, cpu_milli, host_bytes))
    return locality_messages.NumaNodeAmounts(name, number, *amounts), int(worst[best])
