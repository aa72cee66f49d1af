"""What joins the cards of one node, as a table of pair scores: which set of them is best, and what it leaves.

Nodes of one make have the same table, so answers are remembered by table and not by node. Knows places on a node
(bits of a mask, in the order of its cards), not cards, claims or what is free.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import combinations
from math import comb

from gpupool.model.topology import LinkKind, Topology

MOST_SETS = 20_000
"""Up to so many sets each is looked at (8 of 16 cards: 12,870); beyond that a set is grown from its best pair."""


class Board:
    """`pairs[i][j]` is how well places i and j are joined; `islands` are masks of places, by level."""

    def __init__(self, pairs: tuple[tuple[int, ...], ...], islands: Mapping[str, tuple[int, ...]]) -> None:
        self.pairs, self.islands = pairs, islands
        self._totals = {0: 0}
        self._best: dict[tuple[int, int, int, str | None], int] = {}

    def total(self, mask: int) -> int:
        """The pair scores inside the set, added up."""
        if mask not in self._totals:
            first, *others = places(mask)
            joined = sum(self.pairs[first][other] for other in others)
            self._totals[mask] = self.total(mask & (mask - 1)) + joined
        return self._totals[mask]

    def holds(self, level: str, mask: int, count: int) -> bool:
        """Whether one island of that level has so many of the places; a level that is not known has no islands."""
        return any((island & mask).bit_count() >= count for island in self.islands.get(level, ()))

    def best(self, fitting: int, free: int, count: int, level: str | None = None) -> int:
        """The set of `count` fitting places with the best links; among equals the one that leaves most among the
        `free` others, then the lowest places. With a level, inside one island of it. 0 where there is none.
        """
        asked = (fitting, free, count, level)
        if asked not in self._best:
            self._best[asked] = self._look_for(*asked)
        return self._best[asked]

    def _look_for(self, fitting: int, free: int, count: int, level: str | None) -> int:
        islands = (fitting,) if level is None else (fitting & island for island in self.islands.get(level, ()))
        sets = (found for island in islands for found in self._sets(places(island), count))
        return max(sets, key=lambda found: (self.total(found), self.total(free & ~found)), default=0)

    def _sets(self, room: Sequence[int], count: int) -> Iterator[int]:
        if len(room) >= count and comb(len(room), count) > MOST_SETS:
            yield self._grown(room, count)
            return
        for chosen in combinations(room, count):
            yield sum(1 << place for place in chosen)

    def _grown(self, room: Sequence[int], count: int) -> int:
        def best_partners(place: int) -> int:
            return sum(sorted((self.pairs[place][other] for other in room), reverse=True)[: count - 1])

        chosen = [max(room, key=best_partners)]
        while len(chosen) < count:
            rest = [place for place in room if place not in chosen]
            chosen.append(max(rest, key=lambda place: sum(self.pairs[place][other] for other in chosen)))
        return sum(1 << place for place in chosen)


class Boards:
    """Boards by their form: nodes of one make are asked about once."""

    def __init__(self) -> None:
        self._known: dict[Hashable, Board] = {}

    def of(self, topology: Topology, uuids: Sequence[str]) -> Board:
        form = _form(topology, uuids)
        if form not in self._known:
            self._known[form] = board_of(topology, uuids)
        return self._known[form]


def board_of(topology: Topology, uuids: Sequence[str]) -> Board:
    """The table for a node's cards in this order."""
    pairs = tuple(tuple(0 if a == b else topology.pair_score(a, b) for b in uuids) for a in uuids)
    at = {uuid: 1 << place for place, uuid in enumerate(uuids)}
    islands = {
        str(kind): tuple(sum(at[uuid] for uuid in island if uuid in at) for island in topology.islands(kind))
        for kind in LinkKind
    }
    return Board(pairs, {**islands, "node": ((1 << len(uuids)) - 1,)})


def places(mask: int) -> list[int]:
    """The places in a mask, lowest first.

    >>> places(0b1011)
    [0, 1, 3]
    """
    return [place for place in range(mask.bit_length()) if mask >> place & 1]


def _form(topology: Topology, uuids: Sequence[str]) -> Hashable:
    """The topology with the cards' places for their names."""
    at = {uuid: place for place, uuid in enumerate(uuids)}
    links = frozenset((at.get(k.a), at.get(k.b), k.kind, k.count) for k in topology.links)
    domains = frozenset(
        (kind, frozenset(at.get(uuid) for uuid in group))
        for kind, groups in topology.domains.items()
        for group in groups
    )
    return len(uuids), links, domains, tuple(topology.numa.get(uuid) for uuid in uuids)
