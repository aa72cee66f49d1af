"""Reads and sets the memory limits of a simulated node's cards.

They lie in `machine.limits` beside the machine's file, in the format of
native/simgpu/model/machine/machine_limits.c: a first line, then `UUID SOFT HARD NAME` for each
limit. In root's pool only root can write it; the machine's file, which counts what is used, is
every job's to write. So a simulated card is never a boundary, however its limits are kept.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpupool.base.durable import open_replacement
from gpupool.base.errors import BadMachine
from gpupool.probes import simgpu_layout as layout
from gpupool.probes.memory_limits.cgroup_names import find_group_name
from gpupool.probes.memory_limits.limiter import NO_LIMIT, MemoryLimit
from gpupool.probes.simgpu_file import NumberFile, is_alive

FIRST_LINE: Final = "gpupool memory limits 1"


@dataclass(frozen=True)
class LimitEntry:
    """One line of the file."""

    uuid: str
    soft_bytes: int
    hard_bytes: int
    name: str

    def format_line(self) -> str:
        return f"{self.uuid} {self.soft_bytes} {self.hard_bytes} {self.name}\n"


class SimulatedLimits:
    """The limits of the simulated cards whose machine file is `folder/machine`."""

    def __init__(self, folder: Path) -> None:
        self._machine = folder / "machine"
        self._limits = folder / "machine.limits"

    def explain_absence(self) -> str:
        if not self._machine.is_file():
            return "its node has no file of its simulated cards"
        return ""

    def read_limit(self, uuid: str, group: Path) -> MemoryLimit | None:
        name = find_group_name(group)
        if name is None or not group.is_dir():
            return None
        try:
            used = self._count_used(uuid, name)
        except BadMachine:
            return None  # every job can damage that file
        for entry in self._read_entries():
            if (entry.uuid, entry.name) == (_shorten_uuid(uuid), name):
                return MemoryLimit(entry.soft_bytes, entry.hard_bytes, used)
        return MemoryLimit(used_bytes=used)

    def set_limit(self, uuid: str, group: Path, limit: MemoryLimit) -> str:
        if not group.is_dir():
            return f"there is no cgroup {group}"
        return self._replace_entry(uuid, group, limit)

    def clear_limit(self, uuid: str, group: Path) -> str:
        if not self._limits.exists():
            return ""
        return self._replace_entry(uuid, group, MemoryLimit())

    def _replace_entry(self, uuid: str, group: Path, limit: MemoryLimit) -> str:
        name = find_group_name(group)
        if name is None:
            return f"{group} is not a cgroup that can have limits"
        changed = LimitEntry(_shorten_uuid(uuid), limit.soft_bytes, limit.hard_bytes, name)
        try:
            with self._lock_file():
                lines = [FIRST_LINE + "\n"]
                for entry in self._read_entries():
                    if (entry.uuid, entry.name) != (changed.uuid, changed.name):
                        lines.append(entry.format_line())
                if (limit.soft_bytes, limit.hard_bytes) != (0, NO_LIMIT):
                    lines.append(changed.format_line())
                self._write_lines(lines)
        except OSError as error:
            return f"the simulated driver's limits cannot be written: {error.strerror}"
        return ""

    def _write_lines(self, lines: list[str]) -> None:
        with open_replacement(self._limits, mode=0o644) as file:
            os.fchmod(file.fileno(), 0o644)  # whatever the agent's umask
            file.write("".join(lines).encode())

    @contextmanager
    def _lock_file(self) -> Iterator[None]:
        """Exclude other writers; the simulated NVML takes the same lock (flock(2))."""
        descriptor = os.open(self._machine, os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _read_entries(self) -> list[LimitEntry]:
        try:
            lines = self._limits.read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return []
        entries = []
        for line in lines[1:]:
            uuid, soft, hard, name = line.split(" ", 3)
            entries.append(LimitEntry(uuid, int(soft), int(hard), name))
        return entries

    def _count_used(self, uuid: str, name: str) -> int:
        """Return the bytes that living processes of a cgroup use of a card, but managed memory."""
        words = NumberFile(self._machine, 8)
        halves = NumberFile(self._machine, 4)
        try:
            card = _find_card(words, uuid)
            high_water = halves[layout.SimHeader.high_water.offset // 4]
            used = 0
            for number in range(min(high_water, layout.PROCESSES)):
                used += _count_slot(words, number, card, _hash_name(name))
            return used
        finally:
            words.close()
            halves.close()


def _shorten_uuid(uuid: str) -> str:
    return uuid.removeprefix("GPU-").replace("-", "")


def _hash_name(name: str) -> int:
    """FNV-1a of 64 bits, as slots of the machine's file hold it; never 0."""
    number = 0xCBF29CE484222325
    for byte in os.fsencode(name):
        number = (number ^ byte) * 0x100000001B3 % 2**64
    return number or 1


def _find_card(words: NumberFile, uuid: str) -> int:
    wanted = bytes.fromhex(_shorten_uuid(uuid))
    for index in range(layout.CARDS):
        at = layout.MachineFile.card.offset + index * ctypes.sizeof(layout.SimCard)
        if words.read_part(at, 16) == wanted:
            return index
    raise BadMachine(f"the simulated machine has no card {uuid}")


def _count_slot(words: NumberFile, number: int, card: int, name: int) -> int:
    at = layout.MachineFile.process.offset + number * ctypes.sizeof(layout.SimProcess)
    owner = words[at // 8]
    limits = words.read_several((at + layout.SimProcess.limits.offset) // 8, layout.NESTED)
    if not owner or name not in limits:
        return 0
    namespace = words[(at + layout.SimProcess.pid_namespace.offset) // 8]
    if namespace == os.stat("/proc/self/ns/pid").st_ino and not is_alive(owner):
        return 0
    first = (at + layout.SimProcess.memory.offset) // 8 + card * layout.KINDS
    kinds = words.read_several(first, layout.KINDS)
    return sum(kinds) - kinds[layout.MANAGED_KIND]
