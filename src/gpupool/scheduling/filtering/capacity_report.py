"""What the pool can still offer per model: the largest share, whole cards, and fragments.

The report uses the columns and the filter that place claims.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress

import numpy as np

from gpupool.base.units import MIB
from gpupool.model.claim import Shape
from gpupool.scheduling.filtering.feasibility import FITS, ClaimFit, count_free_slots
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.snapshot.cards import CARD_STATUS, CardStatus, CardTable
from gpupool.scheduling.snapshot.claims import ExpectedDemand
from gpupool.scheduling.snapshot.columns import Bools, Floats, Ints

#: So much of what is expected is looked at, most frequent first: rare shapes would cost most and
#: tell least.
_COVERED = 0.95


@dataclass(frozen=True)
class ModelCapacity:
    """The free capacity of one model."""

    model: str
    gpu_milli: int
    memory_bytes: int
    whole_free: int
    cards: int
    #: The largest claim of whole cards that one node can take.
    whole_on_one_node: int
    #: Nodes of which every card is wholly free; a node of several models counts for each of them.
    whole_nodes: int
    #: Of its open cards, added up.
    free_milli: int
    #: What is free there and of no use to an expected claim, on average; None where nothing is
    #: expected yet.
    fragment_milli: float | None
    #: Of `cards`, those in partition mode.
    cut_cards: int = 0
    #: By published profile, how many such partitions could be cut now, if only that one is cut.
    profiles: Mapping[str, int] = field(default_factory=dict)
    #: Cards that serve MPS clients of one owner each, and what is free on them for these owners.
    mps_cards: int = 0
    mps_free_milli: int = 0


def compute_placeable(cards: CardTable) -> tuple[Ints, Ints]:
    """Return per card the largest share that fits now; 0 for a card that is not open.

    Returns:
        Compute in milli-devices, and memory in bytes rounded down to whole MiB.
    """
    free = FreeCapacity(cards)
    milli = np.where(free.open, free.milli, 0)
    size = np.where(free.open, free.size, 0)
    return np.maximum(milli, 0), np.maximum(size, 0) // MIB * MIB


def compute_fragments(free: FreeCapacity, shape: Shape) -> Ints:
    """Return per card the free compute that a claim of the shape cannot use.

    If the claim does not fit on a node, all free compute of the node counts. Otherwise the free
    compute of cards that cannot take a seat counts. This is the fragment of Weng et al., USENIX ATC
    2023, with every condition of the claim instead of compute alone.
    """
    fit = ClaimFit(shape, free)
    milli = np.where(free.open, np.maximum(free.milli, 0), 0)
    useful = (fit.why == FITS) & fit.roomy[free.cards.node]
    return np.where(useful, 0, milli)


@dataclass(frozen=True)
class ShapeFragments:
    """The fragments that one expected shape sees; `part` is its share of all expected claims."""

    shape: Shape
    part: float
    fragments: Ints


def list_shape_fragments(
    free: FreeCapacity, expected: ExpectedDemand
) -> tuple[ShapeFragments, ...]:
    """Return the fragments by expected shape, most frequent first.

    Returns:
        As few shapes as cover most of the demand; empty if nothing is expected.
    """
    typical = _select_typical_shapes(expected)
    weights = sum(count for _, count in typical)
    seen = list[ShapeFragments]()
    for shape, count in typical:
        seen.append(ShapeFragments(shape, count / weights, compute_fragments(free, shape)))
    return tuple(seen)


def compute_mean_fragment(seen: tuple[ShapeFragments, ...]) -> Floats | None:
    """Return per card the fragment averaged over the expected shapes; None if there are none."""
    if not seen:
        return None
    total: Floats = np.sum([one.part * one.fragments for one in seen], axis=0)
    return total


def list_model_capacities(free: FreeCapacity, lost: Floats | None) -> tuple[ModelCapacity, ...]:
    """Return the capacity by model, in the order of the snapshot.

    What is free on a card that serves MPS clients goes to their owner alone: it is counted apart.

    Args:
        free: What is free.
        lost: The mean fragment per card, from `compute_mean_fragment`.
    """
    return tuple(_measure_model(free, int(model), lost) for model in np.unique(free.cards.model))


def _select_typical_shapes(expected: ExpectedDemand) -> list[tuple[Shape, float]]:
    """Return the most frequent shapes that cover enough of the demand.

    Claims without cards and claims for partitions see no fragments and are left out.
    """
    both = zip(expected.shapes, expected.counts, strict=True)
    pairs = [(shape, count) for shape, count in both if shape.count and shape.profile is None]
    pairs.sort(key=lambda pair: -pair[1])
    before = np.cumsum([0.0] + [count for _, count in pairs])
    return list(compress(pairs, before < _COVERED * before[-1]))


def _measure_model(free: FreeCapacity, model: int, lost: Floats | None) -> ModelCapacity:
    cards = free.cards
    rows = np.flatnonzero(free.cards.model == model)
    owned = find_owned_cards(free)
    usable = free.open & ~owned
    milli = np.where(usable, np.maximum(free.milli, 0), 0)
    size = np.where(usable, np.maximum(free.size, 0), 0) // MIB * MIB
    owned_milli = np.where(free.open & owned, np.maximum(free.milli, 0), 0)
    best = rows[np.lexsort((size[rows], milli[rows]))[-1]]
    of_model = cards.model == model
    whole = free.is_untouched()
    on_node = free.count_cards_by_node(whole & of_model)
    has = free.count_cards_by_node(of_model)
    all_whole = free.count_cards_by_node(whole) == free.count_cards_by_node(
        np.ones(len(cards), dtype=np.bool_)
    )
    return ModelCapacity(
        model=cards.models[model],
        gpu_milli=int(milli[best]),
        memory_bytes=int(size[best]),
        whole_free=int(on_node.sum()),
        cards=len(rows),
        whole_on_one_node=int(on_node.max()),
        whole_nodes=int(np.count_nonzero(all_whole & (has > 0))),
        free_milli=int(milli[rows].sum()),
        fragment_milli=None if lost is None else float(lost[rows].sum()),
        cut_cards=sum(1 for row in cards.layouts if cards.model[row] == model),
        profiles=_count_profiles(free, [row for row in cards.layouts if cards.model[row] == model]),
        mps_cards=int(owned[rows].sum()),
        mps_free_milli=int(owned_milli[rows].sum()),
    )


def find_owned_cards(free: FreeCapacity) -> Bools:
    """Return a mask of the cards that serve MPS clients now: closed to claims without MPS."""
    if not free.owners.is_used:
        return np.zeros(len(free.cards), dtype=np.bool_)
    return free.owners.find_closed("", slice(None), free.milli, free.size)


def _count_profiles(free: FreeCapacity, rows: Sequence[int]) -> dict[str, int]:
    found: Counter[str] = Counter()
    opened = CARD_STATUS.index(CardStatus.OPEN)
    for row in rows:
        for profile in free.cards.layouts[row].profiles:
            found[profile.name] += (
                count_free_slots(free, row, profile.name) if free.cards.status[row] == opened else 0
            )
    return dict(found)
