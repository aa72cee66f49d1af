"""Reads which image a name means from the account's own image store, without a call of Podman.

A call of Podman takes 60 ms and more before every job. The store's index is
`DRIVER-images/images.json` of containers/storage (store.go, `Image`). What is not plainly there is
left to Podman: a short name, a store in another place, an index of another form.
`gpupool run --image` imports this module before every job: no `dataclasses` and no `pathlib`, which
take 10 ms.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

#: Where an account's store lies unless its storage.conf says otherwise (containers-storage.conf(5)).
STORE: Final = ".local/share/containers/storage"
#: Ends the names of the directories with the images of each storage driver.
_INDEXES: Final = "-images"
_DIGITS: Final = frozenset("0123456789abcdef")


class StoredImage(NamedTuple):
    """An image by the digests of its configuration and its manifest."""

    image_id: str
    digest: str


def find_stored_image(home: str, name: str) -> StoredImage | None:
    """Find an image by its whole name; None where Podman has to be asked.

    Args:
        home: The account's home directory.
        name: The image's name as its user typed it.
    """
    found: list[StoredImage] = []
    store = os.path.join(home, STORE)
    try:
        folders = [folder for folder in os.listdir(store) if folder.endswith(_INDEXES)]
    except OSError:
        return None
    for folder in folders:
        try:
            with open(os.path.join(store, folder, "images.json"), encoding="utf-8") as index:
                entries = json.load(index)
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
