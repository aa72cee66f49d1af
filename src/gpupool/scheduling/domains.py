"""Which nodes belong together at each level, and in which of these sets a gang should be.

Only counts go in and only sets of nodes come out: what fits where is judged by others, who say of every node
how many members it could hold at most. A level is whatever the pool's nodes are labelled with; the node itself is the
narrowest. Nearness inside a node is not looked at here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from gpupool.model.claim import Within
from gpupool.scheduling.snapshot import Bools, Cards, Ints, Level

NODE = "node"


@dataclass(frozen=True)
class Need:
    """So many members of one role, and how many of them each node could hold (an upper bound)."""

    copies: Ints
    count: int


@dataclass(frozen=True)
class Domain:
    """Nodes that are together at a level; `depth` is that level's place among all, 0 for the whole pool."""

    nodes: Bools
    depth: int


def ladder(cards: Cards) -> tuple[Level, ...]:
    """All levels from the widest to the narrowest, which is the node itself."""
    names = tuple(cards.nodes)
    return (*cards.levels, Level(NODE, names, np.arange(len(names), dtype=np.int64)))


def depth_of(levels: Sequence[Level], name: str | None) -> int:
    """The level's place, counted from 1; 0 (the whole pool) for none and for one that no node of the pool says."""
    return next((depth for depth, level in enumerate(levels, start=1) if level.name == name), 0)


def candidates(levels: Sequence[Level], within: Within, inside: Bools, needs: Sequence[Need]) -> Iterator[Domain]:
    """Domains in the order to try them, all of them large enough by their counts.

    The preferred level first, then each wider one up to the required level. At one level the domain with the least
    room goes first, so that large ones stay whole; ties go to the first in the pool's order.
    """
    required = depth_of(levels, within.required)
    if within.required is not None and required == 0:
        return
    for depth in range(max(depth_of(levels, within.preferred), required), required - 1, -1):
        yield from at_level(levels, depth, required, inside, needs)


def at_level(
    levels: Sequence[Level], depth: int, required: int, inside: Bools, needs: Sequence[Need]
) -> Iterator[Domain]:
    """The level's domains that hold the needs by their counts, the one with the least room first."""
    if depth == 0:
        if all(int(need.copies[inside].sum()) >= need.count for need in needs):
            yield Domain(inside, 0)
        return
    keys, count = _keys(levels, depth, required, inside)
    rooms = [by_domain(need.copies, keys, count) for need in needs]
    fits = np.ones(count, dtype=np.bool_)
    for room, need in zip(rooms, needs, strict=True):
        fits &= room >= need.count
    total = np.sum(rooms, axis=0) if rooms else np.zeros(count, dtype=np.int64)
    order = np.argsort(total, kind="stable")
    for key in order[fits[order]]:
        yield Domain(keys == key, depth)


def _keys(levels: Sequence[Level], depth: int, required: int, inside: Bools) -> tuple[Ints, int]:
    """Per node the number of its domain, -1 outside; one that straddles the required level counts as several."""
    keys = levels[depth - 1].of_node
    known = inside & (keys >= 0)
    if 0 < required < depth:
        wider = levels[required - 1].of_node
        known &= wider >= 0
        keys = wider * (int(keys.max(initial=0)) + 1) + keys
    found = np.full(len(inside), -1, dtype=np.int64)
    names, found[known] = np.unique(keys[known], return_inverse=True)
    return found, len(names)


def by_domain(column: Ints, keys: Ints, count: int) -> Ints:
    """A column of nodes added up over the domains that `keys` names."""
    known = keys >= 0
    return np.bincount(keys[known], weights=column[known], minlength=count).astype(np.int64)


def part(levels: Sequence[Level], domain: Domain, copies: Ints, left: int, *, near: bool) -> Domain | None:
    """The part of the domain, one level down, to fill next with members of which `left` are still without a seat.

    One that holds all of them, the tightest such; else, where nearness is asked for (`near`), the roomiest, so that few
    parts are touched; else the fullest that still has room, so that empty ones stay empty for others.
    None when no part has room.
    """
    keys, count = _keys(levels, domain.depth + 1, 0, domain.nodes)
    room = by_domain(copies, keys, count)
    if not room.any():
        return None
    enough, largest = room >= left, np.iinfo(np.int64).max
    if near and not enough.any():
        chosen = int(np.argmax(room))
    else:
        chosen = int(np.argmin(np.where(enough if enough.any() else room > 0, room, largest)))
    return Domain(keys == chosen, domain.depth + 1)
