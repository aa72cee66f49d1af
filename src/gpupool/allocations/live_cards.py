"""The cards' and hosts' columns as they are now: read once, then corrected by the notes of every commit.

In memory, for `mirror`, which holds the lock. A note has absolute values and a generation; one that is older than what
is known says nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gpupool.allocations.columns import cards_of
from gpupool.allocations.notes import CardNote, HostNote
from gpupool.base.units import WHOLE
from gpupool.scheduling.snapshot import CARD_STATUS, Cards, CardStatus, Cut

_UNHEALTHY = CARD_STATUS.index(CardStatus.UNHEALTHY)


class LiveCards:
    """`columns` are changed in place; None until they were read. `index`: by uuid, the place in them."""

    def __init__(self) -> None:
        self.columns: Cards | None = None
        self.index: Mapping[str, int] = {}
        self._cuts: dict[int, Cut] = {}
        self._node_at: dict[str, int] = {}
        self._node_generation: dict[str, int] = {}

    def load(self, rows: Sequence[Any]) -> None:
        """From rows as `columns.read_rows` gives them."""
        self.columns = cards_of(rows)
        self._cuts = dict(self.columns.cuts)
        self.index = {uuid: n for n, uuid in enumerate(self.columns.uuids)}
        self._node_at = {name: n for n, name in enumerate(self.columns.nodes)}
        self._node_generation = {row.node: row.node_generation for row in rows}

    def note_cards(self, notes: Iterable[CardNote]) -> None:
        for note in notes:
            at, cards = self.index.get(note.uuid), self.columns
            if cards is not None and at is not None and cards.generation[at] < note.generation:
                cards.free_milli[at] = WHOLE - note.used_milli
                cards.free_bytes[at] = cards.memory_bytes[at] - note.used_bytes
                cards.generation[at] = note.generation
                if at in self._cuts:
                    self._cuts[at] = replace(self._cuts[at], taken=note.pieces)

    def note_hosts(self, notes: Iterable[HostNote]) -> None:
        hosts = None if self.columns is None else self.columns.hosts
        for note in notes:
            at = self._node_at.get(note.node)
            if hosts is not None and at is not None and self._node_generation[note.node] < note.generation:
                hosts.free_cpu_milli[at] = hosts.cpu_milli[at] - note.used_cpu_milli
                hosts.free_memory_bytes[at] = hosts.memory_bytes[at] - note.used_bytes
                if hosts.numa is not None:
                    hosts.numa.note(at, note.numa)
                self._node_generation[note.node] = note.generation

    def frozen(self) -> Cards:
        """A copy that no later note changes."""
        if self.columns is None:
            raise RuntimeError("the mirror was never loaded")
        cards = replace(
            self.columns,
            free_milli=self.columns.free_milli.copy(),
            free_bytes=self.columns.free_bytes.copy(),
            generation=self.columns.generation.copy(),
            cuts=dict(self._cuts),
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

    def unhealthy(self) -> set[int]:
        """Places of cards that are not well."""
        return set() if self.columns is None else set(np.flatnonzero(self.columns.status == _UNHEALTHY).tolist())
