"""The nearest shape that could be placed now, when the requested one cannot.

Three ways to ask for less or other: fewer cards, a smaller share, another kind of card. The filter
that places claims has judged each offer; none is a guess.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from itertools import filterfalse

import numpy as np
import numpy.typing as npt

from gpupool.base.units import MIB, WHOLE
from gpupool.model.catalogue import nearest_model
from gpupool.model.claim import Shape
from gpupool.model.partition import PartitionProfile
from gpupool.model.quota import ResourceAmount
from gpupool.scheduling.filtering.feasibility import (
    FITS,
    ClaimFit,
    is_model_match,
)
from gpupool.scheduling.filtering.fit_counts import find_roomy_nodes
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.quota.queue_order import QuotaHeadroom
from gpupool.scheduling.reasons.rejection import find_seat_bytes, list_present_models
from gpupool.scheduling.snapshot.columns import Bools, Ints


@dataclass(frozen=True)
class NearestShapes:
    """Shapes that would be placed now; None where that way leads nowhere."""

    fewer: Shape | None
    smaller: Shape | None
    other: Shape | None

    def choose_best(self, asked: Shape) -> Shape | None:
        """Choose fewer cards or a smaller share while it keeps half of the request, else another
        kind of card.
        """
        same_kind = self.fewer or self.smaller
        if same_kind is not None and (self.other is None or _compute_part(asked, same_kind) >= 0.5):
            return same_kind
        return self.other

    def list_all(self) -> tuple[Shape, ...]:
        """List all three, each once."""
        options = (self.fewer, self.smaller, self.other)
        return tuple(dict.fromkeys(shape for shape in options if shape is not None))


def find_nearest_shapes(shape: Shape, free: FreeCapacity, room: QuotaHeadroom) -> NearestShapes:
    """Find all three in the pool as it is and within what the tenant may still take.

    All three are about cards: a claim without a card has none of them.
    """
    if shape.count == 0:
        return NearestShapes(None, None, None)
    found = (
        _find_fewer(shape, free, room),
        _find_smaller(shape, free, room),
        _find_other(shape, free, room),
    )
    return NearestShapes(*(None if one is None else _fill_memory(one, free) for one in found))


def _fill_memory(shape: Shape, free: FreeCapacity) -> Shape:
    """The shape with its memory as a number where that is one number on all cards that could take
    it.
    """
    return replace(shape, memory_bytes=find_seat_bytes(ClaimFit(shape, free)))


def can_place(shape: Shape, free: FreeCapacity, room: QuotaHeadroom) -> bool:
    """Whether the shape would be placed now if it were alone in the queue."""
    fit = ClaimFit(shape, free)
    least = ResourceAmount(
        shape.held_milli * shape.count,
        0 if shape.memory_bytes is None else shape.memory_bytes * shape.count,
    )
    return room.covers(least) and bool(find_roomy_nodes(fit, free, room.size).any())


def _find_fewer(shape: Shape, free: FreeCapacity, room: QuotaHeadroom) -> Shape | None:
    most = min(shape.count - 1, int(ClaimFit(shape, free).fitting.max(initial=0)))
    for count in range(most, 0, -1):
        if can_place(fewer := replace(shape, count=count), free, room):
            return fewer
    return None


def _find_smaller(shape: Shape, free: FreeCapacity, room: QuotaHeadroom) -> Shape | None:
    if shape.profile is not None:
        return _find_smaller_partition(shape, free, room)
    milli, size = _measure_offer(shape, free, room)
    rows = np.flatnonzero(_find_open_cards(shape, free) & (milli > 0) & (size >= MIB))
    if len(rows) == 0:
        return None
    part = np.minimum(milli / shape.gpu_milli, size / (shape.memory_bytes or 1))
    seats = _choose_seats(rows, part, free, shape.count)
    memory = None if shape.memory_bytes is None else int(size[seats].min())
    smaller = replace(
        shape, gpu_milli=int(milli[seats].min()), memory_bytes=memory, count=len(seats)
    )
    return smaller if smaller != shape and can_place(smaller, free, room) else None


def _find_smaller_partition(shape: Shape, free: FreeCapacity, room: QuotaHeadroom) -> Shape | None:
    """The largest profile with less compute, or as much and less memory, that has a place now."""
    profiles = dict[PartitionProfile, None]()
    for cut in free.cards.layouts.values():
        profiles.update(dict.fromkeys(cut.profiles))
    own = [profile.memory_bytes for profile in profiles if profile.name == shape.profile]
    most = shape.gpu_milli, max(own, default=0)
    less = list[PartitionProfile]()
    for profile in profiles:
        if (profile.gpu_milli, profile.memory_bytes) < most and profile.is_plain:
            less.append(profile)
    for profile in sorted(less, key=lambda one: (-one.gpu_milli, -one.memory_bytes, one.name)):
        smaller = replace(shape, gpu_milli=profile.gpu_milli, profile=profile.name)
        if can_place(smaller, free, room):
            return smaller
    return None


def _measure_offer(shape: Shape, free: FreeCapacity, room: QuotaHeadroom) -> tuple[Ints, Ints]:
    """Per card, the free compute and memory of at most the requested share."""
    milli = np.full(len(free.cards), shape.gpu_milli)
    if shape.sharing.promises_compute:
        milli = np.minimum(milli, _limit_column(free.milli, room.milli, shape.count))
    size = _limit_column(free.size, room.size, shape.count) // MIB * MIB
    if shape.memory_bytes is None:
        milli = np.minimum(milli, size * WHOLE // free.cards.memory_bytes)
    else:
        size = np.minimum(size, shape.memory_bytes)
    partly = (
        (milli == WHOLE) & ~free.is_untouched()
        if shape.is_whole
        else np.zeros(len(milli), dtype=np.bool_)
    )
    return milli - partly, size


def _limit_column(column: Ints, limit: int | None, count: int) -> Ints:
    return column if limit is None else np.minimum(column, max(limit, 0) // count)


def _find_open_cards(shape: Shape, free: FreeCapacity) -> Bools:
    kind: Bools = ClaimFit(shape, free).wanted == FITS
    kind &= free.open
    kind &= ~free.owners.find_closed(shape.owner, slice(None), free.milli, free.size)
    return kind


def _choose_seats(
    rows: Ints, part: npt.NDArray[np.float64], free: FreeCapacity, count: int
) -> Ints:
    """On the node where most of the claim fits: as many cards as requested, or what there is."""
    rows = rows[np.lexsort((-part[rows], free.cards.node[rows]))]
    nodes = free.cards.node[rows]
    first = np.searchsorted(nodes, nodes)
    nth = np.arange(len(rows)) - first
    worth = np.where(nth < count, (nth + 1) * part[rows], 0.0)
    if (nth == count - 1).any():
        worth = np.where(nth == count - 1, worth, 0.0)
    last = int(np.argmax(worth))
    return rows[first[last] : last + 1]


def _find_other(shape: Shape, free: FreeCapacity, room: QuotaHeadroom) -> Shape | None:
    if shape.model is not None:
        for model in _list_other_models(shape.model, free):
            if can_place(other := replace(shape, model=model), free, room):
                return other
    # Labels with a space are the pool's own, which a user cannot leave out.
    own = tuple(label for label in shape.labels if " " in label[0])
    if own == shape.labels:
        return None
    elsewhere = replace(shape, labels=own)
    return elsewhere if can_place(elsewhere, free, room) else None


def _list_other_models(asked: str, free: FreeCapacity) -> list[str]:
    """Models of the pool that do not match, the one most like the requested name first."""
    models = list(filterfalse(partial(is_model_match, asked), list_present_models(free.cards)))
    like = nearest_model(asked, models)
    return sorted(models, key=lambda model: model != like)


def _compute_part(asked: Shape, given: Shape) -> float:
    memory = (given.memory_bytes or 1) / (asked.memory_bytes or given.memory_bytes or 1)
    return min(given.gpu_milli / asked.gpu_milli, memory) * given.count / asked.count
