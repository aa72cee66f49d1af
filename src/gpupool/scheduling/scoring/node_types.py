"""Groups of nodes that are equal when empty, computed once for a pool.

A policy asks for them each time it starts. The cache key is the identity of columns, which stay the
same objects from one snapshot of a pool to the next. The module knows no claims.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpupool.scheduling.filtering.free_capacity import UNLIMITED
from gpupool.scheduling.scoring.host_resource import MAIN_MEMORY, PROCESSORS, HostResource
from gpupool.scheduling.snapshot.cards import CardTable
from gpupool.scheduling.snapshot.columns import Ints

#: Pools whose makes are kept: an ordinary process has one.
_KEPT = 4


@dataclass(frozen=True)
class NodeTypes:
    """The types of nodes. `of_node` is the type of each node; the other columns are by type.

    Types are numbered in the order of their first node.
    """

    of_node: Ints
    models: tuple[tuple[int, ...], ...]
    seats: Ints
    processors: Ints
    #: Of an empty host; UNLIMITED where that is not known.
    main_memory: Ints
    #: Of the smallest card; UNLIMITED without a card.
    memory: Ints
    #: Models and bytes of memory of the cards that there are.
    card_sizes: tuple[tuple[int, int], ...]

    def get_host(self, resource: HostResource) -> Ints:
        """Return the total amount of the resource on an empty host, by type."""
        return self.processors if resource is PROCESSORS else self.main_memory


_known: list[tuple[tuple[object, ...], NodeTypes]] = []


def find_node_types(cards: CardTable) -> NodeTypes:
    """Return the node types of a pool; the same object while its cards and hosts are the same."""
    columns = _list_columns(cards)
    for number, (seen, makes) in enumerate(_known):
        # By identity: hosts hand on columns that have not changed, and comparing them costs as much
        # as grouping.
        if all(one is other for one, other in zip(columns, seen, strict=True)):
            _known.insert(0, _known.pop(number))
            return makes
    makes = _group_nodes(cards)
    _known.insert(0, (columns, makes))
    del _known[_KEPT:]
    return makes


def _list_columns(cards: CardTable) -> tuple[object, ...]:
    hosts = (
        (None, None) if cards.hosts is None else (cards.hosts.cpu_milli, cards.hosts.memory_bytes)
    )
    return cards.nodes, cards.model, cards.node, cards.memory_bytes, *hosts


def _group_nodes(cards: CardTable) -> NodeTypes:
    on_node: list[set[int]] = [set() for _ in cards.nodes]
    for node, model in zip(cards.node.tolist(), cards.model.tolist(), strict=True):
        on_node[node].add(model)
    models = [tuple(sorted(one)) for one in on_node]
    number = len(cards.nodes)
    memory = np.full(number, UNLIMITED, dtype=np.int64)
    np.minimum.at(memory, cards.node, cards.memory_bytes)
    hosts = [resource.get_capacity(cards) for resource in (PROCESSORS, MAIN_MEMORY)]
    known = [np.full(number, UNLIMITED) if host is None else host for host in hosts]
    columns = np.stack([np.bincount(cards.node, minlength=number), *known, memory])
    keys = list(zip(models, *columns.tolist(), strict=True))
    numbers = {key: make for make, key in enumerate(dict.fromkeys(keys))}
    of_node = np.array([numbers[key] for key in keys], dtype=np.int64)
    first = np.unique(of_node, return_index=True)[1]
    seats, processors, main_memory, smallest = columns[:, first]
    sizes = sorted(set(zip(cards.model.tolist(), cards.memory_bytes.tolist(), strict=True)))
    return NodeTypes(
        of_node=of_node,
        models=tuple(models[node] for node in first.tolist()),
        seats=seats,
        processors=processors,
        main_memory=main_memory,
        memory=smallest,
        card_sizes=tuple(sizes),
    )
