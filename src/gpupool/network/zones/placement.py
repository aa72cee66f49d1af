"""Chooses the zone of a network, and of all networks when networking is enabled. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final

#: Networks of one zone, unless an admin says otherwise: one more takes less than 0.3 s there.
USUAL_SIZE: Final = 300
#: What is asked for by number may exceed the size so many times: peered networks need one zone.
MOST_TIMES: Final = 2


@dataclass(frozen=True)
class NetworkGroup:
    """Networks that share a zone, because they are peered.

    Attributes:
        networks: their row ids.
        zone: where they are now.
        is_fixed: zone 0 alone can carry them.
    """

    networks: tuple[int, ...]
    zone: int = 0
    is_fixed: bool = False


def choose_zone(counts: Mapping[int, int], size: int, more: int = 1) -> int:
    """Choose the zone of networks that are new: the emptiest that is not full, else another one.

    Args:
        counts: networks of each zone that is used.
        size: networks of a zone at most.
        more: how many networks there are to place.
    """
    used = {0: 0, **counts}
    free = [zone for zone, present in used.items() if present + more <= size]
    if free:
        return min(free, key=lambda zone: (used[zone], zone))
    return next(zone for zone in count() if not used.get(zone))


def place_groups(groups: Sequence[NetworkGroup], size: int) -> dict[int, int]:
    """Place all networks; returns the zone of each, by its row id.

    A group stays where it is while its zone has room. A group that is larger than a zone gets one
    of its own.
    """
    counts = Counter[int]()
    placed = dict[int, int]()
    # What cannot move comes first: others make room for it.
    for group in sorted(groups, key=lambda group: not group.is_fixed):
        more = len(group.networks)
        if group.is_fixed:
            zone = 0
        elif counts[group.zone] + more <= size:
            zone = group.zone
        else:
            zone = choose_zone(counts, size, more)
        counts[zone] += more
        placed |= dict.fromkeys(group.networks, zone)
    return placed


def group_networks(
    zones: Mapping[int, int], peerings: Sequence[tuple[int, int]], fixed: frozenset[int]
) -> list[NetworkGroup]:
    """Group networks by their peerings, also over others between them.

    Args:
        zones: by row id of each network, its zone now.
        peerings: row ids of both ends of each accepted peering.
        fixed: networks that zone 0 alone can carry.
    """
    leaders = {network: network for network in zones}

    def find_leader(network: int) -> int:
        while leaders[network] != network:
            leaders[network] = leaders[leaders[network]]
            network = leaders[network]
        return network

    for one, other in peerings:
        first, second = sorted((find_leader(one), find_leader(other)))
        leaders[second] = first
    members: dict[int, list[int]] = {}
    for network in sorted(zones):
        members.setdefault(find_leader(network), []).append(network)
    return [
        NetworkGroup(tuple(group), zones[leader], not fixed.isdisjoint(group))
        for leader, group in members.items()
    ]
