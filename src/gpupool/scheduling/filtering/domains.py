"""The domains in which a gang may be placed together, and the order in which to try them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from gpupool.model.claim import TopologyConstraint
from gpupool.scheduling.snapshot.cards import CardTable, TopologyLevel
from gpupool.scheduling.snapshot.columns import Bools, Ints

NODE_LEVEL = "node"


@dataclass(frozen=True)
class MemberDemand:
    """The number of members of one role, and an upper bound of how many each node can hold."""

    copies: Ints
    count: int


@dataclass(frozen=True)
class TopologyDomain:
    """Nodes that share a domain of one level; depth 0 is the whole pool."""

    nodes: Bools
    depth: int


def list_levels(cards: CardTable) -> tuple[TopologyLevel, ...]:
    """Return all levels from the widest to the narrowest, which is the node itself."""
    names = tuple(cards.nodes)
    return (*cards.levels, TopologyLevel(NODE_LEVEL, names, np.arange(len(names), dtype=np.int64)))


def find_depth(levels: Sequence[TopologyLevel], name: str | None) -> int:
    """Return the position of a level, counted from 1; 0 for None and for an unknown level."""
    return next((depth for depth, level in enumerate(levels, start=1) if level.name == name), 0)


def iterate_candidates(
    levels: Sequence[TopologyLevel],
    within: TopologyConstraint,
    inside: Bools,
    needs: Sequence[MemberDemand],
) -> Iterator[TopologyDomain]:
    """Yield the domains that are large enough, in the order to try them.

    The preferred level comes first, then each wider level up to the required one. Within a level
    the domain with the least room comes first, so that large domains stay free. Ties go to the
    first in the order of the pool.

    Args:
        levels: All levels, widest first.
        within: The required and the preferred level.
        inside: Mask of the nodes that may be used.
        needs: What the members need.
    """
    required = find_depth(levels, within.required)
    # No node of this pool knows the level, so nothing satisfies it.
    if within.required is not None and required == 0:
        return
    for depth in range(max(find_depth(levels, within.preferred), required), required - 1, -1):
        yield from iterate_level(levels, depth, required, inside, needs)


def iterate_level(
    levels: Sequence[TopologyLevel],
    depth: int,
    required: int,
    inside: Bools,
    needs: Sequence[MemberDemand],
) -> Iterator[TopologyDomain]:
    """Yield the domains of one level that hold all needs, the one with the least room first."""
    if depth == 0:
        if all(int(need.copies[inside].sum()) >= need.count for need in needs):
            yield TopologyDomain(inside, 0)
        return
    keys, count = _number_domains(levels, depth, required, inside)
    rooms = [sum_by_domain(need.copies, keys, count) for need in needs]
    fits = np.ones(count, dtype=np.bool_)
    for room, need in zip(rooms, needs, strict=True):
        fits &= room >= need.count
    total = np.sum(rooms, axis=0) if rooms else np.zeros(count, dtype=np.int64)
    # Stable: equal domains in the order of the pool, so that equal gangs are placed alike.
    order = np.argsort(total, kind="stable")
    for key in order[fits[order]]:
        yield TopologyDomain(keys == key, depth)


def _number_domains(
    levels: Sequence[TopologyLevel], depth: int, required: int, inside: Bools
) -> tuple[Ints, int]:
    """Return the domain number of each node, -1 outside, and the number of domains.

    A domain that spans several domains of the required level counts as several.
    """
    keys = levels[depth - 1].of_node
    known = inside & (keys >= 0)
    if 0 < required < depth:
        wider = levels[required - 1].of_node
        known &= wider >= 0
        # One number for each pair (wider, narrower): a rack that spans two zones is one domain in
        # each.
        keys = wider * (int(keys.max(initial=0)) + 1) + keys
    found = np.full(len(inside), -1, dtype=np.int64)
    names, found[known] = np.unique(keys[known], return_inverse=True)
    return found, len(names)


def sum_by_domain(column: Ints, keys: Ints, count: int) -> Ints:
    """Return the sum of a node column over each domain."""
    known = keys >= 0
    return np.bincount(keys[known], weights=column[known], minlength=count).astype(np.int64)


def choose_part(
    levels: Sequence[TopologyLevel], domain: TopologyDomain, copies: Ints, left: int, *, near: bool
) -> TopologyDomain | None:
    """Return the part of a domain, one level down, to fill next.

    The tightest part that holds all remaining members wins. If no part holds all, `near` prefers
    the roomiest part, so that few parts are used. Otherwise the fullest part with room wins, so
    that empty parts stay empty.

    Args:
        levels: All levels, widest first.
        domain: The domain to divide.
        copies: How many members each node can hold.
        left: Members without a seat.
        near: Whether the members should be near each other.

    Returns:
        The part; None if no part has room.
    """
    keys, count = _number_domains(levels, domain.depth + 1, 0, domain.nodes)
    room = sum_by_domain(copies, keys, count)
    if not room.any():
        return None
    enough = room >= left
    largest = np.iinfo(np.int64).max
    if near and not enough.any():
        chosen = int(np.argmax(room))
    else:
        chosen = int(np.argmin(np.where(enough if enough.any() else room > 0, room, largest)))
    return TopologyDomain(keys == chosen, domain.depth + 1)
