"""NVIDIA cards of this host, through the driver's management library: the only door to pynvml.

Almost any call of NVML may answer "not supported" on some card, driver or inside some virtual machine. Such
an answer is None or "unknown" here and never a failure; only a card the driver has lost is an event. pynvml
and the library are loaded on first use, so importing this module costs nothing on a machine without cards.

Numbers and rules from: the NVML API reference (nvml.h), NVIDIA's XID catalogue, proc(5).
"""

from __future__ import annotations

import ctypes
import importlib
import os
import platform
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

from gpupool.base.errors import Unavailable
from gpupool.model.catalogue import CATALOGUE, canonical_model
from gpupool.model.device import Device, DeviceUsage, Health, Process
from gpupool.model.partition import Partition, PartitionProfile, Placement
from gpupool.model.topology import Link, LinkKind, Topology, join_groups
from gpupool.probes.accounting import ended_times
from gpupool.probes.contract import Availability, EndedTimes, HealthEvent, Machine
from gpupool.probes.numa import read_numa, usable_cpus
from gpupool.probes.process_times import SampledTimes, UseSample
from gpupool.probes.processes import ProcessTable

# XIDs a program causes itself; the card stays well. The same list as in NVIDIA's own device plugin.
APPLICATION_XIDS = frozenset({13, 31, 43, 45, 68, 109})
# XIDs after which the card cannot be trusted before a reset or a repair.
FATAL_XIDS: Mapping[int, str] = {
    48: "uncorrectable memory error",
    62: "internal micro-controller halt",
    64: "a memory row could not be remapped",
    74: "NVLink error",
    79: "the card has fallen off the bus",
    95: "uncontained memory error",
    119: "the card's system processor does not answer",
    120: "the card's system processor failed",
    140: "unrecovered memory error",
}

_UNHELPFUL = {
    "LIBRARY_NOT_FOUND": "libnvidia-ml.so.1 is not here: the NVIDIA driver is not installed on this machine",
    "DRIVER_NOT_LOADED": "the NVIDIA driver is installed but its kernel module is not loaded (try: modprobe nvidia)",
    "LIB_RM_VERSION_MISMATCH": "the NVIDIA driver was updated while loaded: reboot, or unload and load its modules",
    "NO_PERMISSION": "no permission to talk to the NVIDIA driver (are the /dev/nvidia* nodes visible here?)",
}
_GRAVITY = (Health.UNKNOWN, Health.OK, Health.WARNING, Health.FAILED)
_ARCHITECTURES = ("kepler", "maxwell", "pascal", "volta", "turing", "ampere", "ada", "hopper", "blackwell")


