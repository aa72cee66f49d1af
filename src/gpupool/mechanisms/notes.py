"""Stores what a mechanism is about to do, so that the next agent can finish or undo it.

One directory per allocation, `<state>/prepared/<allocation>`, with `note.json` in it: `{"version":
1, "mechanism", "allocation", "generation", "step", "before", "made"}`. `before` is what was there
before the first step and is never overwritten; `made` is what preparing makes of it. All that the
mechanisms of this version make lies in the allocation's directory; the note is removed last. Files
are replaced by rename, so a killed agent leaves the old or the new one. A note is on disk before
the step that it announces: after a power cut the next agent knows what to undo. Imports no
mechanism.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gpupool.base.durable import make_directory_durably, open_replacement, write_durably
from gpupool.base.errors import DamagedRecord, RequestRejection, StaleGeneration, StateNewer
from gpupool.base.files.trees import remove_tree
from gpupool.mechanisms.contract import PreparationStep

#: Version of the note's format; a newer one is not read.
VERSION = 1
#: Mode of directories through which jobs of other users reach their own files, but cannot list the
#: names of others.
PASSED_THROUGH = 0o711


@dataclass(frozen=True)
class PreparationNote:
    """The record of one allocation on this node, as `note.json` holds it."""

    mechanism: str
    allocation: str
    generation: int
    step: PreparationStep
    before: Mapping[str, Any] = field(default_factory=dict)
    made: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class DamagedNote:
    """An allocation of which the note cannot be read."""

    allocation: str
    error: DamagedRecord


class NoteBook:
    """The notes below one agent's state directory.

    One agent at a time writes, which the pool's lock ensures.
    """

    def __init__(self, state_dir: Path) -> None:
        self.state_dir = state_dir
        self._root = state_dir / "prepared"

    def locate_folder(self, allocation: str) -> Path:
        """Return the directory of an allocation's files."""
        # The name comes from outside: a path in it would reach other files.
        if not allocation or allocation.startswith(".") or "/" in allocation or "\0" in allocation:
            raise ValueError(f"not an allocation id: {allocation!r}")
        return self._root / allocation

    def read_note(self, allocation: str) -> PreparationNote | None:
        """Return a note, None where there is none.

        Raises:
            DamagedRecord: the file cannot be understood.
            StateNewer: a newer gpupool wrote it.
        """
        path = self.locate_folder(allocation) / "note.json"
        try:
            return _load_note(path)
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError, AttributeError) as problem:
            raise DamagedRecord(
                f"{path} cannot be understood: {problem}",
                hint="what it is about is undone when its job has ended",
            ) from problem

    def find_note(self, allocation: str) -> PreparationNote | None:
        """Return a note, None where there is none or it is damaged. Raises StateNewer."""
        try:
            return self.read_note(allocation)
        except DamagedRecord:
            return None

    def list_damaged(self) -> list[DamagedNote]:
        """Return the notes that cannot be read, by allocation."""
        found = list[DamagedNote]()
        for name in self._list_names():
            try:
                self.read_note(name)
            except DamagedRecord as error:
                found.append(DamagedNote(name, error))
        return found

    def begin_preparing(self, wanted: PreparationNote) -> PreparationNote:
        """Write that preparing begins; what an earlier attempt found there before is kept.

        A damaged note is written anew. It is on disk when this returns.

        Raises:
            StaleGeneration: the note on record has a younger generation.
            RequestRejection: the note on record is of another mechanism.
        """
        old = self.find_note(wanted.allocation)
        if old is None:
            return self.write_note(wanted)
        self._refuse_stale(old, wanted.generation)
        if old.mechanism != wanted.mechanism:
            raise RequestRejection(
                f"Allocation {old.allocation} is already prepared on this node by {old.mechanism}"
            )
        return self.write_note(replace(wanted, before=old.before))

    def begin_releasing(
        self, mechanism: str, allocation: str, generation: int
    ) -> PreparationNote | None:
        """Write that undoing begins; None when this mechanism has nothing on record.

        Raises:
            StaleGeneration: the note on record has a younger generation.
        """
        try:
            old = self.read_note(allocation)
        except DamagedRecord:
            # The job's checkpoint named this mechanism, so the note was its own. It is left as it
            # is: undoing needs only the directory.
            return PreparationNote(mechanism, allocation, generation, PreparationStep.RELEASING)
        if old is None or old.mechanism != mechanism:
            return None
        self._refuse_stale(old, generation)
        releasing = replace(old, step=PreparationStep.RELEASING)
        # Not flushed: after a power cut the older note makes the next agent undo as well.
        try:
            replace_file(
                self.locate_folder(allocation) / "note.json",
                _build_entry(releasing),
                directory_mode=PASSED_THROUGH,
            )
            return releasing
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            # Releasing must work on a full disk, since it is what frees space.
            overwrite_file(self.locate_folder(allocation) / "note.json", _build_entry(releasing))
            return releasing

    def write_note(self, note: PreparationNote) -> PreparationNote:
        """Write a note; it is on disk when this returns. Blocks for up to four flushes."""
        folder = self.locate_folder(note.allocation)
        make_directory_durably(folder, mode=PASSED_THROUGH)
        for directory in (self._root, folder):
            directory.chmod(PASSED_THROUGH)  # whatever the agent's umask
        write_durably(folder / "note.json", _format_json(_build_entry(note)).encode(), mode=0o644)
        return note

    def remove_note(self, allocation: str) -> None:
        """Remove the allocation's directory. Idempotent."""
        # The note goes last: as long as it is there, the next agent finishes the removal.
        folder = self.locate_folder(allocation)
        if not folder.is_dir():
            return
        for entry in folder.iterdir():
            if entry.name != "note.json":
                remove_tree(entry) if entry.is_dir() else entry.unlink()
        (folder / "note.json").unlink(missing_ok=True)
        folder.rmdir()

    def iterate_mechanism(self, mechanism: str) -> Iterator[PreparationNote]:
        """Yield the notes of one mechanism, by allocation, without damaged ones."""
        return (note for note in self.iterate_all() if note.mechanism == mechanism)

    def iterate_all(self) -> Iterator[PreparationNote]:
        """Yield the notes of all mechanisms, by allocation, without damaged ones."""
        for name in self._list_names():
            note = self.find_note(name)
            if note is not None:
                yield note

    def _list_names(self) -> list[str]:
        return sorted(path.name for path in self._root.iterdir()) if self._root.is_dir() else []

    @staticmethod
    def _refuse_stale(on_record: PreparationNote, generation: int) -> None:
        if generation < on_record.generation:
            raise StaleGeneration(
                f"Allocation {on_record.allocation} is at generation {on_record.generation} on this node; "
                f"generation {generation} is older and was not applied",
                on_record=on_record.generation,
                named=generation,
            )


