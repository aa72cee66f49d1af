"""A disk that keeps what was flushed, and of the rest whatever it likes.

Of what was written to a file since its last flush, any 512-byte sectors may be there and any may
not, in any order of age. Of the names that changed in a directory since its last flush, the oldest
so many are there; of what is in a directory whose own name is not there, nothing is. This is what
POSIX leaves open; file systems in use promise more.
"""

from __future__ import annotations

import json
import os
import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SECTOR = 512
_HEADER = struct.Struct("=cIIIQ")


@dataclass(frozen=True)
class Record:
    """One change, flush or acknowledgement, as `record.c` writes it; `a` is an acknowledgement of
    ours."""

    kind: str
    path: str
    other: str
    data: bytes
    at: int


def acknowledge(journal: Path, **said: Any) -> None:
    """Note what a client was told, in order with what the pool wrote."""
    data = json.dumps(said).encode()
    with open(journal, "ab", buffering=0) as file:
        file.write(_HEADER.pack(b"a", 0, 0, len(data), 0) + data)


def records(journal: Path) -> Iterator[Record]:
    text = journal.read_bytes()
    at = 0
    while at < len(text):
        kind, first, second, size, offset = _HEADER.unpack_from(text, at)
        at += _HEADER.size
        parts = []
        for length in (first, second, size):
            parts.append(text[at : at + length])
            at += length
        yield Record(kind.decode(), os.fsdecode(parts[0]), os.fsdecode(parts[1]), parts[2], offset)


@dataclass
class File:
    """`kept` is on disk; `pending` are the writes and cuts since the last flush, oldest first."""

    kept: bytearray = field(default_factory=bytearray)
    pending: list[tuple[int, bytes | None]] = field(default_factory=list)

    def flush(self) -> None:
        for at, data in self.pending:
            _apply(self.kept, at, data)
        self.pending.clear()

    def after_cut(self, chance: random.Random) -> bytes:
        """What may be found of it."""
        found = bytearray(self.kept)
        keep = chance.choice((0.0, 0.1, 0.5, 0.9, 1.0))
        for at, data in self.pending:
            if data is None:
                if chance.random() < keep:
                    _apply(found, at, None)
                continue
            for start in range(0, len(data), SECTOR):
                if chance.random() < keep:
                    _apply(found, at + start, data[start : start + SECTOR])
        return bytes(found)


def _apply(found: bytearray, at: int, data: bytes | None) -> None:
    if data is None:
        del found[at:]
        found.extend(bytes(at - len(found)))
        return
    if len(found) < at + len(data):
        found.extend(bytes(at + len(data) - len(found)))
    found[at : at + len(data)] = data


class Directory(File):
    """A name that holds others."""


@dataclass(frozen=True)
class Change:
    """A name that came, moved or went, with the file it was for."""

    kind: str
    name: str
    other: str
    file: File

    def apply(self, names: dict[str, File]) -> None:
        if self.kind in "cm":
            names[self.name] = self.file
        elif self.kind == "r":
            names.pop(self.name, None)
            names[self.other] = self.file
        else:
            names.pop(self.name, None)


class Disk:
    """Follows the records; `cut` makes one of the disks that a power cut could leave now."""

    def __init__(self) -> None:
        self._now: dict[str, File] = {}
        self._kept: dict[str, File] = {}
        self._changes: dict[str, list[Change]] = {}

    def follow(self, record: Record) -> None:
        if record.kind in "wtz":
            file = self._now.setdefault(record.path, File())
            file.pending.append((record.at, record.data if record.kind == "w" else None))
        elif record.kind == "s":
            self._flush(record.path)
        elif record.kind in "crum":
            self._change(record)

    def _flush(self, path: str) -> None:
        if path in self._now:
            self._now[path].flush()
        for change in self._changes.pop(path, []):
            change.apply(self._kept)

    def _change(self, record: Record) -> None:
        made = {"c": File, "m": Directory}
        file = made[record.kind]() if record.kind in made else self._now.get(record.path, File())
        change = Change(record.kind, record.path, record.other, file)
        change.apply(self._now)
        self._changes.setdefault(os.path.dirname(record.path), []).append(change)

    def cut(self, chance: random.Random) -> dict[str, bytes]:
        """The files that may be found after a power cut now, by path."""
        names = dict(self._kept)
        for changes in self._changes.values():
            for change in changes[: chance.randint(0, len(changes))]:
                change.apply(names)
        return {
            path: file.after_cut(chance)
            for path, file in names.items()
            if not isinstance(file, Directory) and self._is_reached(path, names)
        }

    def _is_reached(self, path: str, names: dict[str, File]) -> bool:
        """Whether every directory above it that was made meanwhile is there."""
        above = (str(one) for one in Path(path).parents)
        return all(one in names for one in above if isinstance(self._now.get(one), Directory))
