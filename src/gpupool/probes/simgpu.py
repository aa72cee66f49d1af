"""The simulated machine's file: keeping one for a `Machine`, reading who uses what, and making cards fail.

The file is what every simulated driver and NVML maps (native/simgpu/model/model.h). Needs none of the compiled
parts. What is read is as of the last time that any process looked at its cards: the engine has no thread of its own.
Anybody in the pool can write all of the file, so nothing in it is believed further than a table index; and it is read,
never mapped here, since anybody can cut it short too, which would be a bus error.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import signal
import time
import uuid as uuids
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from gpupool.base.errors import BadMachine
from gpupool.model.device import DeviceUsage
from gpupool.probes import simgpu_layout as layout
from gpupool.probes.contract import EndedProcess, Machine
from gpupool.probes.host_pids import HostPids, start_ns_of
from gpupool.probes.processes import ProcessTable
from gpupool.probes.simgpu_make import boot_id
from gpupool.probes.simgpu_make import create_machine as create_machine

LOST_XID: Final = 79

_LONGEST_HOLD_SECONDS: Final = 0.1
_WINDOW_NS: Final = 1_000_000_000
_UPDATE_NS: Final = 200_000_000
# NVIDIA's XID catalogue, and what cuda.h calls what a program then sees; the same table as in model_fault.c.
_XID_ERRORS: Final = {
    **dict.fromkeys((13, 43, 45, 69, 109), 719),
    31: 700,
    **dict.fromkeys((48, 94, 95), 214),
    74: 220,
    **dict.fromkeys((62, 79, 119, 120), 999),
}


@dataclass(frozen=True)
class SimulatedCard:
    """What the file says of one card; the costs are what a fence has to know of it."""

    uuid: str
    index: int
    name: str
    memory_bytes: int
    context_bytes: int
    granule_bytes: int


@dataclass(frozen=True)
class ProcessUse:
    """What one process has used of one card. `gpu_ns`: time in which a kernel of it ran; `copy_ns`: a copy from or to
    the host.
    """

    pid: int
    memory_bytes: int
    gpu_ns: int
    copy_ns: int
    launches: int


def ensure_machine(path: Path, machine: Machine) -> bool:
    """Keep the file if it is of this boot and of these cards, with whoever is on them; else make it. Whether it was
    made.
    """
    with contextlib.suppress(BadMachine, FileNotFoundError), SimulatedMachine(path) as present:
        same = [(c.uuid, c.name, c.memory_bytes) for c in present.cards]
        wanted = [(d.uuid, d.product, d.memory_bytes) for d in machine.devices[: layout.CARDS]]
        if same == wanted and present.boot == boot_id():
            return False
    create_machine(path, machine)
    return True


class SimulatedMachine:
    """One machine file, open. Use as a context manager, or `close`.

    Raises FileNotFoundError, or BadMachine when it is damaged or of another layout.
    """

    def __init__(self, path: Path, processes: ProcessTable | None = None) -> None:
        self._path = path
        self._processes = processes or ProcessTable()
        self._host_pids = HostPids()
        self._words, self._halves = _Numbers(path, 8), _Numbers(path, 4)
        try:
            self._check()
        except BadMachine:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._words.close()
        self._halves.close()

    def _check(self) -> None:
        header = layout.Header.from_buffer_copy(self._words.part(0, ctypes.sizeof(layout.Header)))
        found = (header.magic, header.layout, header.size)
        if found != (layout.MAGIC, layout.LAYOUT, ctypes.sizeof(layout.MachineFile)) or header.cards > layout.CARDS:
            raise BadMachine(f"{self._path} is no simulated machine, or one of another layout")
        self.boot = bytes(header.boot)
        self._virtual = header.clock == layout.CLOCK_VIRTUAL
        cards = (self._card(i) for i in range(header.cards))
        self.cards = tuple(_told(card, i) for i, card in enumerate(cards))
        self._index = {card.uuid: card.index for card in self.cards}

    def _card(self, index: int) -> layout.Card:
        return layout.Card.from_buffer_copy(self._words.part(_at_card(index), ctypes.sizeof(layout.Card)))

    # --- reading ---

    def now_ns(self) -> int:
        """CLOCK_MONOTONIC, or the virtual clock."""
        return self._words[_H_VIRTUAL] if self._virtual else time.monotonic_ns()

    def processes(self, uuid: str) -> tuple[ProcessUse, ...]:
        """Who has memory or a context on the card, by pid; the dead that nobody has cleared away are left out.

        A process of another pid namespace has the pid that it has here, and 0 where that cannot be seen.
        """
        card = self._index[uuid]
        used = (self._use(slot, card) for slot in self._slots())
        return tuple(sorted((use for use in used if use is not None), key=lambda use: use.pid))

    def usage(self, uuid: str) -> DeviceUsage:
        """As NVML would say it: percent of a second in which something ran, up to 400 ms ago."""
        card = self._index[uuid]
        raw = self._card(card)
        if raw.lost:
            return DeviceUsage()
        uses = self.processes(uuid)
        percent = self._percent(_at_engine_card(card) + layout.EngineCard.sample.offset)
        span = raw.power_limit_mw - raw.power_idle_mw
        return DeviceUsage(
            utilization_percent=percent,
            memory_used_bytes=raw.reserved_bytes + sum(use.memory_bytes for use in uses),
            power_watts=(raw.power_idle_mw + span * percent // 100) // 1000,
            temperature_celsius=30 + 45 * percent // 100,
            processes=tuple(self._processes.describe(use.pid, use.memory_bytes) for use in uses if use.pid),
        )

    def ended(self, uuid: str, pids: Collection[int]) -> tuple[EndedProcess, ...]:
        """Time of contexts of these processes of this pid namespace that ended, by process; as far as remembered."""
        card, own = self._index[uuid], os.stat("/proc/self/ns/pid").st_ino
        sums: dict[int, int] = {}
        ring = self._words.part(layout.Header.ended_context.offset, ctypes.sizeof(layout.Ended) * layout.ENDED)
        for one in (layout.Ended * layout.ENDED).from_buffer_copy(ring):
            if one.owner and (one.card, one.pid_namespace) == (card, own) and one.owner >> 32 in pids:
                sums[one.owner] = sums.get(one.owner, 0) + one.gpu_ns
        return tuple(EndedProcess(owner >> 32, start_ns_of(owner), gpu_ns) for owner, gpu_ns in sums.items())

    def busy_ns(self, uuid: str) -> int:
        """Time in which something ran on the card, since the machine was made."""
        return self._words[(_at_engine_card(self._index[uuid]) + layout.EngineCard.busy_ns.offset) // 8]

    def lock_holder(self) -> int | None:
        """The thread that holds the machine's lock at this moment. It must not stay stopped: nobody else could use any
        card. See `stop_without_lock`.
        """
        return (self._words[_H_LOCK] >> 32 & 0x7FFFFFFF) or None

    @property
    def unsupported_calls(self) -> int:
        """Calls of functions that the simulated libraries have no behaviour for."""
        return self._words[layout.Header.unsupported.offset // 8]

    def _slots(self) -> Iterator[int]:
        """Where the slots of living processes begin; of another pid namespace nobody here can tell."""
        own = os.stat("/proc/self/ns/pid").st_ino
        for number in range(min(self._halves[_H_HIGH_WATER], layout.PROCESSES)):
            at = layout.MachineFile.process.offset + number * ctypes.sizeof(layout.Process)
            owner, namespace = (self._words[(at + f.offset) // 8] for f in (_OWNER, _NAMESPACE))
            if owner and (namespace != own or _lives(owner)):
                yield at

    def _use(self, slot: int, card: int) -> ProcessUse | None:
        kinds = (slot + layout.Process.memory.offset) // 8 + card * layout.KINDS
        memory = sum(self._words.several(kinds, layout.KINDS))
        halves = self._halves[(slot + layout.Process.context.offset) // 4 + card // 2]
        context = (halves >> 16 * (card % 2) & 0xFFFF) - 1
        if not memory and context < 0:
            return None
        gpu, copied, launches = self._work(context) if 0 <= context < layout.CONTEXTS else (0, 0, 0)
        return ProcessUse(self._pid_of(slot), memory, gpu, copied, launches)

    def _pid_of(self, slot: int) -> int:
        owner, namespace = self._words[slot // 8], self._words[(slot + _NAMESPACE.offset) // 8]
        if namespace == os.stat("/proc/self/ns/pid").st_ino:
            return owner >> 32
        return self._host_pids.find(owner >> 32, namespace, owner) or 0

    def _work(self, context: int) -> tuple[int, int, int]:
        at = layout.MachineFile.engine.offset + layout.Engine.context.offset
        at = (at + context * ctypes.sizeof(layout.Context)) // 8
        fields = (layout.Context.gpu_ns, layout.Context.copy_ns, layout.Context.launches)
        gpu, copied, launches = (self._words[at + field.offset // 8] for field in fields)
        return gpu, copied, launches

    def _percent(self, samples: int) -> int:
        end = self.now_ns() // _UPDATE_NS * _UPDATE_NS - _UPDATE_NS
        busy = 0
        for n in range(layout.SAMPLES):
            number, ns = self._words.several(samples // 8 + 2 * n, 2)
            if end - _WINDOW_NS <= number * layout.SAMPLE_NS < end:
                busy += ns
        return min(busy * 100 // _WINDOW_NS, 100)

    # --- failures ---

    def inject_xid(self, uuid: str, xid: int, *, pid: int | None = None, needs_reset: bool = False) -> None:
        """As the driver reports it: an event, and work on the card fails if an XID of this number does that; of one
        process only, if `pid` says so. With `needs_reset` nobody gets a new context until `heal`.
        """
        self._inject(uuid, layout.FAULT_XID, xid=xid, error=_XID_ERRORS.get(xid, 0), pid=pid or 0)
        if needs_reset:
            self._set_half(uuid, layout.Card.needs_reset.offset, 1)

    def inject_ecc(self, uuid: str, *, corrected: int = 0, uncorrected: int = 0) -> None:
        """Memory errors: counted; uncorrected ones are XID 48 and fail the work on the card."""
        if corrected:
            self._inject(uuid, layout.FAULT_ECC_CORRECTED, count=corrected)
        if uncorrected:
            self._inject(uuid, layout.FAULT_ECC_UNCORRECTED, xid=48, error=_XID_ERRORS[48], count=uncorrected)

    def lose(self, uuid: str) -> None:
        """The card falls off the bus (XID 79): every call about it fails until `heal`."""
        self._inject(uuid, layout.FAULT_LOST, xid=LOST_XID, error=_XID_ERRORS[LOST_XID])

    def refuse_contexts(self, uuid: str) -> None:
        """The card needs a reset: nobody gets a new context until `heal`, and no event says why."""
        self._set_half(uuid, layout.Card.needs_reset.offset, 1)

    def heal(self, uuid: str) -> None:
        """The card is well again. Contexts that failed stay failed, as on a real card."""
        self._inject(uuid, layout.FAULT_HEALED)
        self._set_half(uuid, layout.Card.last_xid.offset, 0)

    def condition(self, uuid: str) -> tuple[bool, bool, int | None]:
        """Whether the card is lost, whether it needs a reset, and its last XID."""
        card = self._card(self._index[uuid])
        return bool(card.lost), bool(card.needs_reset), card.last_xid or None

    def _inject(self, uuid: str, kind: int, *, xid: int = 0, error: int = 0, pid: int = 0, count: int = 0) -> None:
        card = self._index[uuid]
        with self._path.open("r+b") as file:  # a description of its own: flock is between those
            fcntl.flock(file, fcntl.LOCK_EX)
            number = self._words[_H_FAULTS]
            at = layout.Header.fault.offset + number % layout.FAULTS * ctypes.sizeof(layout.Fault)
            fault = layout.Fault(self.now_ns(), card, xid, error, pid, kind, count)
            self._words.write(at, bytes(fault))
            self._mark(uuid, fault)
            self._words[_H_FAULTS] = number + 1
            self._halves[_H_WAKE] = (self._halves[_H_WAKE] + 1) & 0xFFFFFFFF

    def _mark(self, uuid: str, fault: layout.Fault) -> None:
        if fault.xid:
            self._set_half(uuid, layout.Card.last_xid.offset, fault.xid)
        if fault.kind in (layout.FAULT_LOST, layout.FAULT_HEALED):
            self._set_half(uuid, layout.Card.lost.offset, int(fault.kind == layout.FAULT_LOST))
        if fault.kind == layout.FAULT_HEALED:
            self._set_half(uuid, layout.Card.needs_reset.offset, 0)
        ecc = {
            layout.FAULT_ECC_CORRECTED: layout.Card.ecc_corrected.offset,
            layout.FAULT_ECC_UNCORRECTED: layout.Card.ecc_uncorrected.offset,
        }
        if fault.kind in ecc:
            self._words[(_at_card(fault.card) + ecc[fault.kind]) // 8] += fault.count

    def _set_half(self, uuid: str, offset: int, value: int) -> None:
        self._halves[(_at_card(self._index[uuid]) + offset) // 4] = value


_OWNER: Final = layout.Process.owner
_NAMESPACE: Final = layout.Process.pid_namespace
_H_VIRTUAL: Final = layout.Header.virtual_ns.offset // 8
_H_LOCK: Final = layout.Header.lock.offset // 8
_H_FAULTS: Final = layout.Header.faults.offset // 8
_H_WAKE: Final = layout.Header.wake.offset // 4
_H_HIGH_WATER: Final = layout.Header.high_water.offset // 4


def _at_card(index: int) -> int:
    return layout.MachineFile.card.offset + index * ctypes.sizeof(layout.Card)


def _at_engine_card(index: int) -> int:
    return layout.MachineFile.engine.offset + layout.Engine.card.offset + index * ctypes.sizeof(layout.EngineCard)


class _Numbers:
    """A file as an array of little-endian numbers of `size` bytes. Raises BadMachine where it is cut short."""

    def __init__(self, path: Path, size: int) -> None:
        self._path, self._size = path, size
        self._descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)

    def close(self) -> None:
        os.close(self._descriptor)

    def part(self, at: int, length: int) -> bytes:
        found = os.pread(self._descriptor, length, at)
        if len(found) < length:
            raise BadMachine(f"{self._path} is no simulated machine: it is cut short, no {length} bytes at {at}")
        return found

    def write(self, at: int, content: bytes) -> None:
        os.pwrite(self._descriptor, content, at)

    def several(self, index: int, count: int) -> tuple[int, ...]:
        found = self.part(index * self._size, count * self._size)
        return tuple(int.from_bytes(found[i : i + self._size], "little") for i in range(0, len(found), self._size))

    def __getitem__(self, index: int) -> int:
        return self.several(index, 1)[0]

    def __setitem__(self, index: int, value: int) -> None:
        self.write(index * self._size, value.to_bytes(self._size, "little"))


def _lives(owner: int) -> bool:
    """Whether the process named by a slot's owner word is there, and is still the same; proc_pid_stat(5)."""
    try:
        stat = Path(f"/proc/{owner >> 32}/stat").read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return False
    except OSError:
        return True  # not ours to see
    fields = stat.rpartition(")")[2].split()
    dead = fields[0] in "ZX" and int(fields[17]) <= 1
    return not dead and int(fields[19]) & 0xFFFFFFFF == owner & 0xFFFFFFFF


