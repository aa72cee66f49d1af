"""Nodes that are alike when empty: what a policy asks again each time it begins anew, worked out once for a pool.

Depends on columns that stay the same objects from one snapshot of a pool to the next. Knows no claims.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpupool.scheduling.free import UNLIMITED
from gpupool.scheduling.host_resource import MAIN_MEMORY, PROCESSORS, HostResource
from gpupool.scheduling.snapshot import Cards, Ints

#: Pools whose makes are kept: an ordinary process has one.
_KEPT = 4


@dataclass(frozen=True)
class Makes:
    """`of_node` numbers the makes of nodes in the order of the first node of each; the other columns are by make."""

    of_node: Ints
    models: tuple[tuple[int, ...], ...]
    seats: Ints
    processors: Ints
    main_memory: Ints
    """Of an empty host; UNLIMITED where that is not known."""
    memory: Ints
    """Of the smallest card; UNLIMITED without a card."""
    card_sizes: tuple[tuple[int, int], ...]
    """Models and bytes of memory of the cards that there are."""

    def host(self, resource: HostResource) -> Ints:
        return self.processors if resource is PROCESSORS else self.main_memory


_known: list[tuple[tuple[object, ...], Makes]] = []


def makes_of(cards: Cards) -> Makes:
    """The makes of a pool's nodes; the same object while the pool's cards and hosts are the same."""
    columns = _columns(cards)
    for number, (seen, makes) in enumerate(_known):
        if all(one is other for one, other in zip(columns, seen, strict=True)):
            _known.insert(0, _known.pop(number))
            return makes
    makes = _worked_out(cards)
    _known.insert(0, (columns, makes))
    del _known[_KEPT:]
    return makes


def _columns(cards: Cards) -> tuple[object, ...]:
    hosts = (None, None) if cards.hosts is None else (cards.hosts.cpu_milli, cards.hosts.memory_bytes)
    return cards.nodes, cards.model, cards.node, cards.memory_bytes, *hosts


def _worked_out(cards: Cards) -> Makes:
    on_node: list[set[int]] = [set() for _ in cards.nodes]
    for node, model in zip(cards.node.tolist(), cards.model.tolist(), strict=True):
        on_node[node].add(model)
    models = [tuple(sorted(one)) for one in on_node]
    number = len(cards.nodes)
    memory = np.full(number, UNLIMITED, dtype=np.int64)
    np.minimum.at(memory, cards.node, cards.memory_bytes)
    hosts = [resource.of_hosts(cards) for resource in (PROCESSORS, MAIN_MEMORY)]
    known = [np.full(number, UNLIMITED) if host is None else host for host in hosts]
    columns = np.stack([np.bincount(cards.node, minlength=number), *known, memory])
    keys = list(zip(models, *columns.tolist(), strict=True))
    numbers = {key: make for make, key in enumerate(dict.fromkeys(keys))}
    of_node = np.array([numbers[key] for key in keys], dtype=np.int64)
    first = np.unique(of_node, return_index=True)[1]
    seats, processors, main_memory, smallest = columns[:, first]
    sizes = sorted(set(zip(cards.model.tolist(), cards.memory_bytes.tolist(), strict=True)))
    return Makes(
        of_node=of_node,
        models=tuple(models[node] for node in first.tolist()),
        seats=seats,
        processors=processors,
        main_memory=main_memory,
        memory=smallest,
        card_sizes=tuple(sizes),
    )
