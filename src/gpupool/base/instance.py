"""Identifies the pool instance of a state directory, so that a copy never acts for the original.

The file `identity` names the instance by a nonce and by its place: machine, boot, path, and the
device and inode of the directory. A copy has the file but another inode; a renamed directory keeps
its inode (docs/decisions/0018).
"""

from __future__ import annotations

import json
import os
import secrets
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from gpupool.base.durable import write_durably
from gpupool.base.errors import CopiedPool, StateUnusable

#: Name of the identity in the state directory.
FILE = "identity"


@dataclass(frozen=True)
class PoolInstance:
    """One pool on one machine. `machine` and `boot` are empty where the kernel does not tell
    them."""

    nonce: str
    machine: str
    boot: str
    path: str
    device: int
    inode: int


def claim_directory(root: Path) -> PoolInstance:
    """Take a state directory for this machine and boot; the instance it belongs to. Idempotent.

    Raises CopiedPool where the directory is a copy of another instance's, StateUnusable where its file is damaged.
    """
    known = read_identity(root)
    here = _read_place(root)
    if known is None:
        return _write_identity(root, here)
    if is_copy(known, here):
        raise CopiedPool(
            f"{root} is a copy of the pool at {known.path}: started from here, it would end that pool's jobs",
            hint=f"gpupool restore {root} --state-dir NEW  makes a pool of its own from it",
            original=known.path,
        )
    # A boot or a rename changes the place, not the nonce: the record follows.
    current = PoolInstance(known.nonce, here.machine, here.boot, here.path, here.device, here.inode)
    if current != known:
        with suppress(OSError):  # a full disk: what is known already tells a copy by its inode
            _write_identity(root, current)
    return current


def is_copy(known: PoolInstance, here: PoolInstance) -> bool:
    """Whether a directory is a copy of the one that its identity names.

    Another inode is another directory; so is the same inode on another device at another path in
    the same boot. A boot or a mount may change the device's number, but not the path.

    Args:
        known: What the identity names.
        here: The place of the directory.
    """
    if known.inode != here.inode:
        return True
    same_boot = known.boot == here.boot and known.machine == here.machine
    return same_boot and known.device != here.device and known.path != here.path


def read_identity(root: Path) -> PoolInstance | None:
    """Read the identity of a directory; None where it has none yet. Raises StateUnusable."""
    try:
        found = json.loads((root / FILE).read_text(encoding="utf-8"))
        return PoolInstance(**{field.name: found[field.name] for field in fields(PoolInstance)})
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise StateUnusable(
            f"{root / FILE} cannot be read: {error}", hint=f"gpupool restore {root} --state-dir NEW"
        ) from error


def _read_place(root: Path) -> PoolInstance:
    found = os.stat(root)
    return PoolInstance(
        nonce=secrets.token_hex(16),
        machine=_read_line("/etc/machine-id"),
        boot=_read_line("/proc/sys/kernel/random/boot_id"),
        path=os.path.realpath(root),
        device=found.st_dev,
        inode=found.st_ino,
    )


def _write_identity(root: Path, instance: PoolInstance) -> PoolInstance:
    write_durably(root / FILE, json.dumps(asdict(instance), indent=1).encode() + b"\n")
    return instance


def _read_line(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii").strip()
    except OSError:
        return ""
