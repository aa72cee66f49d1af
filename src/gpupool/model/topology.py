"""How near the cards of one machine are to each other.

Two sources of nearness are kept apart, because they disagree on real machines: point-to-point
`links` (NVLink between two cards) and `domains`, sets in which every pair has the same kind of path
(behind one NVSwitch fabric, one PCIe switch, one host bridge, one NUMA node). On an 8-card NVSwitch
board all pairs are one NVSwitch hop apart while the same cards still hang off two NUMA nodes. This
room only measures; choosing by it is scheduling's work.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from itertools import combinations
from typing import Any


class LinkKind(StrEnum):
    """The kinds of path, nearest first; SYSTEM (across CPU sockets) is what remains when nothing
    nearer is known.
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
#: Links of a card into an NVSwitch fabric that does not say how many (H100 to B200 have so many).
#: Pairwise detection sees none of them; every pair behind the switch has them all.
_SWITCHED_LINKS = 18


@dataclass(frozen=True)
class DeviceLink:
    """A point-to-point connection of `count` lanes or bricks between two cards; the direction has
    no meaning.
    """

    a: str
    b: str
    kind: LinkKind = LinkKind.NVLINK
    count: int = 1


@dataclass(frozen=True)
class Topology:
    """The cards of one machine and what connects them.

    `numa` maps uuid to NUMA node and lacks the cards whose node is unknown. `domains` maps a kind
    to disjoint sets of uuids. Cards named in neither are SYSTEM apart.
    """

    devices: tuple[str, ...] = ()
    links: tuple[DeviceLink, ...] = ()
    numa: Mapping[str, int] = field(default_factory=dict, hash=False)
    domains: Mapping[LinkKind, tuple[frozenset[str], ...]] = field(default_factory=dict, hash=False)

    def find_kind(self, a: str, b: str) -> LinkKind:
        """The nearest kind of path between two different cards."""
        return self._kind_by_pair.get(frozenset((a, b)), LinkKind.SYSTEM)

    def find_distance(self, a: str, b: str) -> int:
        """0 for the same card, else the distance of the nearest kind of path; symmetric.

        >>> Topology(("x", "y"), (DeviceLink("x", "y", LinkKind.NVLINK, 4),)).find_distance("y", "x")
        1
        """
        return 0 if a == b else self.find_kind(a, b).distance

    def link_count(self, a: str, b: str) -> int:
        """How many point-to-point links join two cards; 0 behind a switch, which has them all."""
        return sum(link.count for link in self.links if {link.a, link.b} == {a, b})

    def pair_score(self, a: str, b: str) -> int:
        """How well two different cards are joined: their PCIe path, and 100 for each NVLink between
        them.

        The numbers are those of NVIDIA's go-gpuallocator (other socket 10, same socket 20, host
        bridge 30, one PCIe switch 50, NVLink 100 each), so that its users find the choices they
        know. Behind an NVSwitch all pairs have the same links.
        """
        is_switched = _is_in_one({a, b}, self.domains.get(LinkKind.NVSWITCH, ()))
        links = max(self.link_count(a, b), _SWITCHED_LINKS if is_switched else 0)
        nearest = LinkKind.SYSTEM
        for kind in _PATH_SCORE:
            if _is_in_one({a, b}, self._list_sets(kind, closure=False)):
                nearest = kind
                break
        return _NVLINK_SCORE * links + _PATH_SCORE[nearest]

    def find_diameter(self, uuids: Iterable[str]) -> int:
        """The distance of the two that are farthest apart; 0 for one card or none."""
        return max((self.find_distance(a, b) for a, b in combinations(uuids, 2)), default=0)

    def list_domains(self, kind: LinkKind) -> tuple[frozenset[str], ...]:
        """The machine's cards as disjoint sets at one level, every card in exactly one, largest set
        first.

        For NVLINK and NVSWITCH the sets are what the fabric joins, directly or through other cards;
        for NUMA one set per node and each card of unknown node alone; for SYSTEM all cards
        together.
        """
        if kind is LinkKind.SYSTEM:
            return (frozenset(self.devices),) if self.devices else ()
        groups = join_groups([frozenset((d,)) for d in self.devices] + self._list_sets(kind))
        return tuple(sorted(groups, key=lambda g: (-len(g), self._find_first(g))))

    @cached_property
    def _kind_by_pair(self) -> dict[frozenset[str], LinkKind]:
        """The nearest kind for every connected pair. Computed once: scheduling asks for all pairs
        again and again.
        """
        known: dict[frozenset[str], LinkKind] = {}
        for kind in reversed(LinkKind):
            for group in self._list_sets(kind, closure=False):
                known.update({frozenset(pair): kind for pair in combinations(group, 2)})
        return known

    def _list_sets(self, kind: LinkKind, *, closure: bool = True) -> list[frozenset[str]]:
        """Sets joined by `kind`; with `closure`, NVLINK and NVSWITCH count as one fabric."""
        fabric = (LinkKind.NVLINK, LinkKind.NVSWITCH)
        kinds = fabric if closure and kind in fabric else (kind,)
        found = []
        for link in self.links:
            if link.kind in kinds:
                found.append(frozenset((link.a, link.b)))
        found += [group for k in kinds for group in self.domains.get(k, ())]
        return found + (self._list_numa_sets() if kind is LinkKind.NUMA else [])

    def _list_numa_sets(self) -> list[frozenset[str]]:
        devices_by_node: dict[int, set[str]] = {}
        for uuid, node in self.numa.items():
            devices_by_node.setdefault(node, set()).add(uuid)
        return [frozenset(devices) for _, devices in sorted(devices_by_node.items())]

    def _find_first(self, group: Collection[str]) -> int:
        return min(self.devices.index(uuid) for uuid in group if uuid in self.devices)