def _load_note(path: Path) -> PreparationNote:
    entry = json.loads(path.read_text(encoding="utf-8"))
    version = entry.pop("version")
    if version > VERSION:
        raise StateNewer(f"{path} was written by a newer gpupool (version {version})")
    step = PreparationStep(entry.pop("step"))
    return PreparationNote(step=step, **entry)


def _build_entry(note: PreparationNote) -> dict[str, Any]:
    return {
        "version": VERSION,
        "mechanism": note.mechanism,
        "allocation": note.allocation,
        "generation": note.generation,
        "step": note.step,
        "before": dict(note.before),
        "made": dict(note.made),
    }


def overwrite_file(path: Path, document: Mapping[str, Any]) -> None:
    """Write JSON over the blocks that a file already has, for a full disk.

    One write(2), which a kill does not cut.
    """
    text = _format_json(document).encode()
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.pwrite(descriptor, text.ljust(os.fstat(descriptor).st_size), 0)
    finally:
        os.close(descriptor)
    # The attempt before this one found no room and left an empty file.
    path.with_name(f"{path.name}.new").unlink(missing_ok=True)


def replace_file(path: Path, document: Mapping[str, Any], directory_mode: int = 0o755) -> None:
    """Write JSON atomically, readable by all users: jobs run as other users."""
    replace_text(path, _format_json(document), directory_mode)


def _format_json(document: Mapping[str, Any]) -> str:
    return json.dumps(document, sort_keys=True, indent=1) + "\n"


def replace_text(path: Path, text: str, directory_mode: int = 0o755) -> None:
    """Write text atomically, readable by all users."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.parent.chmod(directory_mode)  # whatever the agent's umask
    with open_replacement(path, mode=0o644) as file:
        os.fchmod(file.fileno(), 0o644)  # whatever the agent's umask
        file.write(text.encode())