def _told(card: layout.Card, index: int) -> SimulatedCard:
    name = f"GPU-{uuids.UUID(bytes=bytes(card.uuid))}"
    text = card.name.decode(errors="replace")
    return SimulatedCard(name, index, text, card.memory_bytes, card.context_bytes, card.granule_bytes)


def stop_without_lock(machine: SimulatedMachine, stopped: Collection[int]) -> int:
    """For who has just stopped (SIGSTOP) these processes: let the one that was stopped inside the machine's lock run on
    until it is out, and stop it again; how often that was needed. On a real card a stopped process holds up nobody.
    """
    times = 0
    for each in stopped:
        _until_stopped(each)
    while (holder := machine.lock_holder()) and (pid := _process_of(holder, stopped)):
        os.kill(pid, signal.SIGCONT)
        deadline = time.monotonic() + _LONGEST_HOLD_SECONDS
        while machine.lock_holder() == holder and time.monotonic() < deadline:
            os.sched_yield()
        os.kill(pid, signal.SIGSTOP)
        times += 1
        _until_stopped(pid)
    return times


def _process_of(thread: int, pids: Collection[int]) -> int | None:
    return next((pid for pid in pids if Path(f"/proc/{pid}/task/{thread}").exists()), None)


def _until_stopped(pid: int) -> None:
    """A signal takes a moment to arrive, in which a lock may be taken."""
    deadline = time.monotonic() + _LONGEST_HOLD_SECONDS
    while time.monotonic() < deadline and _state_of(pid) not in ("T", "t", ""):
        os.sched_yield()


def _state_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[0]
    except OSError:
        return ""


def usages(machine: SimulatedMachine, wanted: Collection[str]) -> dict[str, DeviceUsage]:
    """Of those cards that the machine has."""
    present = {card.uuid for card in machine.cards}
    return {uuid: machine.usage(uuid) for uuid in wanted if uuid in present}