def _is_in_one(pair: set[str], groups: Iterable[frozenset[str]]) -> bool:
    return any(pair <= group for group in groups)


def join_groups(groups: Iterable[frozenset[str]]) -> list[frozenset[str]]:
    """Unite sets that share a member until none do.

    >>> [sorted(g) for g in join_groups([frozenset("ab"), frozenset("cd"), frozenset("bc")])]
    [['a', 'b', 'c', 'd']]
    """
    joined: list[frozenset[str]] = []
    for group in groups:
        apart = []
        for other in joined:
            if other & group:
                group |= other
            else:
                apart.append(other)
        joined = [*apart, group]
    return joined


def write_topology(topology: Topology) -> dict[str, Any]:
    """Write links, NUMA nodes and domains by uuid, ready for JSON; `read_topology` reads them."""
    domains = {}
    for kind, groups in topology.domains.items():
        # Sorted, so that an agent that reports the same machine twice reports the same bytes.
        domains[str(kind)] = [sorted(group) for group in groups]
    return {
        "links": [[link.a, link.b, str(link.kind), link.count] for link in topology.links],
        "numa": dict(topology.numa),
        "domains": domains,
    }


def read_topology(facts: Mapping[str, Any]) -> Topology:
    """Read what an agent reports of the paths between its devices: `links`, `numa`, `domains`.

    Raises:
        ValueError: a kind of link is unknown.
    """
    links = []
    for a, b, kind, count in facts.get("links", ()):
        links.append(DeviceLink(a, b, LinkKind(kind), count))
    domains = {}
    for kind, groups in facts.get("domains", {}).items():
        domains[LinkKind(kind)] = tuple(map(frozenset, groups))
    numa = facts.get("numa", {})
    uuids = dict.fromkeys(_list_devices(links, numa, domains.values()))
    return Topology(tuple(uuids), tuple(links), numa, domains)


def _list_devices(
    links: Iterable[DeviceLink], numa: Iterable[str], domains: Iterable[tuple[frozenset[str], ...]]
) -> Iterable[str]:
    for link in links:
        yield from (link.a, link.b)
    yield from numa
    in_domains: list[str] = []
    for groups in domains:
        for group in groups:
            in_domains += group
    # A set has no order of its own: sorted, so that the same facts give the same topology.
    yield from sorted(in_domains)
