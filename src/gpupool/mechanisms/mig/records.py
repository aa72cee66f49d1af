"""Stores which GPU instance belongs to which piece of an allocation.

A record is `instance-<n>.json` in the allocation's directory. It is written before the driver is
asked to create the instance, without a number, and again after it. It alone proves that an instance
is ours: numbers and uuids of instances are used again. A record of an earlier boot proves nothing,
because no instance survives a boot.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gpupool.base.durable import make_directory_durably, sync_directory, write_durably
from gpupool.base.errors import DamagedRecord
from gpupool.model.partition import PartitionSlot


@dataclass(frozen=True)
class Piece:
    """The partition that an allocation wants on one card."""

    card: str
    profile: str
    profile_id: int
    start: int
    size: int

    @property
    def slot(self) -> PartitionSlot:
        return PartitionSlot(self.start, self.size, self.profile)


@dataclass(frozen=True)
class InstanceRecord:
    """What is known of a piece's instance; `number` is None while its creation is under way."""

    piece: Piece
    boot: str
    number: int | None = None
    compute: int | None = None
    uuid: str = ""

    @property
    def is_complete(self) -> bool:
        return self.number is not None and self.compute is not None and bool(self.uuid)


def write_pieces(pieces: tuple[Piece, ...]) -> list[dict[str, Any]]:
    """Return pieces ready for JSON."""
    return [asdict(piece) for piece in pieces]


def read_pieces(document: Mapping[str, Any]) -> tuple[Piece, ...]:
    """Return the pieces in the `made` part of a note; none where it names none."""
    return tuple(Piece(**entry) for entry in document.get("pieces", ()))


def locate_record(folder: Path, position: int) -> Path:
    """Return the file of the piece at that position."""
    return folder / f"instance-{position}.json"


def list_record_paths(folder: Path) -> tuple[Path, ...]:
    """Return the files of all records of an allocation, by name."""
    return tuple(sorted(folder.glob("instance-*.json")))


def read_record(path: Path) -> InstanceRecord | None:
    """Return a record; None where there is none. Raises DamagedRecord."""
    try:
        document = json.loads(path.read_text(encoding="ascii"))
        return InstanceRecord(Piece(**document.pop("piece")), **document)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        # Without it nothing says whether the instance is ours, so nothing is destroyed.
        raise DamagedRecord(
            f"{path} cannot be understood: {problem}",
            hint="nvidia-smi mig -lgi shows the partition; destroy it by hand and remove the file",
        ) from problem


def write_record(path: Path, record: InstanceRecord) -> None:
    """Write a record; it is on disk when this returns."""
    write_durably(path, json.dumps(asdict(record), sort_keys=True).encode(), mode=0o600)


def remove_record(path: Path) -> None:
    """Remove a record; the removal is on disk when this returns. Idempotent."""
    path.unlink(missing_ok=True)
    if path.parent.is_dir():
        sync_directory(path.parent)


@contextmanager
def lock_card(state_dir: Path, card: str) -> Iterator[None]:
    """Keep other processes of this node from changing the card's instances.

    Blocks while another one changes them, for as long as its driver call takes.
    """
    folder = state_dir / "mig"
    make_directory_durably(folder)
    descriptor = os.open(folder / f"{card}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
