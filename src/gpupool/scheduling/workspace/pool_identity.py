"""Whether two snapshots show the same pool, so that the planning state can follow the change."""

from __future__ import annotations

import numpy as np

from gpupool.scheduling.snapshot.cards import CardTable, HostColumns
from gpupool.scheduling.snapshot.columns import Ints

#: Attributes of a card table that stay equal while a pool has the same cards; compared by identity
#: first.
_STATIC_LISTS = ("uuids", "models", "nodes", "node_labels", "links", "vendors", "offers")


def is_same_pool(old: CardTable, new: CardTable) -> bool:
    """Whether both have the same cards and hosts in the same states; free amounts may differ."""
    for name in _STATIC_LISTS:
        before = getattr(old, name)
        now = getattr(new, name)
        # Hosts hand on what does not change as it is: tuples of a hundred thousand names are
        # then not compared.
        if before is not now and before != now:
            return False
    if _map_profiles(old) != _map_profiles(new):
        return False
    columns = zip(_list_static_columns(old), _list_static_columns(new), strict=True)
    return all(a is b or np.array_equal(a, b) for a, b in columns)


def _list_static_columns(cards: CardTable) -> list[Ints]:
    """Columns that stay equal while a pool has the same cards in the same states."""
    hosts = [] if cards.hosts is None else _list_host_columns(cards.hosts)
    levels = [level.of_node for level in cards.levels]
    return [
        # First, so that lists of different length are unequal before `zip` compares them.
        np.array([len(hosts), len(levels)]),
        cards.model,
        cards.node,
        cards.status,
        cards.memory_bytes,
        cards.untouched_bytes,
    ] + (hosts + levels)


def _map_profiles(cards: CardTable) -> dict[int, object]:
    """What each card in partition mode can be cut into."""
    return {row: cut.profiles for row, cut in cards.layouts.items()}


def _list_host_columns(hosts: HostColumns) -> list[Ints]:
    numa = hosts.numa
    whole = [hosts.cpu_milli, hosts.memory_bytes]
    if numa is None:
        return whole
    return [*whole, numa.node, numa.number, numa.cpu_milli, numa.memory_bytes, numa.of_card]
