"""What a mechanism writes down before it acts, so that whoever comes after a crash can finish or undo.

One directory per allocation, `<state>/prepared/<allocation>`, with `note.json` in it: `{"version": 1,
"mechanism", "allocation", "generation", "step", "before", "made"}`. `before` is what was there before the
first step and is never overwritten; `made` is what preparing makes of it. The note is the last thing
removed. Files are replaced by rename, so a killed agent leaves the old or the new one. A note is on disk before the
step that it announces: after a power cut the next agent knows what to undo. That undoing begins is not flushed, since
the note before it says as much; a note that a power cut tore all the same is damaged and undone like any other.
Everything that the mechanisms of this version make lies in the allocation's directory. This module knows no mechanism.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gpupool.base.durable import make_directory_durably, replacing, write_durably
from gpupool.base.errors import RecordDamaged, Refused, StaleGeneration, StateNewer
from gpupool.mechanisms.contract import Step

VERSION = 1
PASSED_THROUGH = 0o711
"""Mode of directories that jobs of other users reach their own files through; their names are nobody else's to list."""


@dataclass(frozen=True)
class Note:
    mechanism: str
    allocation: str
    generation: int
    step: Step
    before: Mapping[str, Any] = field(default_factory=dict)
    made: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Damaged:
    """An allocation of which the note cannot be read."""

    allocation: str
    error: RecordDamaged


class NoteBook:
    """The notes below one agent's state directory. One agent at a time writes; it holds the pool's lock."""

    def __init__(self, state_dir: Path) -> None:
        self.state_dir = state_dir
        self._root = state_dir / "prepared"

    def folder(self, allocation: str) -> Path:
        """Where an allocation's files lie; the name must be a plain one, since it comes from outside."""
        if not allocation or allocation.startswith(".") or "/" in allocation or "\0" in allocation:
            raise ValueError(f"not an allocation id: {allocation!r}")
        return self._root / allocation

    def read(self, allocation: str) -> Note | None:
        """None where there is none. Raises RecordDamaged, StateNewer."""
        path = self.folder(allocation) / "note.json"
        try:
            return _note(path)
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError, AttributeError) as problem:
            raise RecordDamaged(
                f"{path} cannot be understood: {problem}", hint="what it is about is undone when its job has ended"
            ) from problem

    def find(self, allocation: str) -> Note | None:
        """The same, and None for a damaged one: for those who only ask what there is. Raises StateNewer."""
        try:
            return self.read(allocation)
        except RecordDamaged:
            return None

    def damaged(self) -> list[Damaged]:
        """Those that cannot be read, by allocation."""
        found = list[Damaged]()
        for name in self._names():
            try:
                self.read(name)
            except RecordDamaged as error:
                found.append(Damaged(name, error))
        return found

    def open(self, wanted: Note) -> Note:
        """Note that preparing begins. What an earlier attempt found before it began is kept.

        Raises StaleGeneration when the note on record is of a younger generation, Refused when it is of
        another mechanism. A damaged note is written anew.
        """
        old = self.find(wanted.allocation)
        if old is None:
            return self.write(wanted)
        self._refuse_stale(old, wanted.generation)
        if old.mechanism != wanted.mechanism:
            raise Refused(f"Allocation {old.allocation} is already prepared on this node by {old.mechanism}")
        return self.write(replace(wanted, before=old.before))

    def close(self, mechanism: str, allocation: str, generation: int) -> Note | None:
        """Note that undoing begins; None when this mechanism has nothing on record. Raises StaleGeneration.

        A damaged note is taken for one of the mechanism that asks, whom its job's checkpoint names, and left as it is.
        """
        try:
            old = self.read(allocation)
        except RecordDamaged:
            return Note(mechanism, allocation, generation, Step.RELEASING)
        if old is None or old.mechanism != mechanism:
            return None
        self._refuse_stale(old, generation)
        releasing = replace(old, step=Step.RELEASING)
        try:
            replace_file(self.folder(allocation) / "note.json", _entry(releasing), directory_mode=PASSED_THROUGH)
            return releasing
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            overwrite_file(self.folder(allocation) / "note.json", _entry(releasing))
            return releasing

    def write(self, note: Note) -> Note:
        """It is on disk when this returns. Blocks for up to four flushes."""
        folder = self.folder(note.allocation)
        make_directory_durably(folder, mode=PASSED_THROUGH)
        for directory in (self._root, folder):
            directory.chmod(PASSED_THROUGH)  # whatever the agent's umask
        write_durably(folder / "note.json", _text(_entry(note)).encode(), mode=0o644)
        return note

    def forget(self, allocation: str) -> None:
        """Remove the allocation's directory, the note last: half a removal is found and finished."""
        folder = self.folder(allocation)
        if not folder.is_dir():
            return
        for entry in folder.iterdir():
            if entry.name != "note.json":
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        (folder / "note.json").unlink(missing_ok=True)
        folder.rmdir()

    def all(self, mechanism: str) -> Iterator[Note]:
        """The notes of one mechanism, by allocation. Damaged ones are nobody's: see `damaged`."""
        return (note for note in self.every() if note.mechanism == mechanism)

    def every(self) -> Iterator[Note]:
        """The notes of all mechanisms, by allocation, without damaged ones."""
        notes = (self.find(name) for name in self._names())
        return (note for note in notes if note is not None)

    def _names(self) -> list[str]:
        return sorted(path.name for path in self._root.iterdir()) if self._root.is_dir() else []

    @staticmethod
    def _refuse_stale(on_record: Note, generation: int) -> None:
        if generation < on_record.generation:
            raise StaleGeneration(
                f"Allocation {on_record.allocation} is at generation {on_record.generation} on this node; "
                f"generation {generation} is older and was not applied",
                on_record=on_record.generation,
                named=generation,
            )


def _note(path: Path) -> Note:
    entry = json.loads(path.read_text(encoding="utf-8"))
    version = entry.pop("version")
    if version > VERSION:
        raise StateNewer(f"{path} was written by a newer gpupool (version {version})")
    step = Step(entry.pop("step"))
    return Note(step=step, **entry)


def _entry(note: Note) -> dict[str, Any]:
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
    """Write JSON over the blocks a file has, for a disk that has no other: one write, which a kill does not cut."""
    text = _text(document).encode()
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.pwrite(descriptor, text.ljust(os.fstat(descriptor).st_size), 0)
    finally:
        os.close(descriptor)
    path.with_name(f"{path.name}.new").unlink(missing_ok=True)  # the attempt before, which found no room


def replace_file(path: Path, document: Mapping[str, Any], directory_mode: int = 0o755) -> None:
    """Write JSON that readers see whole or not at all. Readable by all: jobs run as other users."""
    replace_text(path, _text(document), directory_mode)


def _text(document: Mapping[str, Any]) -> str:
    return json.dumps(document, sort_keys=True, indent=1) + "\n"


def replace_text(path: Path, text: str, directory_mode: int = 0o755) -> None:
    """The same for any text."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.parent.chmod(directory_mode)  # whatever the agent's umask
    with replacing(path, mode=0o644) as file:
        os.fchmod(file.fileno(), 0o644)  # whatever the agent's umask
        file.write(text.encode())
