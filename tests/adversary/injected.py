"""System calls of one process that fail when a test says so: the control of `fault_shim.c`."""

from __future__ import annotations

import errno
import mmap
import os
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.unit.native.front_pool import compiler

SOURCE = Path(__file__).parent / "fault_shim.c"
_LAYOUT = struct.Struct("7i")


@dataclass(frozen=True)
class Kind:
    """A kind of system calls, by its number in `fault_shim.c`, and the error with which they
    fail."""

    number: int
    error: int


KINDS = {
    "open": Kind(1, errno.EMFILE),
    "write": Kind(2, errno.ENOSPC),
    "fsync": Kind(3, errno.EIO),
    "socket": Kind(4, errno.EMFILE),
    "fork": Kind(5, errno.EAGAIN),
    "memory": Kind(6, errno.ENOMEM),
}
#: A call that does not come back, as on a disk or a network file system that is dead.
HANGING = {"flush": Kind(3, 0), "mkdir": Kind(7, 0)}
ALL = 1 << 30


class Faults:
    """`environ` goes to the program that is to fail; `armed` makes its calls fail."""

    def __init__(self, folder: Path) -> None:
        library, control = folder / "fault_shim.so", folder / "control"
        command = [compiler(), "-shared", "-fPIC", "-O1", "-Wall", "-Wno-strict-prototypes"]
        subprocess.run([*command, "-o", str(library), str(SOURCE), "-ldl"], check=True)
        control.write_bytes(bytes(mmap.PAGESIZE))
        with open(control, "r+b") as file:
            self._page = mmap.mmap(file.fileno(), mmap.PAGESIZE)
        self.environ = {"LD_PRELOAD": str(library), "GPUPOOL_FAULT_CONTROL": str(control)}

    @contextmanager
    def armed(self, pid: int, kind: Kind, *, after: int, count: int = 1) -> Iterator[None]:
        """In the block `count` calls fail after so many that pass. The process must have the
        environment."""
        assert os.path.exists(f"/proc/{pid}")
        _LAYOUT.pack_into(self._page, 0, 0, kind.number, kind.error, after, count, 0, 0)
        struct.pack_into("i", self._page, 0, pid)
        try:
            yield
        finally:
            struct.pack_into("i", self._page, 0, 0)

    @property
    def hits(self) -> int:
        """Calls that have failed since it was armed last."""
        return int(_LAYOUT.unpack_from(self._page, 0)[5])

    @property
    def seen(self) -> int:
        """Calls of its kind since it was armed last."""
        return int(_LAYOUT.unpack_from(self._page, 0)[6])
