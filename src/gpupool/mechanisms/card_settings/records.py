"""Stores what a card was set to before a mechanism changed it, and the allocations that need that.

One directory per card, `<root>/<key>`, with `card.json` in it. The record is on disk before the
first change of the card, and is removed after the setting of before is back. So an agent that was
killed at any step finds what to restore. All that belongs to the card's change lies in the same
directory.
"""

from __future__ import annotations

import errno
import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from gpupool.base.durable import make_directory_durably, write_durably
from gpupool.base.errors import DamagedRecord, ServiceUnavailable
from gpupool.base.files.trees import remove_tree
from gpupool.mechanisms.notes import PASSED_THROUGH, overwrite_file

#: Version of the record's format.
VERSION = 1


@dataclass(frozen=True)
class CardUse:
    """What one allocation has of the card."""

    generation: int
    gpu_milli: int
    memory_bytes: int


@dataclass(frozen=True)
class CardRecord:
    """The record of one card.

    Attributes:
        before: the setting that is restored at the end.
        tenant: of all its users; they have one tenant and one account.
        variant: which form of the helper serves the card.
        waiting_since_ns: since when its helper is waited for, UTC; 0 where it is not.
    """

    uuid: str
    before: str
    tenant: str = ""
    uid: int = 0
    gid: int = 0
    users: Mapping[str, CardUse] = field(default_factory=dict)
    variant: str = ""
    waiting_since_ns: int = 0

    def with_user(self, allocation: str, use: CardUse) -> CardRecord:
        """Return the record with one more user, or with another use of the same one."""
        return replace(self, users={**self.users, allocation: use})

    def without_users(self, gone: set[str]) -> CardRecord:
        """Return the record without some users."""
        return replace(self, users={a: use for a, use in self.users.items() if a not in gone})


class CardRecordBook:
    """The records below one directory. One agent writes; its caller serializes the calls."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def locate_folder(self, uuid: str) -> Path:
        """Return the directory of a card. Its path is short, since sockets lie below it."""
        return self._root / hashlib.sha256(uuid.encode()).hexdigest()[:10]

    def read_record(self, uuid: str) -> CardRecord | None:
        """Return the record of a card; None where nothing was changed.

        Raises:
            DamagedRecord: the file cannot be understood.
        """
        return _load_record(self.locate_folder(uuid))

    def list_records(self) -> list[CardRecord]:
        """Return all records that can be read, in a stable order."""
        found = list[CardRecord]()
        for folder in self._list_folders():
            try:
                record = _load_record(folder)
            except DamagedRecord:
                continue  # its card is refused by `read_record`, which names the file
            if record is not None:
                found.append(record)
        return found

    def list_empty_folders(self) -> list[Path]:
        """Return the directories without a record: an agent was killed while it made them."""
        return [one for one in self._list_folders() if not (one / "card.json").exists()]

    def write_record(self, record: CardRecord) -> CardRecord:
        """Write a record. It is on disk when this returns.

        On a full disk the old one is written over: what releases a card must work there.
        """
        folder = self.locate_folder(record.uuid)
        make_directory_durably(folder, mode=PASSED_THROUGH)
        for directory in (self._root, folder):
            directory.chmod(PASSED_THROUGH)  # whatever the agent's umask
        path = folder / "card.json"
        document = {"version": VERSION, **asdict(record)}
        text = json.dumps(document, sort_keys=True, indent=1)
        try:
            write_durably(path, f"{text}\n".encode())
        except OSError as error:
            if error.errno != errno.ENOSPC or not path.exists():
                raise
            overwrite_file(path, document)
        return record

    def remove_record(self, uuid: str) -> None:
        """Remove a card's directory, the record last. Idempotent.

        Raises:
            ServiceUnavailable: an entry cannot be removed, such as one in a directory into which
                its owner still writes.
        """
        folder = self.locate_folder(uuid)
        if not folder.is_dir():
            return
        try:
            for entry in folder.iterdir():
                if entry.name != "card.json":
                    remove_tree(entry) if entry.is_dir() else entry.unlink()
            (folder / "card.json").unlink(missing_ok=True)
            folder.rmdir()
        except OSError as error:
            raise ServiceUnavailable(
                f"The record of card {uuid} cannot be removed: {error}",
                hint=f"see what uses it: fuser -v {folder}",
            ) from error

    def _list_folders(self) -> list[Path]:
        return sorted(self._root.iterdir()) if self._root.is_dir() else []


def _load_record(folder: Path) -> CardRecord | None:
    path = folder / "card.json"
    try:
        return _parse_record(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise DamagedRecord(
            f"{path} cannot be understood: {problem}",
            hint="restore the card by hand (nvidia-smi -q -d COMPUTE), then remove the file",
        ) from problem


def _parse_record(document: dict[str, Any]) -> CardRecord:
    version = document.pop("version")
    if version != VERSION:
        raise ValueError(f"version {version}, {VERSION} is the one known")
    users = {name: CardUse(**use) for name, use in document.pop("users").items()}
    return CardRecord(users=users, **document)
