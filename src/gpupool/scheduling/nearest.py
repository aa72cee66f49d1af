"""The nearest shape that could be placed now, when the asked one cannot.

Three ways to ask for less or other: fewer cards, a smaller share, another kind of card. What is
offered here has been judged by the same filter that places claims; it is never a guess.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from gpupool.base.units import MIB, WHOLE
from gpupool.model.catalogue import nearest_model
from gpupool.model.claim import Shape, Sharing
from gpupool.model.quota import Amount
from gpupool.scheduling.fairness import Budget
from gpupool.scheduling.feasible import FITS, Fit, model_matches, roomy_nodes
from gpupool.scheduling.free import Free
from gpupool.scheduling.refusal import present_models, seat_bytes
from gpupool.scheduling.snapshot import Bools, Ints


@dataclass(frozen=True)
class Near:
    """What would be placed now instead; None where that way leads nowhere."""

    fewer: Shape | None
    smaller: Shape | None
    other: Shape | None

    def best(self, asked: Shape) -> Shape | None:
        """Fewer cards or a smaller share while it keeps half of what was asked, then another kind of card."""
        same_kind = self.fewer or self.smaller
        if same_kind is not None and (self.other is None or _part(asked, same_kind) >= 0.5):
            return same_kind
        return self.other

    def all(self) -> tuple[Shape, ...]:
        options = (self.fewer, self.smaller, self.other)
        return tuple(dict.fromkeys(shape for shape in options if shape is not None))


def near(shape: Shape, free: Free, room: Budget) -> Near:
    """All three, in the pool as it is and within what the tenant may still take."""
    found = (_fewer(shape, free, room), _smaller(shape, free, room), _other(shape, free, room))
    return Near(*(None if one is None else _both_numbers(one, free) for one in found))


def _both_numbers(shape: Shape, free: Free) -> Shape:
    """The shape with its memory as a number where that is one number on all cards that could take it."""
    return replace(shape, memory_bytes=seat_bytes(Fit(shape, free)))


def fits(shape: Shape, free: Free, room: Budget) -> bool:
    """Whether the shape would be placed now if it were alone in the queue."""
    fit = Fit(shape, free)
    least = Amount(
        shape.held_milli * shape.count, 0 if shape.memory_bytes is None else shape.memory_bytes * shape.count
    )
    return room.covers(least) and bool(roomy_nodes(fit, free, room.size).any())


def _fewer(shape: Shape, free: Free, room: Budget) -> Shape | None:
    most = min(shape.count - 1, int(Fit(shape, free).fitting.max(initial=0)))
    for count in range(most, 0, -1):
        if fits(fewer := replace(shape, count=count), free, room):
            return fewer
    return None


def _smaller(shape: Shape, free: Free, room: Budget) -> Shape | None:
    if shape.profile is not None:
        return _smaller_partition(shape, free, room)
    milli, size = _offered(shape, free, room)
    rows = np.flatnonzero(_open_of_kind(shape, free) & (milli > 0) & (size >= MIB))
    if len(rows) == 0:
        return None
    part = np.minimum(milli / shape.gpu_milli, size / (shape.memory_bytes or 1))
    seats = _best_seats(rows, part, free, shape.count)
    memory = None if shape.memory_bytes is None else int(size[seats].min())
    smaller = replace(shape, gpu_milli=int(milli[seats].min()), memory_bytes=memory, count=len(seats))
    return smaller if smaller != shape and fits(smaller, free, room) else None


def _smaller_partition(shape: Shape, free: Free, room: Budget) -> Shape | None:
    """The largest profile with less compute, or as much and less memory, of which there is a place now."""
    profiles = dict.fromkeys(profile for cut in free.cards.cuts.values() for profile in cut.profiles)
    own = [profile.memory_bytes for profile in profiles if profile.name == shape.profile]
    most = shape.gpu_milli, max(own, default=0)
    less = [profile for profile in profiles if (profile.gpu_milli, profile.memory_bytes) < most and not profile.media]
    for profile in sorted(less, key=lambda one: (-one.gpu_milli, -one.memory_bytes, one.name)):
        smaller = replace(shape, gpu_milli=profile.gpu_milli, profile=profile.name)
        if fits(smaller, free, room):
            return smaller
    return None


def _offered(shape: Shape, free: Free, room: Budget) -> tuple[Ints, Ints]:
    """Per card, the compute and the memory of at most the asked share that is free on it."""
    milli = np.full(len(free.cards), shape.gpu_milli)
    if shape.sharing is not Sharing.BEST_EFFORT:
        milli = np.minimum(milli, _within(free.milli, room.milli, shape.count))
    size = _within(free.size, room.size, shape.count) // MIB * MIB
    if shape.memory_bytes is None:
        milli = np.minimum(milli, size * WHOLE // free.cards.memory_bytes)
    else:
        size = np.minimum(size, shape.memory_bytes)
    partly = (milli == WHOLE) & ~free.untouched() if shape.whole else np.zeros(len(milli), dtype=np.bool_)
    return milli - partly, size


def _within(column: Ints, limit: int | None, count: int) -> Ints:
    return column if limit is None else np.minimum(column, max(limit, 0) // count)


def _open_of_kind(shape: Shape, free: Free) -> Bools:
    kind: Bools = Fit(shape, free).wanted == FITS
    kind &= free.open
    return kind


def _best_seats(rows: Ints, part: npt.NDArray[np.float64], free: Free, count: int) -> Ints:
    """On the node where most of the claim is left: as many cards as were asked for, or what there is."""
    rows = rows[np.lexsort((-part[rows], free.cards.node[rows]))]
    nodes = free.cards.node[rows]
    first = np.searchsorted(nodes, nodes)
    nth = np.arange(len(rows)) - first
    worth = np.where(nth < count, (nth + 1) * part[rows], 0.0)
    if (nth == count - 1).any():
        worth = np.where(nth == count - 1, worth, 0.0)
    last = int(np.argmax(worth))
    return rows[first[last] : last + 1]


def _other(shape: Shape, free: Free, room: Budget) -> Shape | None:
    if shape.model is not None:
        for model in _other_models(shape.model, free):
            if fits(other := replace(shape, model=model), free, room):
                return other
    elsewhere = replace(shape, labels=())
    return elsewhere if shape.labels and fits(elsewhere, free, room) else None


def _other_models(asked: str, free: Free) -> list[str]:
    """Models of the pool that do not match, the one most like the asked name first."""
    models = [model for model in present_models(free.cards) if not model_matches(asked, model)]
    like = nearest_model(asked, models)
    return sorted(models, key=lambda model: model != like)


def _part(asked: Shape, given: Shape) -> float:
    memory = (given.memory_bytes or 1) / (asked.memory_bytes or given.memory_bytes or 1)
    return min(given.gpu_milli / asked.gpu_milli, memory) * given.count / asked.count
