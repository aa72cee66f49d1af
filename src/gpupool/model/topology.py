"""How near the cards of one machine are to each other.

Two sources of nearness are kept apart, because they disagree on real machines: point-to-point `links`
(NVLink between two cards) and `domains`, sets in which every pair has the same kind of path (behind one
NVSwitch fabric, one PCIe switch, one host bridge, one NUMA node). On an 8-card NVSwitch board all pairs are
one NVSwitch hop apart while the same cards still hang off two NUMA nodes. This room only measures; choosing
by it is scheduling's work.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from itertools import combinations
from typing import Any


class LinkKind(StrEnum):
    """The kinds of path, nearest first; SYSTEM (across CPU sockets) is what remains when nothing nearer is
    known.
    """

    NVLINK = "nvlink"
    NVSWITCH = "nvswitch"
    PCIE_SWITCH = "pcie-switch"
    HOST_BRIDGE = "host-bridge"
    NUMA = "numa"
    SYSTEM = "system"

    @property
    def distance(self) -> int:
        """1 (NVLink) to 6 (SYSTEM); 0 is a card to itself. An order, not a time or a bandwidth."""
        return _DISTANCE[self]


_DISTANCE = {kind: step for step, kind in enumerate(LinkKind, start=1)}

_PATH_SCORE: Mapping[LinkKind, int] = {
    LinkKind.PCIE_SWITCH: 50,
    LinkKind.HOST_BRIDGE: 30,
    LinkKind.NUMA: 20,
    LinkKind.SYSTEM: 10,
}
_NVLINK_SCORE = 100
_SWITCHED_LINKS = 18
"""Links of a card into an NVSwitch fabric that does not say how many (H100 to B200 have so many). Pairwise
detection sees none of them; every pair behind the switch has them all."""


@dataclass(frozen=True)
class Link:
    """A point-to-point connection of `count` lanes or bricks between two cards; the direction has no
    meaning.
    """

    a: str
    b: str
    kind: LinkKind = LinkKind.NVLINK
    count: int = 1


@dataclass(frozen=True)
class Topology:
    """The cards of one machine and what connects them.

    `numa` maps uuid to NUMA node and lacks the cards whose node is unknown. `domains` maps a kind to
    disjoint sets of uuids. Cards named in neither are SYSTEM apart.
    """

    devices: tuple[str, ...] = ()
    links: tuple[Link, ...] = ()
    numa: Mapping[str, int] = field(default_factory=dict, hash=False)
    domains: Mapping[LinkKind, tuple[frozenset[str], ...]] = field(default_factory=dict, hash=False)

    def kind(self, a: str, b: str) -> LinkKind:
        """The nearest kind of path between two different cards."""
        return self._kinds.get(frozenset((a, b)), LinkKind.SYSTEM)

    def distance(self, a: str, b: str) -> int:
        """0 for the same card, else the distance of the nearest kind of path; symmetric.

        >>> Topology(("x", "y"), (Link("x", "y", LinkKind.NVLINK, 4),)).distance("y", "x")
        1
        """
        return 0 if a == b else self.kind(a, b).distance

    def link_count(self, a: str, b: str) -> int:
        """How many point-to-point links join two cards; 0 behind a switch, which has them all."""
        return sum(link.count for link in self.links if {link.a, link.b} == {a, b})

    def pair_score(self, a: str, b: str) -> int:
        """How well two different cards are joined: their PCIe path, and 100 for each NVLink between them.

        The numbers are those of NVIDIA's go-gpuallocator (other socket 10, same socket 20, host bridge 30, one PCIe
        switch 50, NVLink 100 each), so that its users find the choices they know. Behind an NVSwitch all pairs have
        the same links.
        """
        switched = any({a, b} <= group for group in self.domains.get(LinkKind.NVSWITCH, ()))
        links = max(self.link_count(a, b), _SWITCHED_LINKS if switched else 0)
        paths = (kind for kind in _PATH_SCORE if any({a, b} <= group for group in self._sets(kind, closure=False)))
        return _NVLINK_SCORE * links + _PATH_SCORE[next(paths, LinkKind.SYSTEM)]

    def diameter(self, uuids: Iterable[str]) -> int:
        """The distance of the two that are farthest apart; 0 for one card or none."""
        return max((self.distance(a, b) for a, b in combinations(uuids, 2)), default=0)

    def islands(self, kind: LinkKind) -> tuple[frozenset[str], ...]:
        """The machine's cards as disjoint sets at one level, every card in exactly one, largest set first.

        For NVLINK and NVSWITCH the sets are what the fabric joins, directly or through other cards; for
        NUMA one set per node and each card of unknown node alone; for SYSTEM all cards together.
        """
        if kind is LinkKind.SYSTEM:
            return (frozenset(self.devices),) if self.devices else ()
        groups = join_groups([frozenset((d,)) for d in self.devices] + self._sets(kind))
        return tuple(sorted(groups, key=lambda g: (-len(g), self._first(g))))

    @cached_property
    def _kinds(self) -> dict[frozenset[str], LinkKind]:
        """The nearest kind for every connected pair. Computed once: scheduling asks for all pairs again and
        again.
        """
        known: dict[frozenset[str], LinkKind] = {}
        for kind in reversed(LinkKind):
            for group in self._sets(kind, closure=False):
                known.update({frozenset(pair): kind for pair in combinations(group, 2)})
        return known

    def _sets(self, kind: LinkKind, *, closure: bool = True) -> list[frozenset[str]]:
        """Sets joined by `kind`; with `closure`, NVLINK and NVSWITCH count as one fabric."""
        fabric = (LinkKind.NVLINK, LinkKind.NVSWITCH)
        kinds = fabric if closure and kind in fabric else (kind,)
        found = [frozenset((link.a, link.b)) for link in self.links if link.kind in kinds]
        found += [group for k in kinds for group in self.domains.get(k, ())]
        return found + (self._numa_sets() if kind is LinkKind.NUMA else [])

    def _numa_sets(self) -> list[frozenset[str]]:
        nodes = sorted(set(self.numa.values()))
        return [frozenset(u for u, n in self.numa.items() if n == node) for node in nodes]

    def _first(self, group: Collection[str]) -> int:
        return min(i for i, uuid in enumerate(self.devices) if uuid in group)


def join_groups(groups: Iterable[frozenset[str]]) -> list[frozenset[str]]:
    """Unite sets that share a member until none do.

    >>> [sorted(g) for g in join_groups([frozenset("ab"), frozenset("cd"), frozenset("bc")])]
    [['a', 'b', 'c', 'd']]
    """
    joined: list[frozenset[str]] = []
    for group in groups:
        touching = [g for g in joined if g & group]
        joined = [g for g in joined if not g & group]
        joined.append(group.union(*touching))
    return joined


def topology_facts(topology: Topology) -> dict[str, Any]:
    """Links, NUMA nodes and domains by uuid, ready for JSON."""
    return {
        "links": [[link.a, link.b, str(link.kind), link.count] for link in topology.links],
        "numa": dict(topology.numa),
        "domains": {str(kind): [sorted(group) for group in groups] for kind, groups in topology.domains.items()},
    }


def read_topology(facts: Mapping[str, Any]) -> Topology:
    """What a node's agent told of the paths between its cards: `links`, `numa` and `domains`. Raises ValueError."""
    links = tuple(Link(a, b, LinkKind(kind), count) for a, b, kind, count in facts.get("links", ()))
    domains = {
        LinkKind(kind): tuple(frozenset(group) for group in groups) for kind, groups in facts.get("domains", {}).items()
    }
    numa = facts.get("numa", {})
    uuids = dict.fromkeys(_named(links, numa, domains.values()))
    return Topology(tuple(uuids), links, numa, domains)


def _named(links: Iterable[Link], numa: Iterable[str], domains: Iterable[tuple[frozenset[str], ...]]) -> Iterable[str]:
    yield from (uuid for link in links for uuid in (link.a, link.b))
    yield from numa
    yield from sorted(uuid for groups in domains for group in groups for uuid in group)
