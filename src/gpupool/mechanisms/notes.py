"""What a mechanism writes down before it acts, so that whoever comes after a crash can finish or undo.

One directory per allocation, `<state>/prepared/<allocation>`, with `note.json` in it: `{"version": 1,
"mechanism", "allocation", "generation", "step", "before", "made"}`. `before` is what was there before the
first step and is never overwritten; `made` is what preparing makes of it. The note is the last thing
removed. Files are replaced by rename, so a killed agent leaves the old or the new one; nothing is flushed
to disk, because a power cut ends the shares themselves. This module knows no mechanism.
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

from gpupool.base.durable import replacing
from gpupool.base.errors import Refused, StaleGeneration, StateNewer, StateUnusable
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
        path = self.folder(allocation) / "note.json"
        try:
            entry = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except ValueError as problem:
            raise StateUnusable(f"{path} cannot be understood: {problem}") from problem
        if entry["version"] > VERSION:
            raise StateNewer(f"{path} was written by a newer gpupool (version {entry['version']})")
        step = Step(entry.pop("step"))
        del entry["version"]
        return Note(step=step, **entry)

    def open(self, wanted: Note) -> Note:
        """Note that preparing begins. What an earlier attempt found before it began is kept.

        Raises StaleGeneration when the note on record is of a younger generation, Refused when it is of
        another mechanism.
        """
        old = self.read(wanted.allocation)
        if old is None:
            return self.write(wanted)
        self._refuse_stale(old, wanted.generation)
        if old.mechanism != wanted.mechanism:
            raise Refused(f"Allocation {old.allocation} is already prepared on this node by {old.mechanism}")
        return self.write(replace(wanted, before=old.before))

    def close(self, mechanism: str, allocation: str, generation: int) -> Note | None:
        """Note that undoing begins; None when this mechanism has nothing on record. Raises StaleGeneration."""
        old = self.read(allocation)
        if old is None or old.mechanism != mechanism:
            return None
        self._refuse_stale(old, generation)
        releasing = replace(old, step=Step.RELEASING)
        try:
            return self.write(releasing)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            overwrite_file(self.folder(allocation) / "note.json", _entry(releasing))
            return releasing

    def write(self, note: Note) -> Note:
        folder = self.folder(note.allocation)
        folder.mkdir(parents=True, exist_ok=True)
        for directory in (self._root, folder):
            directory.chmod(PASSED_THROUGH)
        replace_file(folder / "note.json", _entry(note), directory_mode=PASSED_THROUGH)
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
        """The notes of one mechanism, by allocation."""
        names = sorted(p.name for p in self._root.iterdir()) if self._root.is_dir() else []
        notes = (self.read(name) for name in names)
        return (note for note in notes if note is not None and note.mechanism == mechanism)

    @staticmethod
    def _refuse_stale(on_record: Note, generation: int) -> None:
        if generation < on_record.generation:
            raise StaleGeneration(
                f"Allocation {on_record.allocation} is at generation {on_record.generation} on this node; "
                f"generation {generation} is older and was not applied",
                on_record=on_record.generation,
                named=generation,
            )


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
    text = (json.dumps(document, sort_keys=True, indent=1) + "\n").encode()
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.pwrite(descriptor, text.ljust(os.fstat(descriptor).st_size), 0)
    finally:
        os.close(descriptor)
    path.with_name(f"{path.name}.new").unlink(missing_ok=True)  # the attempt before, which found no room


def replace_file(path: Path, document: Mapping[str, Any], directory_mode: int = 0o755) -> None:
    """Write JSON that readers see whole or not at all. Readable by all: jobs run as other users."""
    replace_text(path, json.dumps(document, sort_keys=True, indent=1) + "\n", directory_mode)


def replace_text(path: Path, text: str, directory_mode: int = 0o755) -> None:
    """The same for any text."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.parent.chmod(directory_mode)  # whatever the agent's umask
    with replacing(path, mode=0o644) as file:
        os.fchmod(file.fileno(), 0o644)  # whatever the agent's umask
        file.write(text.encode())
