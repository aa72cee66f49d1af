"""The key of the secrets in a backup: whether it is included, and where it goes at a restore."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from pathlib import Path

from gpupool.base.errors import GpupoolError, SecretKeyWrong
from gpupool.base.settings import PoolPaths
from gpupool.host.settings.secret_key import find_key_file
from gpupool.store.secrets.key_file import KeyFile, parse_keys

#: Column of the description of a backup.
_KEYS = "keys"


@dataclass(frozen=True)
class BackupKey:
    """What a backup knows of its key; `text` is the key file where it is included."""

    key_id: str | None
    place: Path
    text: str | None = None

    @classmethod
    def find(cls, database: Path, place: Path, *, wanted: bool) -> BackupKey:
        """Find the key of a database's secrets.

        Raises SecretKeyMissing, SecretKeyWrong or SecretKeyUnusable where it is wanted and cannot
        be had.
        """
        key_id = read_stored_key_id(database)
        if key_id is None or not wanted:
            return cls(key_id, place)
        known = {key.id for key in KeyFile(place).read()}
        if key_id not in known:
            raise SecretKeyWrong(
                f"the secrets need the key {key_id}, and {place} has {', '.join(sorted(known))}",
                hint="name the server's file: GPUPOOL_SECRET_KEY_FILE=FILE gpupool backup",
                file=str(place),
                key=key_id,
            )
        return cls(key_id, place, place.read_text(encoding="ascii"))

    def describe(self) -> str:
        """Return what the command says of it."""
        if self.key_id is None:
            return ", without secrets"
        if self.text is not None:
            return f"; the key of its secrets ({self.key_id}) is included: keep it private"
        words = "; its secrets are encrypted by a key that is not included"
        return f"{words} ({self.key_id}): keep a copy of {self.place}"


def read_stored_key_id(database: Path) -> str | None:
    """Return the id of the key of an SQLite database's secrets; None: it has no secrets."""
    connection = sqlite3.connect(database)
    try:
        # A database of an earlier version has no such table.
        found = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'secret_state'")
        if found.fetchone() is None:
            return None
        row = connection.execute("SELECT key_id FROM secret_state").fetchone()
    finally:
        connection.close()
    return None if row is None else str(row[0])


def find_source_keys(source: Path) -> str | None:
    """Return the keys that come with a backup or a copied state directory; None: none do."""
    if source.is_dir():
        # The environment names the new pool's file, not the old one's.
        path = find_key_file({}, PoolPaths(source))
        return path.read_text(encoding="ascii") if path.exists() else None
    connection = sqlite3.connect(f"{source.absolute().as_uri()}?mode=ro", uri=True)
    try:
        columns = connection.execute("SELECT name FROM pragma_table_info('gpupool_backup')")
        if (_KEYS,) not in columns.fetchall():
            return None
        found: str | None = connection.execute("SELECT keys FROM gpupool_backup").fetchone()[0]
        return found
    finally:
        connection.close()


def place_keys(database: Path, keys: str | None, place: Path) -> str:
    """Put the keys in their place; return what is still to be done, for people.

    A file that is there and has the key stays as it is. Raises SecretKeyUnusable.
    """
    key_id = read_stored_key_id(database)
    if key_id is None or _has_key(place, key_id):
        return ""
    if keys is not None and not place.exists():
        parsed = parse_keys(keys, "the backup")
        KeyFile(place).replace(parsed)
        if key_id in {key.id for key in parsed}:
            return ""
    return f"; its secrets need the key {key_id}: put the old pool's key file at {place}"


def _has_key(place: Path, key_id: str) -> bool:
    try:
        return key_id in {key.id for key in KeyFile(place).read()}
    except GpupoolError:
        return False
