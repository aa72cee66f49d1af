"""Columns of cards and hosts: read once, then corrected after every commit.

In memory, for `ledger_cache`, which holds the lock. An update has absolute values and a generation;
one that is older than what is known is ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from gpupool.allocations.cache.card_columns import build_card_columns
from gpupool.allocations.ledger.cache_updates import CardUpdate, HostUpdate
from gpupool.base.units import WHOLE
from gpupool.model.partition import list_foreign_slots
from gpupool.scheduling import CARD_STATUS, CardStatus, CardTable, PartitionLayout

_UNHEALTHY = CARD_STATUS.index(CardStatus.UNHEALTHY)


class LiveCards:
    """The columns of cards and hosts as they are now. Not thread-safe."""

    def __init__(self) -> None:
        #: Changed in place; None until the cards were read.
        self.columns: CardTable | None = None
        #: The row of each card in `columns`, by uuid.
        self.index: Mapping[str, int] = {}
        #: The layouts of cards in partition mode, by row. Apart from `columns`, whose mapping is
        #: shared with snapshots.
        self._cuts: dict[int, PartitionLayout] = {}
        #: Facts of cards in partition mode, by row: they name the slots that foreign pieces take.
        self._facts: dict[int, Mapping[str, Any]] = {}
        #: The number of each node in `columns`, by name.
        self.node_index: Mapping[str, int] = {}
        self._node_generation: dict[str, int] = {}

    def load_rows(
        self,
        rows: Sequence[Any],
        plane_labels: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
    ) -> None:
        """Build the columns from rows of `card_columns.read_card_rows`, and labels of planes."""
        self.columns = build_card_columns(rows, plane_labels)
        self._cuts = dict(self.columns.layouts)
        self._facts = {at: rows[at].facts for at in self._cuts}
        self.index = {uuid: n for n, uuid in enumerate(self.columns.uuids)}
        self.node_index = {name: n for n, name in enumerate(self.columns.nodes)}
        self._node_generation = {row.node: row.node_generation for row in rows}

    def record_cards(self, notes: Iterable[CardUpdate]) -> None:
        """Apply updates of cards; older generations are ignored."""
        for note in notes:
            # None for a card that was added after the last reading; the next one has it.
            at = self.index.get(note.uuid)
            cards = self.columns
            if cards is not None and at is not None and cards.generation[at] < note.generation:
                cards.free_milli[at] = WHOLE - note.used_milli
                cards.free_bytes[at] = cards.memory_bytes[at] - note.used_bytes
                cards.generation[at] = note.generation
                if at in self._cuts:
                    foreign = list_foreign_slots(self._facts[at], note.pieces)
                    slots = tuple(sorted((*note.pieces, *foreign)))
                    self._cuts[at] = replace(self._cuts[at], slots=slots)

    def record_hosts(self, notes: Iterable[HostUpdate]) -> None:
        """Apply updates of hosts; older generations are ignored."""
        hosts = None if self.columns is None else self.columns.hosts
        for note in notes:
            at = self.node_index.get(note.node)
            if (
                hosts is not None
                and at is not None
                and self._node_generation[note.node] < note.generation
            ):
                hosts.free_cpu_milli[at] = hosts.cpu_milli[at] - note.used_cpu_milli
                hosts.free_memory_bytes[at] = hosts.memory_bytes[at] - note.used_bytes
                if hosts.numa is not None:
                    hosts.numa.set_usage(at, note.numa)
                self._node_generation[note.node] = note.generation

    def copy_columns(self, owners: Mapping[int, str] = MappingProxyType({})) -> CardTable:
        """Return a copy of the columns that later updates do not change.

        Args:
            owners: By row, the owner of each card that serves MPS shares.
        """
        if self.columns is None:
            raise RuntimeError("the cache was never loaded")
        # Only the columns that updates change; the others are replaced as a whole when read anew.
        cards = replace(
            self.columns,
            free_milli=self.columns.free_milli.copy(),
            free_bytes=self.columns.free_bytes.copy(),
            generation=self.columns.generation.copy(),
            layouts=dict(self._cuts),
            owners=owners,
        )
        if (hosts := cards.hosts) is None:
            return cards
        free = replace(
            hosts,
            free_cpu_milli=hosts.free_cpu_milli.copy(),
            free_memory_bytes=hosts.free_memory_bytes.copy(),
            numa=hosts.numa and hosts.numa.copy(),
        )
        return replace(cards, hosts=free)

    def find_unhealthy(self) -> set[int]:
        """Return the rows of cards that are not well."""
        if self.columns is None:
            return set()
        return set(np.flatnonzero(self.columns.status == _UNHEALTHY).tolist())
