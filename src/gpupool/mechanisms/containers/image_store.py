"""Reads which image a name means from the account's own image store, without a call of Podman.

A call of Podman takes 60 ms and more before every job. The store's index is
`DRIVER-images/images.json` of containers/storage (store.go, `Image`). What is not plainly there is
left to Podman: a short name, a store in another place, an index of another form.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

#: Where an account's store lies unless its storage.conf says otherwise (containers-storage.conf(5)).
STORE: Final = Path(".local/share/containers/storage")
_DIGITS: Final = frozenset("0123456789abcdef")


@dataclass(frozen=True)
class StoredImage:
    """An image by the digests of its configuration and its manifest."""

    image_id: str
    digest: str


def find_stored_image(home: Path, name: str) -> StoredImage | None:
    """Find an image by its whole name; None where Podman has to be asked.

    Args:
        home: The account's home directory.
        name: The image's name as its user typed it.
    """
    found: list[StoredImage] = []
    for index in (home / STORE).glob("*-images/images.json"):
        try:
            entries = json.loads(index.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        for entry in entries:
            if _qualify(name) in (entry.get("names") or ()):
                found.append(_read_entry(entry))
    # Two drivers' stores side by side: which one counts is Podman's to say.
    return found[0] if len(found) == 1 and found[0].image_id else None


def _qualify(name: str) -> str:
    """Return the name with its tag; the store has no name without one."""
    last = name.rpartition("/")[2]
    return name if ":" in last or "@" in last else f"{name}:latest"


def _read_entry(entry: Mapping[str, Any]) -> StoredImage:
    image_id = str(entry.get("id") or "")
    is_digest = len(image_id) == 64 and set(image_id) <= _DIGITS
    return StoredImage(f"sha256:{image_id}" if is_digest else "", str(entry.get("digest") or ""))
