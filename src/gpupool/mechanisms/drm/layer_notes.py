"""Stores what a layer is about to add to an allocation, in `note-<layer>.json` beside the mechanism's.

As for mechanisms: the note is on disk before the step that it announces, what was there before the
first attempt is kept, and a younger generation is never undone by an older one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpupool.base.durable import make_directory_durably, write_durably
from gpupool.base.errors import StaleGeneration, StateNewer
from gpupool.mechanisms.notes import PASSED_THROUGH, VERSION, NoteBook


@dataclass(frozen=True)
class LayerNote:
    """The record of one layer of one allocation."""

    allocation: str
    generation: int
    before: Mapping[str, Any] = field(default_factory=dict)
    made: Mapping[str, Any] = field(default_factory=dict)


class LayerNotes:
    """The notes of one layer below an agent's state directory. One agent at a time writes."""

    def __init__(self, layer: str, state_dir: Path) -> None:
        self._name = f"note-{layer}.json"
        self._book = NoteBook(state_dir)
        self._state_dir = state_dir

    def read_note(self, allocation: str) -> LayerNote | None:
        """Return a note; None where there is none, or none that can be understood.

        Raises StateNewer when a newer gpupool wrote it.
        """
        path = self._book.locate_folder(allocation) / self._name
        try:
            entry = json.loads(path.read_text(encoding="utf-8"))
            version = entry.pop("version")
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None
        if version > VERSION:
            raise StateNewer(f"{path} was written by a newer gpupool (version {version})")
        try:
            return LayerNote(**entry)
        except TypeError:
            return None

    def begin(self, wanted: LayerNote) -> LayerNote:
        """Write a note and return it with what an earlier attempt found there before.

        It is on disk when this returns. Raises StaleGeneration for an older generation.
        """
        old = self.read_note(wanted.allocation)
        if old is not None:
            refuse_stale(old, wanted.generation)
            before = {**wanted.before, **old.before}
            wanted = LayerNote(wanted.allocation, wanted.generation, before, wanted.made)
        folder = self._book.locate_folder(wanted.allocation)
        make_directory_durably(folder, mode=PASSED_THROUGH)
        entry = {
            "version": VERSION,
            "allocation": wanted.allocation,
            "generation": wanted.generation,
            "before": dict(wanted.before),
            "made": dict(wanted.made),
        }
        text = json.dumps(entry, sort_keys=True, indent=1) + "\n"
        write_durably(folder / self._name, text.encode(), mode=0o644)
        return wanted

    def remove_note(self, allocation: str) -> None:
        """Remove the note. Idempotent."""
        (self._book.locate_folder(allocation) / self._name).unlink(missing_ok=True)

    def iterate_notes(self) -> Iterator[LayerNote]:
        """Yield the notes of all allocations, by allocation."""
        for path in sorted((self._state_dir / "prepared").glob(f"*/{self._name}")):
            note = self.read_note(path.parent.name)
            if note is not None:
                yield note


def refuse_stale(on_record: LayerNote, generation: int) -> None:
    """Raise StaleGeneration where the record has a younger generation."""
    if generation < on_record.generation:
        raise StaleGeneration(
            f"Allocation {on_record.allocation} is at generation {on_record.generation} on this node; "
            f"generation {generation} is older and was not applied",
            on_record=on_record.generation,
            named=generation,
        )
