"""Why a claim finds its cards, but not as near together, or as near to processors and memory, as it requires.

`never` is about the pool however empty, `not_now` about what is free now.
"""

from __future__ import annotations

import numpy as np

from gpupool.model.claim import Reason, Rejection
from gpupool.scheduling import near, wording_near
from gpupool.scheduling.domains import depth_of, ladder
from gpupool.scheduling.feasible import FITS, Fit
from gpupool.scheduling.free import Free
from gpupool.scheduling.refusal import card_counts, node_counts
from gpupool.scheduling.score_topology import LinkedSets
from gpupool.scheduling.snapshot import Bools, Ints


def never(fit: Fit, free: Free) -> Rejection | None:
    """The refusal when no node could meet the condition, however empty and with every card in it open."""
    level, known = fit.shape.within.required, free.numa.known
    if level is None:
        return None
    if near.required(fit.shape):
        best, lack = _nearest(fit, free, fit.possible, known.cpu_milli, known.memory_bytes)
        if lack == 0:
            return None
        sentence = wording_near.not_in_one(fit.shape, best, now=False)
        hint = f"--topology {level},preferred takes what is missing from the node's other NUMA nodes"
        return _apart(fit, free, sentence, fits_ever=False, hint=hint)
    if fit.shape.count <= 1 or depth_of(ladder(free.cards), level) or LinkedSets(free).ever(fit, level):
        return None
    sentence = wording_near.never_joined(fit.shape, level)
    return _apart(fit, free, sentence, fits_ever=False, hint=f"--topology {level},preferred makes it a wish")


def not_now(fit: Fit, free: Free) -> Rejection:
    """The claim has room on some node, and on none as near together as it requires."""
    if not near.required(fit.shape):
        nodes = int(np.count_nonzero(fit.roomy))
        return _apart(fit, free, wording_near.not_joined(fit.shape, str(fit.shape.within.required), nodes))
    best, _ = _nearest(fit, free, fit.why == FITS, free.numa.cpu_milli, free.numa.host_bytes)
    return _apart(fit, free, wording_near.not_in_one(fit.shape, best, now=True))


def _apart(fit: Fit, free: Free, sentence: str, *, fits_ever: bool = True, hint: str = "") -> Rejection:
    cards = card_counts(fit) | {Reason.TOPOLOGY: int(np.count_nonzero(fit.why == FITS))}
    nodes = node_counts(fit, free) | {Reason.TOPOLOGY: int(np.count_nonzero(fit.roomy))}
    return Rejection(sentence, Reason.TOPOLOGY, _some(cards), _some(nodes), fits_ever=fits_ever, hint=hint)


def _some(counts: dict[Reason, int]) -> dict[Reason, int]:
    return {reason: count for reason, count in counts.items() if count}


def _nearest(
    fit: Fit, free: Free, cards: Bools, cpu_milli: Ints, host_bytes: Ints
) -> tuple[wording_near.Numa | None, int]:
    """The NUMA node with such cards that lacks least of what is asked for, and how much of it, in thousandths."""
    known, shape = free.numa.known, fit.shape
    count = near.cards_by_numa(free.numa, cards)
    if not count.any():
        return None, 1000
    pairs = ((shape.count, count), (shape.cpu_milli, cpu_milli), (shape.host_bytes, host_bytes))
    lacking = [-(-1000 * np.maximum(asked - has, 0) // asked) for asked, has in pairs if asked]
    worst = np.where(count > 0, np.max(lacking, axis=0), np.iinfo(np.int64).max)
    best = int(np.argmin(worst))
    name, number = free.cards.nodes[known.node[best]], int(known.number[best])
    amounts = (max(int(column[best]), 0) for column in (count, cpu_milli, host_bytes))
    return wording_near.Numa(name, number, *amounts), int(worst[best])
