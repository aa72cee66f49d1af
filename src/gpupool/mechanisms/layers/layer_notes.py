"""Stores what a layer is about to do, so that the next agent can finish or undo it.

One file for each layer and allocation, `<state>/prepared/<allocation>/note-<layer>.json`:
`{"version": 1, "layer", "allocation", "generation", "step", "before", "made"}`. The rules are those
of `notes`: a note is on disk before the step that it announces, `before` is never overwritten, a
call that names an older generation is refused. Knows no layer.
"""

from __future__ import annotations

import errno
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from gpupool.base.durable import make_directory_durably, write_durably
from gpupool.base.errors import DamagedRecord, StaleGeneration, StateNewer
from gpupool.mechanisms.contract import PreparationStep
from gpupool.mechanisms.notes import PASSED_THROUGH, NoteBook, overwrite_file

#: Version of the format; a newer one is not read.
VERSION: Final = 1
_MODE: Final = 0o644


@dataclass(frozen=True)
class LayerNote:
    """The record of one layer on one allocation."""

    allocation: str
    generation: int
    step: PreparationStep = PreparationStep.PREPARING
    before: Mapping[str, Any] = field(default_factory=dict)
    made: Mapping[str, Any] = field(default_factory=dict)


class LayerNoteBook:
    """The notes of one layer below one agent's state directory; one agent at a time writes."""

    def __init__(self, state_dir: Path, layer: str) -> None:
        self._book = NoteBook(state_dir)
        self._root = state_dir / "prepared"
        self._layer = layer

    def locate_note(self, allocation: str) -> Path:
        return self._book.locate_folder(allocation) / f"note-{self._layer}.json"

    def has_note(self, allocation: str) -> bool:
        return self.locate_note(allocation).exists()

    def read_note(self, allocation: str) -> LayerNote | None:
        """Return the note, None where there is none.

        Raises:
            DamagedRecord: the file cannot be understood.
            StateNewer: a newer gpupool wrote it.
        """
        path = self.locate_note(allocation)
        try:
            return _parse_note(path)
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError, AttributeError) as problem:
            raise DamagedRecord(f"{path} cannot be understood: {problem}") from problem

    def find_note(self, allocation: str) -> LayerNote | None:
        """Return the note, None where there is none or it is damaged. Raises StateNewer."""
        try:
            return self.read_note(allocation)
        except DamagedRecord:
            return None

    def iterate_notes(self) -> Iterator[LayerNote]:
        """Yield the notes of this layer, by allocation, without damaged ones."""
        for path in sorted(self._root.glob(f"*/note-{self._layer}.json")):
            note = self.find_note(path.parent.name)
            if note is not None:
                yield note

    def begin_preparing(self, wanted: LayerNote) -> LayerNote:
        """Write that preparing begins; what an earlier attempt found there before is kept.

        It is on disk when this returns. Raises StaleGeneration where the note on record is younger.
        """
        old = self.find_note(wanted.allocation)
        if old is None:
            return self.write_note(wanted)
        refuse_stale(old, wanted.generation)
        return self.write_note(replace(wanted, before={**wanted.before, **old.before}))

    def begin_releasing(self, allocation: str, generation: int) -> LayerNote | None:
        """Write that undoing begins, and return what to undo; None where nothing can be.

        A damaged note is removed: it does not say what was there before.

        Raises:
            StaleGeneration: the note on record is of a younger generation.
        """
        try:
            old = self.read_note(allocation)
        except DamagedRecord:
            self.remove_note(allocation)
            return None
        if old is None:
            self.remove_note(allocation)  # of a first note that was killed before it had its name
            return None
        refuse_stale(old, generation)
        releasing = replace(old, step=PreparationStep.RELEASING)
        try:
            return self.write_note(releasing)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            # Releasing must work on a full disk, since it is what frees space.
            overwrite_file(self.locate_note(allocation), self._build_entry(releasing))
            return releasing

    def write_note(self, note: LayerNote) -> LayerNote:
        """Write a note; it is on disk when this returns."""
        path = self.locate_note(note.allocation)
        make_directory_durably(path.parent, mode=PASSED_THROUGH)
        text = json.dumps(self._build_entry(note), sort_keys=True, indent=1) + "\n"
        write_durably(path, text.encode(), mode=_MODE)
        return note

    def remove_note(self, allocation: str) -> None:
        """Remove the note, the last step of undoing. Idempotent."""
        path = self.locate_note(allocation)
        path.with_name(f"{path.name}.new").unlink(missing_ok=True)
        path.unlink(missing_ok=True)

    def _build_entry(self, note: LayerNote) -> dict[str, Any]:
        return {
            "version": VERSION,
            "layer": self._layer,
            "allocation": note.allocation,
            "generation": note.generation,
            "step": note.step,
            "before": dict(note.before),
            "made": dict(note.made),
        }


def _parse_note(path: Path) -> LayerNote:
    entry = json.loads(path.read_text(encoding="utf-8"))
    version = entry["version"]
    if version > VERSION:
        raise StateNewer(f"{path} was written by a newer gpupool (version {version})")
    return LayerNote(
        allocation=str(entry["allocation"]),
        generation=int(entry["generation"]),
        step=PreparationStep(entry["step"]),
        before=dict(entry["before"]),
        made=dict(entry["made"]),
    )


def refuse_stale(on_record: LayerNote, generation: int) -> None:
    """Raise StaleGeneration where the record has a younger generation."""
    if generation < on_record.generation:
        raise StaleGeneration(
            f"Allocation {on_record.allocation} is at generation {on_record.generation} on this node; "
            f"generation {generation} is older and was not applied",
            on_record=on_record.generation,
            named=generation,
        )
