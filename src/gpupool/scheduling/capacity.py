"""What the pool could still give: the largest share and the most whole cards by model, and what nobody can use.

Numbers only, from the same columns and by the same filter that claims are placed with.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from gpupool.base.units import MIB
from gpupool.model.claim import Shape
from gpupool.scheduling.feasible import FITS, Fit, places_on
from gpupool.scheduling.free import Free
from gpupool.scheduling.snapshot import CARD_STATUS, Cards, CardStatus, Expected, Floats, Ints

_COVERED = 0.95
"""So much of what is expected is looked at, most frequent first: rare shapes would cost most and tell least."""


@dataclass(frozen=True)
class Room:
    """Of one model: the largest share that one card can take now, and what is wholly free."""

    model: str
    gpu_milli: int
    memory_bytes: int
    whole_free: int
    cards: int
    whole_on_one_node: int
    """The largest claim of whole cards that one node can take."""
    whole_nodes: int
    """Nodes of which every card is wholly free; a node of several models counts for each of them."""
    free_milli: int
    """Of its open cards, added up."""
    fragment_milli: float | None
    """What is free there and of no use to an expected claim, on average; None where nothing is expected yet."""
    cut_cards: int = 0
    """Of `cards`, those in partition mode."""
    profiles: Mapping[str, int] = field(default_factory=dict)
    """By published profile, how many such partitions could be cut now, if only that one is cut."""


def placeable(cards: Cards) -> tuple[Ints, Ints]:
    """Per card the largest (milli, bytes in whole MiB) that one share can get now; 0 unless it is open."""
    free = Free(cards)
    milli, size = np.where(free.open, free.milli, 0), np.where(free.open, free.size, 0)
    return np.maximum(milli, 0), np.maximum(size, 0) // MIB * MIB


def fragments(free: Free, shape: Shape) -> Ints:
    """Per card, the compute that is free and of no use to a claim of that shape.

    All that is free on a node that cannot take the claim, else what is free on cards that cannot take a seat of it:
    the fragment of Weng et al., USENIX ATC 2023, with every condition of the claim and not compute alone.
    """
    fit, milli = Fit(shape, free), np.where(free.open, np.maximum(free.milli, 0), 0)
    useful = (fit.why == FITS) & fit.roomy[free.cards.node]
    return np.where(useful, 0, milli)


@dataclass(frozen=True)
class Seen:
    """The pool as one expected shape sees it: `part` of all that is expected, and per card what is of no use to it."""

    shape: Shape
    part: float
    fragments: Ints


def seen_by(free: Free, expected: Expected) -> tuple[Seen, ...]:
    """By shape, most frequent first, as few as cover enough of what is expected; empty where nothing is."""
    typical = _typical(expected)
    weights = sum(count for _, count in typical)
    return tuple(Seen(shape, count / weights, fragments(free, shape)) for shape, count in typical)


def mean(seen: tuple[Seen, ...]) -> Floats | None:
    """Per card, the fragment averaged over what is expected; None where nothing is."""
    if not seen:
        return None
    total: Floats = np.sum([one.part * one.fragments for one in seen], axis=0)
    return total


def rooms(free: Free, lost: Floats | None) -> tuple[Room, ...]:
    """By model, in the order of the snapshot; `lost` is the mean fragment per card."""
    return tuple(_room(free, int(model), lost) for model in np.unique(free.cards.model))


def _typical(expected: Expected) -> list[tuple[Shape, float]]:
    """As few shapes as cover enough of what is expected; claims to no card, and to partitions, see no fragments."""
    both = zip(expected.shapes, expected.counts, strict=True)
    pairs = [(shape, count) for shape, count in both if shape.count and shape.profile is None]
    pairs.sort(key=lambda pair: -pair[1])
    before = np.cumsum([0.0] + [count for _, count in pairs])
    return [pair for pair, covered in zip(pairs, before, strict=False) if covered < _COVERED * before[-1]]


def _room(free: Free, model: int, lost: Floats | None) -> Room:
    cards, rows = free.cards, np.flatnonzero(free.cards.model == model)
    milli = np.where(free.open, np.maximum(free.milli, 0), 0)
    size = np.where(free.open, np.maximum(free.size, 0), 0) // MIB * MIB
    best = rows[np.lexsort((size[rows], milli[rows]))[-1]]
    of_model, whole = cards.model == model, free.untouched()
    on_node, has = free.count_by_node(whole & of_model), free.count_by_node(of_model)
    all_whole = free.count_by_node(whole) == free.count_by_node(np.ones(len(cards), dtype=np.bool_))
    return Room(
        model=cards.models[model],
        gpu_milli=int(milli[best]),
        memory_bytes=int(size[best]),
        whole_free=int(on_node.sum()),
        cards=len(rows),
        whole_on_one_node=int(on_node.max()),
        whole_nodes=int(np.count_nonzero(all_whole & (has > 0))),
        free_milli=int(milli[rows].sum()),
        fragment_milli=None if lost is None else float(lost[rows].sum()),
        cut_cards=sum(1 for row in cards.cuts if cards.model[row] == model),
        profiles=_cuttable(free, [row for row in cards.cuts if cards.model[row] == model]),
    )


def _cuttable(free: Free, rows: Sequence[int]) -> dict[str, int]:
    found: Counter[str] = Counter()
    opened = CARD_STATUS.index(CardStatus.OPEN)
    for row in rows:
        for profile in free.cards.cuts[row].profiles:
            found[profile.name] += places_on(free, row, profile.name) if free.cards.status[row] == opened else 0
    return dict(found)
