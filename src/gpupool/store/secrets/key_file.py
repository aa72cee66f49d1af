"""The file of keys outside the database: one in base64 a line, the first one encrypts.

Only its owner and, for credentials that a service manager mounts, its group may read it.
"""

from __future__ import annotations

import base64
import binascii
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

from gpupool.base.durable import write_durably
from gpupool.base.errors import SecretKeyMissing, SecretKeyUnusable
from gpupool.store.secrets.cipher import KEY_BYTES, SecretKey, make_key

#: Rights that a key file must not have: to write for the group, any for others.
_FORBIDDEN_MODE: Final = 0o027
_HEAD: Final = (
    "# Keys of gpupool's secrets. The first one encrypts. Keep a copy apart from backups.\n"
)


class SecretKeys(Protocol):
    """Where keys come from."""

    @property
    def place(self) -> str: ...

    def read(self) -> Sequence[SecretKey]:
        """Read the keys, the newest first. Raises SecretKeyMissing, SecretKeyUnusable."""
        ...

    def read_or_make(self) -> Sequence[SecretKey]:
        """Read the keys; make the first where there is none. Raises SecretKeyUnusable."""
        ...

    def replace(self, keys: Sequence[SecretKey]) -> None:
        """Replace all keys, whole or not at all. Raises SecretKeyUnusable."""
        ...


class MemoryKeys:
    """Keys that live as long as their process: of a store without a directory."""

    place = "memory"

    def __init__(self) -> None:
        self._keys: Sequence[SecretKey] = ()

    def read(self) -> Sequence[SecretKey]:
        """Return the keys."""
        return self._keys

    def read_or_make(self) -> Sequence[SecretKey]:
        """Return the keys; make the first where there is none."""
        self._keys = self._keys or (make_key(),)
        return self._keys

    def replace(self, keys: Sequence[SecretKey]) -> None:
        """Replace all keys."""
        self._keys = tuple(keys)


class KeyFile:
    """Keys in a file. Thread-safe, because every change replaces the whole file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def place(self) -> str:
        return str(self._path)

    def read(self) -> Sequence[SecretKey]:
        """Read the keys, the newest first. Raises SecretKeyMissing, SecretKeyUnusable."""
        try:
            with open(self._path, encoding="ascii") as file:
                _check_mode(self._path, os.fstat(file.fileno()).st_mode)
                return parse_keys(file.read(), self.place)
        except FileNotFoundError as error:
            raise SecretKeyMissing(
                f"the key of the pool's secrets is missing: there is no {self._path}",
                hint="put the copy of the key file there (mode 0600), or name it: "
                "GPUPOOL_SECRET_KEY_FILE=FILE gpupool restart",
                file=self.place,
            ) from error
        except (OSError, UnicodeDecodeError) as error:
            raise SecretKeyUnusable(
                f"the key file {self._path} cannot be read: {error}",
                hint=f"ls -l {self._path}",
                file=self.place,
            ) from error

    def read_or_make(self) -> Sequence[SecretKey]:
        """Read the keys; make the file where there is none. Raises SecretKeyUnusable."""
        if not self._path.exists():
            self.replace([make_key()])
        return self.read()

    def replace(self, keys: Sequence[SecretKey]) -> None:
        """Replace the file, which is on disk on return. Raises SecretKeyUnusable."""
        lines = [base64.b64encode(key.material).decode() for key in keys]
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_durably(self._path, (_HEAD + "\n".join(lines) + "\n").encode())
        except OSError as error:
            raise SecretKeyUnusable(
                f"the key file {self._path} cannot be written: {error}",
                hint="write it by hand; a new key as its first line:  head -c 32 /dev/urandom | "
                "base64   then  gpupool secrets rotate",
                file=self.place,
            ) from error


def parse_keys(text: str, place: str) -> Sequence[SecretKey]:
    """Parse the lines of a key file. Raises SecretKeyUnusable."""
    found = list[SecretKey]()
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        try:
            material = base64.b64decode(line.strip(), validate=True)
        except binascii.Error:
            material = b""
        if len(material) != KEY_BYTES:
            raise SecretKeyUnusable(
                f"line {number} of the key file {place} is not a key: got {len(material)} bytes "
                f"of base64, expected {KEY_BYTES}",
                hint="put the copy of the key file there, or remove the line",
                file=place,
            )
        found.append(SecretKey(material))
    if not found:
        raise SecretKeyUnusable(
            f"the key file {place} holds 0 keys, expected 1 or more",
            hint="put the copy of the key file there",
            file=place,
        )
    return found


def _check_mode(path: Path, mode: int) -> None:
    if stat.S_IMODE(mode) & _FORBIDDEN_MODE:
        raise SecretKeyUnusable(
            f"the key file {path} is open to other users: got mode {stat.S_IMODE(mode):04o}, "
            "expected 0600 or 0640",
            hint=f"chmod 600 {path}",
            file=str(path),
        )
