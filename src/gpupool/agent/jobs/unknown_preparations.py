"""Undoes what earlier agents prepared for allocations that have no record here any more.

A step that cannot be undone now, such as a card that a process still has open, is tried again with
later heartbeats.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from pathlib import Path

from gpupool.base.errors import GpupoolError
from gpupool.mechanisms.contract import Mechanism
from gpupool.mechanisms.notes import NoteBook
from gpupool.mechanisms.pci.handover_record import UNDO_FILE
from gpupool.mechanisms.preparation import unprepare_allocation
from gpupool.mechanisms.registry import MECHANISMS

log = logging.getLogger(__name__)


class UnknownPreparations:
    """The preparations of one node that belong to no allocation of its agent."""

    def __init__(self, state_dir: Path, list_known: Callable[[], Collection[str]]) -> None:
        self._state_dir = state_dir
        self._list_known = list_known
        #: Whether the last attempt left something.
        self.has_rest = False

    def undo_all(self) -> None:
        """Undo each of them, and log what cannot be undone yet. Idempotent."""
        self.has_rest = False
        known = frozenset(self._list_known())
        for mechanism in MECHANISMS.values():
            for allocation, prepared in mechanism.observe(self._state_dir).items():
                if allocation not in known:
                    self._undo_one(mechanism, allocation, prepared.generation)
        self._remove_damaged(known)

    def _undo_one(self, mechanism: Mechanism, allocation: str, generation: int) -> None:
        try:
            unprepare_allocation(mechanism, allocation, generation, self._state_dir)
        except GpupoolError as error:
            self.has_rest = True
            log.warning("what was prepared for %s stays for now: %s", allocation, error.message)

    def _remove_damaged(self, known: Collection[str]) -> None:
        book = NoteBook(self._state_dir)
        for damaged in book.list_damaged():
            log.error("%s", damaged.error)
            # A hand-over has its undo in a file of its own, which must outlive the damaged note.
            folder = book.locate_folder(damaged.allocation)
            if damaged.allocation not in known and not (folder / UNDO_FILE).exists():
                book.remove_note(damaged.allocation)