class NvmlProbe:
    """Asks the driver. One instance per process; calls may come from several threads.

    `sys_root` and `processes` say where the kernel shows devices and processes, for hosts seen from a
    container.
    """

    name = "nvml"

    def __init__(self, processes: ProcessTable | None = None, sys_root: Path = Path("/sys")) -> None:
        self._processes = processes or ProcessTable()
        self._sys = sys_root
        self._nvml: Any = None
        self._events: Any = None
        self._watched = False
        self._times: dict[str, SampledTimes] = {}
        self._lost_told = False
        self._seen: dict[str | None, tuple[Health, str]] = {}
        self._closed = threading.Event()
        self._waiting = threading.Lock()

    def available(self) -> Availability:
        try:
            self._start()
        except Unavailable as problem:
            return Availability(False, problem.message)
        count = self._ask(self._nvml.nvmlDeviceGetCount)
        return Availability(bool(count), "" if count else "the NVIDIA driver works but shows no card")

    def scan(self) -> Machine:
        self._start()
        handles = dict(self._handles())
        found = (self._device(index, handle) for index, handle in handles.items())
        devices = tuple(device for device in found if device.memory_bytes)  # else nothing is known of it
        by_uuid = {device.uuid: handles[device.index] for device in devices}
        cpus, memory = usable_cpus(), os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        return Machine(
            name=platform.node(),
            devices=devices,
            topology=self._topology(devices, by_uuid),
            cpu_count=len(cpus),
            memory_bytes=memory,
            numa=read_numa(cpus, memory, self._sys),
            driver_version=self._ask(self._nvml.nvmlSystemGetDriverVersion),
            cuda_version=_cuda_text(self._ask(self._nvml.nvmlSystemGetCudaDriverVersion)),
        )

    def observe(self, uuids: Collection[str]) -> Mapping[str, DeviceUsage]:
        self._start()
        wanted = set(uuids)
        handles = ((self._uuid(handle), handle) for _, handle in self._handles())
        return {uuid: self._usage(handle) for uuid, handle in handles if uuid in wanted}

    def process_times(self, uuids: Collection[str]) -> Mapping[str, Mapping[int, int]]:
        """Nanoseconds by samples of the driver, by card and pid; no entry for a card whose driver has no samples."""
        self._start()
        wanted = set(uuids)
        handles = [(self._uuid(handle), handle) for _, handle in self._handles()]
        found = {uuid: self._times_of(uuid, handle) for uuid, handle in handles if uuid in wanted}
        return {uuid: times for uuid, times in found.items() if times is not None}

    def ended_times(self, uuids: Collection[str], pids: Collection[int]) -> Mapping[str, EndedTimes]:
        """From the driver's accounting mode, which only an operator turns on."""
        self._start()
        wanted = set(uuids)
        handles = [(self._uuid(handle), handle) for _, handle in self._handles()]
        return {uuid: ended_times(self._nvml, self._try, handle, pids) for uuid, handle in handles if uuid in wanted}

    def health(self) -> Mapping[str, tuple[Health, str]]:
        self._start()
        handles = ((self._uuid(handle), handle) for _, handle in self._handles())
        return {uuid: self._health(uuid, handle) for uuid, handle in handles if uuid}

    def wait_events(self, timeout_seconds: float) -> tuple[HealthEvent, ...]:
        """As the contract says; `close` waits for this to return, at most `timeout_seconds` later."""
        self._start()
        with self._waiting:
            self._watch()
            if not self._watched:  # no card can report: waiting on an empty set would return at once
                self._closed.wait(timeout_seconds)
                return ()
            return self._wait(timeout_seconds)

    def close(self) -> None:
        self._closed.set()
        with self._waiting:
            if self._events is not None:
                self._ask(self._nvml.nvmlEventSetFree, self._events)
            if self._nvml is not None:
                self._ask(self._nvml.nvmlShutdown)
            self._events = self._nvml = None

    # --- the door ---

    def _start(self) -> None:
        if self._nvml is not None:
            return
        nvml = importlib.import_module("pynvml")
        try:
            nvml.nvmlInit()
        except nvml.NVMLError as problem:
            raise Unavailable(_start_problem(nvml, problem)) from problem
        self._nvml = nvml

    def _ask(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """What the driver answers, or None for every kind of "cannot say"."""
        answer, _ = self._try(call, *arguments)
        return answer

    def _try(self, call: Callable[..., Any], *arguments: Any) -> tuple[Any, int | None]:
        """The answer and None, or None and the driver's error number."""
        try:
            return call(*arguments), None
        except self._nvml.NVMLError as problem:
            return None, int(problem.value)
        except self._nvml.NVMLLibraryMismatchError:  # an older driver has only an older form of this call
            return None, int(self._nvml.NVML_ERROR_FUNCTION_NOT_FOUND)

    def _handles(self) -> Iterator[tuple[int, Any]]:
        for index in range(self._ask(self._nvml.nvmlDeviceGetCount) or 0):
            handle = self._ask(self._nvml.nvmlDeviceGetHandleByIndex, index)
            if handle is not None and self._uuid(handle):
                yield index, handle

    def _uuid(self, handle: Any) -> str:
        return str(self._ask(self._nvml.nvmlDeviceGetUUID, handle) or "")

    # --- facts ---

    def _device(self, index: int, handle: Any) -> Device:
        nvml, uuid = self._nvml, self._uuid(handle)
        pci = self._ask(nvml.nvmlDeviceGetPciInfo, handle)
        address = None if pci is None else pci_address(_text(pci.busId))
        product = str(self._ask(nvml.nvmlDeviceGetName, handle) or "")
        model = canonical_model(product, None if pci is None else _pci_id(pci.pciDeviceId))
        minor = self._ask(nvml.nvmlDeviceGetMinorNumber, handle)
        health, reason = self._health(uuid, handle)
        profiles = tuple(self._profiles(handle))
        mode = self._ask(nvml.nvmlDeviceGetMigMode, handle)
        partitioned = None if mode is None else mode[0] == 1
        return Device(
            uuid=uuid,
            index=index,
            vendor="nvidia",
            product=product,
            model=model,
            memory_bytes=self._memory_bytes(handle, model),
            pci_address=address,
            numa_node=self._numa_node(address),
            device_paths=(*(() if minor is None else (f"/dev/nvidia{minor}",)), *self._drm_nodes(address)),
            health=health,
            health_reason=reason,
            architecture=_architecture(self._ask(nvml.nvmlDeviceGetArchitecture, handle)),
            compute_capability=self._ask(nvml.nvmlDeviceGetCudaComputeCapability, handle),
            driver_version=self._ask(nvml.nvmlSystemGetDriverVersion),
            ecc_enabled=_first_flag(self._ask(nvml.nvmlDeviceGetEccMode, handle)),
            partitioned=partitioned,
            profiles=profiles,
            partitions=tuple(self._partitions(uuid, handle, profiles)) if partitioned else (),
        )

    def _memory_bytes(self, handle: Any, model: str) -> int:
        """As the driver says; of a card it has lost, what cards of this model have, and 0 for a model
        unknown.
        """
        memory = self._ask(self._nvml.nvmlDeviceGetMemoryInfo, handle)
        if memory is not None:
            return int(memory.total)
        return CATALOGUE[model].memory_mib << 20 if model in CATALOGUE else 0

    def _drm_nodes(self, address: str | None) -> tuple[str, ...]:
        """The graphics nodes of the same card: a second way in, which hiding a card must close as well."""
        folder = self._sys / f"bus/pci/devices/{address}/drm"
        names = (entry.name for entry in folder.iterdir()) if folder.is_dir() else ()
        return tuple(f"/dev/dri/{name}" for name in sorted(names))

    def _numa_node(self, address: str | None) -> int | None:
        """From the kernel; it says -1 where the platform does not tell."""
        try:
            node = int((self._sys / f"bus/pci/devices/{address}/numa_node").read_text())
        except (OSError, ValueError):
            return None
        return node if node >= 0 else None

    def _usage(self, handle: Any) -> DeviceUsage:
        nvml = self._nvml
        rates = self._ask(nvml.nvmlDeviceGetUtilizationRates, handle)
        memory = self._ask(nvml.nvmlDeviceGetMemoryInfo, handle, nvml.nvmlMemory_v2)
        memory = memory or self._ask(nvml.nvmlDeviceGetMemoryInfo, handle)
        milliwatts = self._ask(nvml.nvmlDeviceGetPowerUsage, handle)
        return DeviceUsage(
            utilization_percent=None if rates is None else int(rates.gpu),
            memory_used_bytes=None if memory is None else int(memory.used),
            power_watts=None if milliwatts is None else round(milliwatts / 1000),
            temperature_celsius=self._ask(nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU),
            processes=self._running(handle),
        )

    def _times_of(self, uuid: str, handle: Any) -> Mapping[int, int] | None:
        """The driver says "not found" where nothing ran since the last sample."""
        times, running = self._times.setdefault(uuid, SampledTimes()), self._running(handle)
        said, error = self._try(self._nvml.nvmlDeviceGetProcessUtilization, handle, times.last_us)
        if running is None or error not in (None, self._nvml.NVML_ERROR_NOT_FOUND):
            return None
        samples = [UseSample(int(one.pid), int(one.timeStamp), int(one.smUtil)) for one in said or ()]
        return times.add(samples, {process.pid for process in running})

    def _running(self, handle: Any) -> tuple[Process, ...] | None:
        """Compute, graphics and MPS clients as one list; None when not even the first can be listed."""
        kinds = ("Compute", "Graphics", "MPSCompute")
        compute, graphics, mps = (self._running_of_kind(handle, kind) for kind in kinds)
        if compute is None:
            return None
        memory: dict[int, int | None] = {}
        for seen in (*compute, *(graphics or ()), *(mps or ())):
            memory[int(seen.pid)] = _larger(memory.get(int(seen.pid)), seen.usedGpuMemory)
        return tuple(self._processes.describe(pid, memory[pid]) for pid in sorted(memory))

    def _running_of_kind(self, handle: Any, kind: str) -> list[Any] | None:
        """Drivers before R510 know only the second form of these calls, whose records are the same."""
        for form in ("v3", "v2"):
            call = getattr(self._nvml, f"nvmlDeviceGet{kind}RunningProcesses_{form}")
            found, error = self._try(call, handle)
            if error != self._nvml.NVML_ERROR_FUNCTION_NOT_FOUND:
                return None if found is None else list(found)
        return None

    # --- health ---

    def _health(self, uuid: str, handle: Any) -> tuple[Health, str]:
        """The worst that is known: what happened while we watched, or what the card's own counters say."""
        found = [self._seen.get(uuid, (Health.OK, "")), *self._counters(handle)]
        for wanted in (Health.FAILED, Health.WARNING, Health.UNKNOWN):
            reasons = [reason for health, reason in found if health is wanted]
            if reasons:
                return wanted, "; ".join(reasons)
        return Health.OK, ""

    def _counters(self, handle: Any) -> Iterator[tuple[Health, str]]:
        nvml = self._nvml
        _, error = self._try(nvml.nvmlDeviceGetMemoryInfo, handle)
        if error == nvml.NVML_ERROR_GPU_IS_LOST:
            yield Health.FAILED, "the driver has lost the card"
        elif error == nvml.NVML_ERROR_RESET_REQUIRED:
            yield Health.FAILED, "the card must be reset"
        elif error is not None:
            yield Health.UNKNOWN, "the driver does not tell the state of the card"
        uncorrected = self._ask(
            nvml.nvmlDeviceGetTotalEccErrors,
            handle,
            nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
            nvml.NVML_VOLATILE_ECC,
        )
        if uncorrected:
            yield Health.WARNING, f"{uncorrected} uncorrected memory errors since the driver was loaded"
        _, _, pending, failure = self._ask(nvml.nvmlDeviceGetRemappedRows, handle) or (0, 0, 0, 0)
        if failure:
            yield Health.FAILED, "a memory row could not be remapped: the card needs repair"
        if pending:
            yield Health.WARNING, "a memory row waits to be remapped: reset the card"
        if self._ask(nvml.nvmlDeviceGetRetiredPagesPendingStatus, handle):
            yield Health.WARNING, "memory pages wait to be retired: reset the card"

    def _watch(self) -> None:
        """Register every card for what it can report; done once."""
        nvml = self._nvml
        if self._events is not None:
            return
        self._events = self._ask(nvml.nvmlEventSetCreate)
        wanted = nvml.nvmlEventTypeXidCriticalError | nvml.nvmlEventTypeDoubleBitEccError
        for _, handle in self._handles() if self._events is not None else ():
            kinds = (self._ask(nvml.nvmlDeviceGetSupportedEventTypes, handle) or 0) & wanted
            _, error = self._try(nvml.nvmlDeviceRegisterEvents, handle, kinds, self._events)
            self._watched = self._watched or (kinds != 0 and error is None)

    def _wait(self, timeout_seconds: float) -> tuple[HealthEvent, ...]:
        nvml = self._nvml
        data, error = self._try(nvml.nvmlEventSetWait, self._events, int(timeout_seconds * 1000))
        if data is not None:
            return (self._event(data),)
        if error == nvml.NVML_ERROR_GPU_IS_LOST and not self._lost_told:
            self._lost_told = True
            return (HealthEvent(None, Health.FAILED, "the driver has lost a card"),)
        if error != nvml.NVML_ERROR_TIMEOUT:  # the driver refuses at once, and would do so in a tight loop
            self._closed.wait(timeout_seconds)
        return ()

    def _event(self, data: Any) -> HealthEvent:
        """What happened and what the card is now: a harmless event does not heal a card that failed before."""
        uuid = self._uuid(data.device) or None
        xid = int(data.eventData) if data.eventType == self._nvml.nvmlEventTypeXidCriticalError else None
        judged = (Health.WARNING, "uncorrected memory error") if xid is None else judge_xid(xid)
        worst = max(self._seen.get(uuid, judged), judged, key=lambda found: _GRAVITY.index(found[0]))
        if uuid is not None and worst[0] is not Health.OK:
            self._seen[uuid] = worst
        return HealthEvent(uuid, worst[0], judged[1], xid)

    # --- partitions ---

    def _profiles(self, handle: Any) -> Iterator[PartitionProfile]:
        """The shapes this very card offers; the number of a shape is not its place in the enumeration."""
        count = self._nvml.NVML_GPU_INSTANCE_PROFILE_COUNT
        infos = [self._ask(self._nvml.nvmlDeviceGetGpuInstanceProfileInfo, handle, i) for i in range(count)]
        known = [info for info in infos if info is not None]
        slices = max((info.sliceCount for info in known), default=0)
        for info in known:
            places = self._places(handle, info)
            if places:
                yield PartitionProfile(
                    name=_text(info.name).removeprefix("MIG "),
                    size=places[0].size,
                    memory_bytes=int(info.memorySizeMB) << 20,
                    starts=tuple(sorted(place.start for place in places)),
                    max_count=int(info.instanceCount),
                    gpu_milli=info.sliceCount * 1000 // slices,
                    profile_id=int(info.id),
                    media="+" in _text(info.name),
                )

    def _places(self, handle: Any, info: Any) -> list[Any]:
        nvml, count = self._nvml, ctypes.c_uint(0)
        ask = nvml.nvmlDeviceGetGpuInstancePossiblePlacements
        if self._ask(ask, handle, info.id, None, ctypes.byref(count)) is None or not count.value:
            return []
        found = (nvml.c_nvmlGpuInstancePlacement_t * count.value)()
        done = self._ask(ask, handle, info.id, ctypes.byref(found), ctypes.byref(count))
        return [] if done is None else list(found[: count.value])

    def _partitions(self, uuid: str, handle: Any, profiles: Iterable[PartitionProfile]) -> Iterator[Partition]:
        nvml = self._nvml
        names = dict(self._partition_uuids(handle))
        for profile in profiles:
            count = ctypes.c_uint(0)
            found = (nvml.c_nvmlGpuInstance_t * profile.max_count)()
            ask = nvml.nvmlDeviceGetGpuInstances
            if self._ask(ask, handle, profile.profile_id, found, ctypes.byref(count)) is None:
                continue
            for instance in found[: count.value]:
                info = self._ask(nvml.nvmlGpuInstanceGetInfo, instance)
                if info is not None:
                    place = Placement(info.placement.start, info.placement.size, profile.name)
                    yield Partition(uuid, place, names.get(info.id), int(info.id))

    def _partition_uuids(self, handle: Any) -> Iterator[tuple[int, str]]:
        """GPU instance number and uuid of every partition a program can be given."""
        nvml = self._nvml
        for index in range(self._ask(nvml.nvmlDeviceGetMaxMigDeviceCount, handle) or 0):
            piece = self._ask(nvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, index)
            number = None if piece is None else self._ask(nvml.nvmlDeviceGetGpuInstanceId, piece)
            if number is not None and self._uuid(piece):
                yield int(number), self._uuid(piece)

    # --- topology ---

    def _topology(self, devices: tuple[Device, ...], handles: Mapping[str, Any]) -> Topology:
        links, switched = self._nvlinks(devices, handles)
        levels = self._ancestors(devices, handles)
        nvml = self._nvml
        domains = {
            LinkKind.NVSWITCH: (switched,) if len(switched) > 1 else (),
            LinkKind.PCIE_SWITCH: _groups(levels, nvml.NVML_TOPOLOGY_MULTIPLE),
            LinkKind.HOST_BRIDGE: _groups(levels, nvml.NVML_TOPOLOGY_HOSTBRIDGE),
            LinkKind.NUMA: _groups(levels, nvml.NVML_TOPOLOGY_NODE),
        }
        numa = {d.uuid: d.numa_node for d in devices if d.numa_node is not None}
        known = {kind: groups for kind, groups in domains.items() if groups}
        return Topology(tuple(d.uuid for d in devices), links, numa, known)

    def _ancestors(self, devices: tuple[Device, ...], handles: Mapping[str, Any]) -> dict[tuple[str, str], int]:
        ask = self._nvml.nvmlDeviceGetTopologyCommonAncestor
        pairs = combinations([d.uuid for d in devices], 2)
        levels = {(a, b): self._ask(ask, handles[a], handles[b]) for a, b in pairs}
        return {pair: int(level) for pair, level in levels.items() if level is not None}

    def _nvlinks(
        self, devices: tuple[Device, ...], handles: Mapping[str, Any]
    ) -> tuple[tuple[Link, ...], frozenset[str]]:
        """Links that end at another card of this machine, and the cards of which a link ends at a switch."""
        by_address = {d.pci_address: d.uuid for d in devices if d.pci_address}
        counts: dict[tuple[str, str], int] = {}
        switched: set[str] = set()
        for device in devices:
            for address in self._remote_ends(handles[device.uuid]):
                if address is None:
                    switched.add(device.uuid)
                elif other := by_address.get(address):
                    counts[device.uuid, other] = counts.get((device.uuid, other), 0) + 1
        pairs = {(min(pair), max(pair)) for pair in counts}
        links = (Link(a, b, LinkKind.NVLINK, max(counts.get((a, b), 0), counts.get((b, a), 0))) for a, b in pairs)
        return tuple(sorted(links, key=lambda link: (link.a, link.b))), frozenset(switched)

    def _remote_ends(self, handle: Any) -> Iterator[str | None]:
        """For every active link of a card the PCI address at its other end, or None for a switch."""
        nvml = self._nvml
        for number in range(nvml.NVML_NVLINK_MAX_LINKS):
            active, error = self._try(nvml.nvmlDeviceGetNvLinkState, handle, number)
            if error in (nvml.NVML_ERROR_INVALID_ARGUMENT, nvml.NVML_ERROR_FUNCTION_NOT_FOUND):
                return  # past the last link of this card
            if not active:
                continue
            kind = self._ask(nvml.nvmlDeviceGetNvLinkRemoteDeviceType, handle, number)
            remote = self._ask(nvml.nvmlDeviceGetNvLinkRemotePciInfo, handle, number)
            if kind == nvml.NVML_NVLINK_DEVICE_TYPE_SWITCH:
                yield None
            elif remote is not None:
                yield pci_address(_text(remote.busId))


def judge_xid(xid: int) -> tuple[Health, str]:
    """What an XID says about the card. One that a program caused leaves it well.

    >>> judge_xid(79)
    (<Health.FAILED: 'failed'>, 'the card has fallen off the bus (XID 79)')
    """
    if xid in APPLICATION_XIDS:
        return Health.OK, f"a program's own error (XID {xid})"
    if xid in FATAL_XIDS:
        return Health.FAILED, f"{FATAL_XIDS[xid]} (XID {xid})"
    return Health.WARNING, f"driver error (XID {xid})"


def pci_address(bus_id: str) -> str:
    """The kernel's way to write an address from NVML's, which has eight digits of domain and capital letters.

    >>> pci_address("00000000:3B:00.0")
    '0000:3b:00.0'
    """
    domain, _, rest = bus_id.lower().partition(":")
    return f"{int(domain, 16):04x}:{rest}" if rest else bus_id.lower()


def _start_problem(nvml: Any, problem: Any) -> str:
    known = {getattr(nvml, f"NVML_ERROR_{name}"): text for name, text in _UNHELPFUL.items()}
    return known.get(problem.value, f"the NVIDIA driver does not start: {problem}")


def _groups(levels: Mapping[tuple[str, str], int], farthest: int) -> tuple[frozenset[str], ...]:
    """The sets of cards whose common ancestor is at most `farthest` away; PCI is a tree, so sets are
    disjoint.
    """
    near = (frozenset(pair) for pair, level in levels.items() if level <= farthest)
    return tuple(sorted(join_groups(near), key=min))


def _larger(one: int | None, other: int | None) -> int | None:
    known = [int(value) for value in (one, other) if value is not None]
    return max(known, default=None)


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode("utf-8", "replace")


def _pci_id(number: int) -> str:
    """NVML packs device and vendor into one number: 0x233510de is `10de:2335`."""
    return f"{number & 0xFFFF:04x}:{number >> 16:04x}"


def _cuda_text(number: int | None) -> str | None:
    return None if number is None else f"{number // 1000}.{number % 1000 // 10}"


def _architecture(number: int | None) -> str | None:
    """NVML counts architectures from Kepler, which is 2."""
    known = number is not None and 0 <= number - 2 < len(_ARCHITECTURES)
    return _ARCHITECTURES[number - 2] if known and number is not None else None


def _first_flag(modes: Any) -> bool | None:
    return None if modes is None else modes[0] == 1
