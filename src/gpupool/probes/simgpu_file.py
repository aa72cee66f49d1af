"""Reads and writes the simulated machine's file as numbers and as records of cards and processes."""

from __future__ import annotations

import ctypes
import os
import uuid as uuids
from dataclasses import dataclass
from pathlib import Path

from gpupool.base.errors import BadMachine
from gpupool.probes import simgpu_layout as layout


class NumberFile:
    """A file as an array of little-endian numbers of `size` bytes.

    Raises BadMachine where it is cut short. Read with pread(2) and never mapped: another process
    may cut it short at any moment, which would be a bus error.
    """

    def __init__(self, path: Path, size: int) -> None:
        self._path = path
        self._size = size
        self._descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)

    def close(self) -> None:
        os.close(self._descriptor)

    def read_part(self, at: int, length: int) -> bytes:
        found = os.pread(self._descriptor, length, at)
        if len(found) < length:
            raise BadMachine(
                f"{self._path} is no simulated machine: it is cut short, no {length} bytes at {at}"
            )
        return found

    def write_part(self, at: int, content: bytes) -> None:
        os.pwrite(self._descriptor, content, at)

    def read_several(self, index: int, count: int) -> tuple[int, ...]:
        found = self.read_part(index * self._size, count * self._size)
        numbers = []
        for at in range(0, len(found), self._size):
            numbers.append(int.from_bytes(found[at : at + self._size], "little"))
        return tuple(numbers)

    def __getitem__(self, index: int) -> int:
        return self.read_several(index, 1)[0]

    def __setitem__(self, index: int, value: int) -> None:
        self.write_part(index * self._size, value.to_bytes(self._size, "little"))


def is_alive(owner: int) -> bool:
    """Whether the process that a slot's owner word names still runs (proc_pid_stat(5))."""
    try:
        stat = Path(f"/proc/{owner >> 32}/stat").read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return False
    except OSError:
        return True  # it belongs to another user, so it exists
    fields = stat.rpartition(")")[2].split()
    # A zombie whose other threads still run (field 17 counts them) has not given up its memory.
    dead = fields[0] in "ZX" and int(fields[17]) <= 1
    return not dead and int(fields[19]) & 0xFFFFFFFF == owner & 0xFFFFFFFF


def locate_card(index: int) -> int:
    return layout.MachineFile.card.offset + index * ctypes.sizeof(layout.SimCard)


def locate_engine_card(index: int) -> int:
    return (
        layout.MachineFile.engine.offset
        + layout.SimEngine.card.offset
        + index * ctypes.sizeof(layout.SimEngineCard)
    )


@dataclass(frozen=True)
class SimulatedCard:
    """What the file says of one card; a fence needs the costs of contexts and allocations."""

    uuid: str
    index: int
    name: str
    memory_bytes: int
    context_bytes: int
    granule_bytes: int


@dataclass(frozen=True)
class ProcessUse:
    """What one process has used of one card.

    Attributes:
        gpu_ns: time in which a kernel of it ran.
        copy_ns: time in which a copy from or to the host ran.
    """

    pid: int
    memory_bytes: int
    gpu_ns: int
    copy_ns: int
    launches: int


def build_card(card: layout.SimCard, index: int) -> SimulatedCard:
    name = f"GPU-{uuids.UUID(bytes=bytes(card.uuid))}"
    text = card.name.decode(errors="replace")
    return SimulatedCard(
        name, index, text, card.memory_bytes, card.context_bytes, card.granule_bytes
    )
