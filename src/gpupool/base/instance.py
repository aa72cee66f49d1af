"""Which pool instance a state directory belongs to, so that a copy of it never acts for the original. Decision 0018.

`identity` in the directory names the instance by a nonce and by where it was made: machine, boot, path, and the
directory's own device and inode. A copy has the file and not the inode. A directory that was renamed keeps the inode.
"""

from __future__ import annotations

import json
import os
import secrets
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from gpupool.base.durable import write_durably
from gpupool.base.errors import PoolCopied, StateUnusable

FILE = "identity"


@dataclass(frozen=True)
class Instance:
    """One pool on one machine. `machine` and `boot` are empty where the kernel does not tell them."""

    nonce: str
    machine: str
    boot: str
    path: str
    device: int
    inode: int


def claim(root: Path) -> Instance:
    """Take a state directory for this machine and boot; the instance it belongs to. Idempotent.

    Raises PoolCopied where the directory is a copy of another instance's, StateUnusable where its file is damaged.
    """
    known, here = read(root), _here(root)
    if known is None:
        return _write(root, here)
    if is_copy(known, here):
        raise PoolCopied(
            f"{root} is a copy of the pool at {known.path}: started from here, it would end that pool's jobs",
            hint=f"gpupool restore {root} --state-dir NEW  makes a pool of its own from it",
            original=known.path,
        )
    current = Instance(known.nonce, here.machine, here.boot, here.path, here.device, here.inode)
    if current != known:
        with suppress(OSError):  # a full disk: what is known already tells a copy by its inode
            _write(root, current)
    return current


def is_copy(known: Instance, here: Instance) -> bool:
    """Another inode is another directory; so is the same number on another device in the same boot, elsewhere.

    A device's number may change with a boot or a mount, where the path is the same.
    """
    if known.inode != here.inode:
        return True
    same_boot = known.boot == here.boot and known.machine == here.machine
    return same_boot and known.device != here.device and known.path != here.path


def read(root: Path) -> Instance | None:
    """What the directory says of itself; None where it has no identity yet. Raises StateUnusable."""
    try:
        found = json.loads((root / FILE).read_text(encoding="utf-8"))
        return Instance(**{field.name: found[field.name] for field in fields(Instance)})
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise StateUnusable(
            f"{root / FILE} cannot be read: {error}", hint=f"gpupool restore {root} --state-dir NEW"
        ) from error


def _here(root: Path) -> Instance:
    found = os.stat(root)
    return Instance(
        nonce=secrets.token_hex(16),
        machine=_line("/etc/machine-id"),
        boot=_line("/proc/sys/kernel/random/boot_id"),
        path=os.path.realpath(root),
        device=found.st_dev,
        inode=found.st_ino,
    )


def _write(root: Path, instance: Instance) -> Instance:
    write_durably(root / FILE, json.dumps(asdict(instance), indent=1).encode() + b"\n")
    return instance


def _line(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii").strip()
    except OSError:
        return ""
