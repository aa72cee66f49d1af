"""Keeps the file of a simulated machine, reads which process uses what, and makes cards fail.

Every simulated driver and NVML maps that file (native/simgpu/model/machine/machine.h). Needs none
of the compiled parts. Its figures are of the last time that a process used its cards: the engine
has no thread of its own. Every job of the pool can write all of the file, so nothing in it is
believed further than a table index.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final, Self

from gpupool.base.errors import BadMachine
from gpupool.base.units import NANOS_PER_SECOND
from gpupool.model.device import DeviceUsage
from gpupool.probes import simgpu_layout as layout
from gpupool.probes.contract import EndedProcess, Machine
from gpupool.probes.host_pids import HostPids, compute_start_ns
from gpupool.probes.processes import ProcessTable
from gpupool.probes.simgpu_file import (
    NumberFile,
    ProcessUse,
    build_card,
    is_alive,
    locate_card,
    locate_engine_card,
)
from gpupool.probes.simgpu_make import create_machine as create_machine
from gpupool.probes.simgpu_make import read_boot_id

LOST_XID: Final = 79

_WINDOW_NS: Final = NANOS_PER_SECOND
_UPDATE_NS: Final = 200_000_000


def ensure_machine(path: Path, machine: Machine) -> bool:
    """Create the file unless it is of this boot and of these cards; returns whether it was created.

    Processes that use its cards keep running.
    """
    with contextlib.suppress(BadMachine, FileNotFoundError), SimulatedMachine(path) as present:
        same = [(c.uuid, c.name, c.memory_bytes) for c in present.cards]
        wanted = [(d.uuid, d.product, d.memory_bytes) for d in machine.devices[: layout.CARDS]]
        if same == wanted and present.boot == read_boot_id():
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
        self._words = NumberFile(path, 8)
        self._halves = NumberFile(path, 4)
        try:
            self._check_header()
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

    def _check_header(self) -> None:
        header = layout.SimHeader.from_buffer_copy(
            self._words.read_part(0, ctypes.sizeof(layout.SimHeader))
        )
        found = (header.magic, header.layout, header.size)
        if (
            found != (layout.MAGIC, layout.LAYOUT, ctypes.sizeof(layout.MachineFile))
            or header.cards > layout.CARDS
        ):
            raise BadMachine(f"{self._path} is no simulated machine, or one of another layout")
        self.boot = bytes(header.boot)
        self._virtual = header.clock == layout.CLOCK_VIRTUAL
        self.cards = tuple(build_card(self._read_card(i), i) for i in range(header.cards))
        self._index = {card.uuid: card.index for card in self.cards}

    def _read_card(self, index: int) -> layout.SimCard:
        return layout.SimCard.from_buffer_copy(
            self._words.read_part(locate_card(index), ctypes.sizeof(layout.SimCard))
        )

    # --- reading ---

    def read_now_ns(self) -> int:
        """CLOCK_MONOTONIC, or the virtual clock."""
        return self._words[_H_VIRTUAL] if self._virtual else time.monotonic_ns()

    def list_processes(self, uuid: str) -> tuple[ProcessUse, ...]:
        """Return the processes with memory or a context on the card, by pid; ended ones left out.

        A process of another pid namespace has its pid of this one, 0 where that cannot be read.
        """
        card = self._index[uuid]
        uses = []
        for slot in self._iterate_slots():
            use = self._read_use(slot, card)
            if use is not None:
                uses.append(use)
        return tuple(sorted(uses, key=lambda use: use.pid))

    def read_usage(self, uuid: str) -> DeviceUsage:
        """Return use as NVML reports it: percent of a second with work, up to 400 ms ago."""
        card = self._index[uuid]
        raw = self._read_card(card)
        if raw.lost:
            return DeviceUsage()
        uses = self.list_processes(uuid)
        percent = self._compute_percent(
            locate_engine_card(card) + layout.SimEngineCard.sample.offset
        )
        span = raw.power_limit_mw - raw.power_idle_mw
        return DeviceUsage(
            utilization_percent=percent,
            memory_used_bytes=raw.reserved_bytes + sum(use.memory_bytes for use in uses),
            power_watts=(raw.power_idle_mw + span * percent // 100) // 1000,
            temperature_celsius=30 + 45 * percent // 100,
            processes=tuple(
                self._processes.describe_process(use.pid, use.memory_bytes)
                for use in uses
                if use.pid
            ),
        )

    def list_ended(self, uuid: str, pids: Collection[int]) -> tuple[EndedProcess, ...]:
        """Return GPU time of ended contexts of these processes of this pid namespace.

        The machine remembers the last `layout.ENDED` contexts only.
        """
        card = self._index[uuid]
        own = os.stat("/proc/self/ns/pid").st_ino
        sums: dict[int, int] = {}
        ring = self._words.read_part(
            layout.SimHeader.ended_context.offset, ctypes.sizeof(layout.SimEnded) * layout.ENDED
        )
        for one in (layout.SimEnded * layout.ENDED).from_buffer_copy(ring):
            if (
                one.owner
                and (one.card, one.pid_namespace) == (card, own)
                and one.owner >> 32 in pids
            ):
                sums[one.owner] = sums.get(one.owner, 0) + one.gpu_ns
        ended = []
        for owner, gpu_ns in sums.items():
            ended.append(EndedProcess(owner >> 32, compute_start_ns(owner), gpu_ns))
        return tuple(ended)

    def read_busy_ns(self, uuid: str) -> int:
        """Return the nanoseconds in which something ran on the card since the machine was made."""
        return self._words[
            (locate_engine_card(self._index[uuid]) + layout.SimEngineCard.busy_ns.offset) // 8
        ]

    def find_lock_holder(self) -> int | None:
        """Return the thread that holds the machine's lock at this moment.

        While it is stopped, no process can use any card: see `stop_without_lock`.
        """
        return (self._words[_H_LOCK] >> 32 & 0x7FFFFFFF) or None

    @property
    def unsupported_calls(self) -> int:
        """Calls of functions that the simulated libraries have no behaviour for."""
        return self._words[layout.SimHeader.unsupported.offset // 8]

    def _iterate_slots(self) -> Iterator[int]:
        """Yield where the slots of living processes begin.

        Slots of other pid namespaces always count: their processes cannot be checked from here.
        """
        own = os.stat("/proc/self/ns/pid").st_ino
        for number in range(min(self._halves[_H_HIGH_WATER], layout.PROCESSES)):
            at = layout.MachineFile.process.offset + number * ctypes.sizeof(layout.SimProcess)
            owner = self._words[(at + _OWNER.offset) // 8]
            namespace = self._words[(at + _NAMESPACE.offset) // 8]
            if owner and (namespace != own or is_alive(owner)):
                yield at

    def _read_use(self, slot: int, card: int) -> ProcessUse | None:
        kinds = (slot + layout.SimProcess.memory.offset) // 8 + card * layout.KINDS
        allocated = sum(self._words.read_several(kinds, layout.KINDS))
        suspension = self._words[(slot + layout.SimProcess.suspension.offset) // 8]
        # A suspended process has its memory on the host; its time on the card stays on record.
        memory = 0 if suspension == layout.SUSPENDED else allocated
        halves = self._halves[(slot + layout.SimProcess.context.offset) // 4 + card // 2]
        # Two context numbers of 16 bits share a word; 0 means that the process has none.
        context = (halves >> 16 * (card % 2) & 0xFFFF) - 1
        if not memory and context < 0:
            return None
        gpu, copied, launches = (
            self._read_work(context) if 0 <= context < layout.CONTEXTS else (0, 0, 0)
        )
        return ProcessUse(self._find_pid(slot), memory, gpu, copied, launches)

    def _find_pid(self, slot: int) -> int:
        owner = self._words[slot // 8]
        namespace = self._words[(slot + _NAMESPACE.offset) // 8]
        if namespace == os.stat("/proc/self/ns/pid").st_ino:
            return owner >> 32
        return self._host_pids.find_pid(owner >> 32, namespace, owner) or 0

    def _read_work(self, context: int) -> tuple[int, int, int]:
        at = layout.MachineFile.engine.offset + layout.SimEngine.context.offset
        at = (at + context * ctypes.sizeof(layout.SimContext)) // 8
        fields = (layout.SimContext.gpu_ns, layout.SimContext.copy_ns, layout.SimContext.launches)
        gpu, copied, launches = [self._words[at + field.offset // 8] for field in fields]
        return gpu, copied, launches

    def _compute_percent(self, samples: int) -> int:
        # Drivers update their figure each 200 ms, so the newest whole interval is the one before.
        end = self.read_now_ns() // _UPDATE_NS * _UPDATE_NS - _UPDATE_NS
        busy = 0
        for n in range(layout.SAMPLES):
            number, ns = self._words.read_several(samples // 8 + 2 * n, 2)
            if end - _WINDOW_NS <= number * layout.SAMPLE_NS < end:
                busy += ns
        return min(busy * 100 // _WINDOW_NS, 100)

    # --- failures ---

    def inject_xid(
        self, uuid: str, xid: int, *, pid: int | None = None, needs_reset: bool = False
    ) -> None:
        """Report an XID; work on the card fails if an XID of this number does that.

        Args:
            pid: fail the work of this process only.
            needs_reset: refuse new contexts until `heal_card`.
        """
        self._inject_fault(
            uuid, layout.FAULT_XID, xid=xid, error=layout.XID_ERRORS.get(xid, 0), pid=pid or 0
        )
        if needs_reset:
            self._set_half(uuid, layout.SimCard.needs_reset.offset, 1)

    def inject_ecc(self, uuid: str, *, corrected: int = 0, uncorrected: int = 0) -> None:
        """Count memory errors; uncorrected ones are XID 48 and fail the work on the card."""
        if corrected:
            self._inject_fault(uuid, layout.FAULT_ECC_CORRECTED, count=corrected)
        if uncorrected:
            self._inject_fault(
                uuid,
                layout.FAULT_ECC_UNCORRECTED,
                xid=48,
                error=layout.XID_ERRORS[48],
                count=uncorrected,
            )

    def lose_card(self, uuid: str) -> None:
        """Make the card fall off the bus (XID 79): calls about it fail until `heal_card`."""
        self._inject_fault(uuid, layout.FAULT_LOST, xid=LOST_XID, error=layout.XID_ERRORS[LOST_XID])

    def refuse_contexts(self, uuid: str) -> None:
        """Make the card need a reset: it refuses new contexts until `heal_card`, without event."""
        self._set_half(uuid, layout.SimCard.needs_reset.offset, 1)

    def heal_card(self, uuid: str) -> None:
        """Make the card well again. Failed contexts stay failed, as on a real card."""
        self._inject_fault(uuid, layout.FAULT_HEALED)
        self._set_half(uuid, layout.SimCard.last_xid.offset, 0)

    def read_condition(self, uuid: str) -> tuple[bool, bool, int | None]:
        """Return whether the card is lost, whether it needs a reset, and its last XID."""
        card = self._read_card(self._index[uuid])
        return bool(card.lost), bool(card.needs_reset), card.last_xid or None

    def _inject_fault(
        self, uuid: str, kind: int, *, xid: int = 0, error: int = 0, pid: int = 0, count: int = 0
    ) -> None:
        card = self._index[uuid]
        # An open file description of its own: flock(2) locks exclude each other only between those.
        with self._path.open("r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            number = self._words[_H_FAULTS]
            at = layout.SimHeader.fault.offset + number % layout.FAULTS * ctypes.sizeof(
                layout.SimFault
            )
            fault = layout.SimFault(self.read_now_ns(), card, xid, error, pid, kind, count)
            self._words.write_part(at, bytes(fault))
            self._mark_card(uuid, fault)
            # The count comes last: the engine reads a fault only below it.
            self._words[_H_FAULTS] = number + 1
            self._halves[_H_WAKE] = (self._halves[_H_WAKE] + 1) & 0xFFFFFFFF

    def _mark_card(self, uuid: str, fault: layout.SimFault) -> None:
        if fault.xid:
            self._set_half(uuid, layout.SimCard.last_xid.offset, fault.xid)
        if fault.kind in (layout.FAULT_LOST, layout.FAULT_HEALED):
            self._set_half(uuid, layout.SimCard.lost.offset, int(fault.kind == layout.FAULT_LOST))
        if fault.kind == layout.FAULT_HEALED:
            self._set_half(uuid, layout.SimCard.needs_reset.offset, 0)
        ecc = {
            layout.FAULT_ECC_CORRECTED: layout.SimCard.ecc_corrected.offset,
            layout.FAULT_ECC_UNCORRECTED: layout.SimCard.ecc_uncorrected.offset,
        }
        if fault.kind in ecc:
            self._words[(locate_card(fault.card) + ecc[fault.kind]) // 8] += fault.count

    def _set_half(self, uuid: str, offset: int, value: int) -> None:
        self._halves[(locate_card(self._index[uuid]) + offset) // 4] = value


_OWNER: Final = layout.SimProcess.owner
_NAMESPACE: Final = layout.SimProcess.pid_namespace
_H_VIRTUAL: Final = layout.SimHeader.virtual_ns.offset // 8
_H_LOCK: Final = layout.SimHeader.lock.offset // 8
_H_FAULTS: Final = layout.SimHeader.faults.offset // 8
_H_WAKE: Final = layout.SimHeader.wake.offset // 4
_H_HIGH_WATER: Final = layout.SimHeader.high_water.offset // 4


def read_usages(machine: SimulatedMachine, wanted: Collection[str]) -> dict[str, DeviceUsage]:
    """Return the use of those cards that the machine has."""
    present = {card.uuid for card in machine.cards}
    return {uuid: machine.read_usage(uuid) for uuid in wanted if uuid in present}
