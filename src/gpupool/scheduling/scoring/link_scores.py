"""The interconnect of the cards of one node as a table of pair scores, and the best set of cards.

Nodes of one kind share a table, so results are cached by table. The module knows places on a node
(bits of a mask, ordered by card index), and nothing of cards, claims or free capacity.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import chain, combinations
from math import comb

from gpupool.model.topology import LinkKind, Topology

#: Up to so many sets each is looked at (8 of 16 cards: 12,870); beyond that a set is grown from its
#: best pair.
MOST_SETS = 20_000


class LinkScores:
    """Link scores of one kind of node.

    `pairs[i][j]` is how well places i and j are joined. `islands` holds masks of places by level.
    """

    def __init__(
        self, pairs: tuple[tuple[int, ...], ...], islands: Mapping[str, tuple[int, ...]]
    ) -> None:
        self.pairs = pairs
        self.islands = islands
        self._totals = {0: 0}
        self._best: dict[tuple[int, int, int, str | None], int] = {}

    def sum_links(self, mask: int) -> int:
        """Return the sum of the pair scores inside the set."""
        if mask not in self._totals:
            # The sum of a set is that of the set without its lowest place, plus that place's links:
            # each subset is added up once.
            first, *others = list_places(mask)
            joined = sum(self.pairs[first][other] for other in others)
            self._totals[mask] = self.sum_links(mask & (mask - 1)) + joined
        return self._totals[mask]

    def has_island(self, level: str, mask: int, count: int) -> bool:
        """Return whether one island of the level has `count` of the places; False for an unknown
        level.
        """
        return any((island & mask).bit_count() >= count for island in self.islands.get(level, ()))

    def find_best(self, fitting: int, free: int, count: int, level: str | None = None) -> int:
        """Return the best-linked set of places.

        Among equal sets the one wins that leaves the best links among the other free places, then
        the one with the lowest places.

        Args:
            fitting: Mask of the places that can be chosen.
            free: Mask of the untouched places.
            count: Size of the set.
            level: If given, the set must be inside one island of this level.

        Returns:
            A mask; 0 if there is no such set.
        """
        asked = (fitting, free, count, level)
        if asked not in self._best:
            self._best[asked] = self._search_best(*asked)
        return self._best[asked]

    def _search_best(self, fitting: int, free: int, count: int, level: str | None) -> int:
        islands = (fitting,) if level is None else self.islands.get(level, ())
        rooms = [list_places(fitting & island) for island in islands]
        sets = chain.from_iterable(self._iterate_sets(room, count) for room in rooms)
        # `max` keeps the first of equals, and sets come in ascending order of places.
        return max(
            sets,
            key=lambda found: (self.sum_links(found), self.sum_links(free & ~found)),
            default=0,
        )

    def _iterate_sets(self, room: Sequence[int], count: int) -> Iterator[int]:
        if len(room) >= count and comb(len(room), count) > MOST_SETS:
            yield self._grow_set(room, count)
            return
        for chosen in combinations(room, count):
            yield sum(1 << place for place in chosen)

    def _grow_set(self, room: Sequence[int], count: int) -> int:
        def best_partners(place: int) -> int:
            links = sorted(map(self.pairs[place].__getitem__, room), reverse=True)
            return sum(links[: count - 1])

        # Greedy: the place with the best partners, then each time the one best joined to all so
        # far. `max` keeps the lowest of equals.
        chosen = [max(room, key=best_partners)]

        def sum_links_to_chosen(place: int) -> int:
            return sum(map(self.pairs[place].__getitem__, chosen))

        while len(chosen) < count:
            rest = [place for place in room if place not in chosen]
            chosen.append(max(rest, key=sum_links_to_chosen))
        return sum(1 << place for place in chosen)


class LinkScoreCache:
    """Tables by topology: nodes of one kind share one table."""

    def __init__(self) -> None:
        self._known: dict[Hashable, LinkScores] = {}

    def get_scores(self, topology: Topology, uuids: Sequence[str]) -> LinkScores:
        """Return the table for a node's cards in this order."""
        form = _build_form(topology, uuids)
        if form not in self._known:
            self._known[form] = build_link_scores(topology, uuids)
        return self._known[form]


def build_link_scores(topology: Topology, uuids: Sequence[str]) -> LinkScores:
    """Build the table for a node's cards in this order."""
    pairs = []
    for a in uuids:
        pairs.append(tuple(0 if a == b else topology.pair_score(a, b) for b in uuids))
    bits = {uuid: 1 << place for place, uuid in enumerate(uuids)}
    islands: dict[str, tuple[int, ...]] = {}
    for kind in LinkKind:
        masks = []
        for island in topology.list_domains(kind):
            masks.append(sum(bits.get(uuid, 0) for uuid in island))
        islands[str(kind)] = tuple(masks)
    islands["node"] = ((1 << len(uuids)) - 1,)
    return LinkScores(tuple(pairs), islands)


def list_places(mask: int) -> list[int]:
    """Return the places in a mask, lowest first.

    >>> list_places(0b1011)
    [0, 1, 3]
    """
    return [place for place in range(mask.bit_length()) if mask >> place & 1]


def _build_form(topology: Topology, uuids: Sequence[str]) -> Hashable:
    """Return the topology with places instead of card names, as a cache key."""
    at = dict(zip(uuids, range(len(uuids)), strict=True))
    links = frozenset((at.get(k.a), at.get(k.b), k.kind, k.count) for k in topology.links)
    domains = set()
    for kind, groups in topology.domains.items():
        for group in groups:
            domains.add((kind, frozenset(map(at.get, group))))
    return len(uuids), links, frozenset(domains), tuple(map(topology.numa.get, uuids))
