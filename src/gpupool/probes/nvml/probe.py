"""Probes NVIDIA cards of this host through the driver's management library.

Almost any call of NVML may answer "not supported" on some card, driver or virtual machine. Such an
answer is None or "unknown" here and never a failure; only a card that the driver has lost is an
event. Numbers and rules are from the NVML API reference, NVIDIA's XID catalogue and proc(5).
"""

from __future__ import annotations

import os
import platform
import threading
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from gpupool.base.errors import ServiceUnavailable
from gpupool.model.catalogue import CATALOGUE, canonical_model
from gpupool.model.device import CardMode, Device, DeviceHealth, DeviceProcess, DeviceUsage
from gpupool.probes.accounting import read_ended_times
from gpupool.probes.contract import EndedTimes, HealthEvent, Machine, ProbeAvailability
from gpupool.probes.numa import list_usable_cpus, read_numa
from gpupool.probes.nvml.counters import read_counters
from gpupool.probes.nvml.driver import NvmlDriver, decode_text, format_pci_address
from gpupool.probes.nvml.partitions import read_partitions, read_profiles
from gpupool.probes.nvml.topology import read_topology
from gpupool.probes.nvml.values import (
    find_larger,
    format_cuda,
    format_pci_id,
    name_architecture,
    read_first_flag,
)
from gpupool.probes.nvml.xids import judge_xid
from gpupool.probes.process_times import SampledTimes, UseSample
from gpupool.probes.processes import ProcessTable

#: Health from the best to the worst; a card has the worst that is known of it.
_GRAVITY = (DeviceHealth.UNKNOWN, DeviceHealth.OK, DeviceHealth.WARNING, DeviceHealth.FAILED)


class NvmlProbe:
    """Queries the driver. One instance per process; calls may come from several threads.

    Args:
        processes: describes processes, of the host where this process is in a container.
        sys_root: where the kernel shows devices.
    """

    name = "nvml"

    def __init__(
        self, processes: ProcessTable | None = None, sys_root: Path = Path("/sys")
    ) -> None:
        self._processes = processes or ProcessTable()
        self._sys = sys_root
        self._driver = NvmlDriver()
        self._events: Any = None
        self._watched = False
        self._times: dict[str, SampledTimes] = {}
        self._lost_told = False
        self._seen: dict[str | None, tuple[DeviceHealth, str]] = {}
        self._closed = threading.Event()
        self._waiting = threading.Lock()

    def available(self) -> ProbeAvailability:
        try:
            self._driver.start()
        except ServiceUnavailable as problem:
            return ProbeAvailability(False, problem.message)
        count = self._driver.ask(self._driver.nvml.nvmlDeviceGetCount)
        return ProbeAvailability(
            bool(count), "" if count else "the NVIDIA driver works but shows no card"
        )

    def scan(self) -> Machine:
        self._driver.start()
        handles = dict(self._driver.iterate_handles())
        found = []
        by_uuid = {}
        for index, handle in handles.items():
            device = self._read_device(index, handle)
            # Without memory a lost card of an unknown model is left: nothing useful is known of it.
            if device.memory_bytes:
                found.append(device)
                by_uuid[device.uuid] = handle
        devices = tuple(found)
        cpus = list_usable_cpus()
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        return Machine(
            name=platform.node(),
            devices=devices,
            topology=read_topology(self._driver, devices, by_uuid),
            cpu_count=len(cpus),
            memory_bytes=memory,
            numa=read_numa(cpus, memory, self._sys),
            driver_version=self._driver.ask(self._driver.nvml.nvmlSystemGetDriverVersion),
            cuda_version=format_cuda(
                self._driver.ask(self._driver.nvml.nvmlSystemGetCudaDriverVersion)
            ),
        )

    def observe(self, uuids: Collection[str]) -> Mapping[str, DeviceUsage]:
        self._driver.start()
        usages = {}
        for uuid, handle in self._iterate_wanted(uuids):
            usages[uuid] = self._read_usage(handle)
        return usages

    def _iterate_wanted(self, uuids: Collection[str]) -> Iterator[tuple[str, Any]]:
        """Yield uuid and handle of those of these cards that the driver shows."""
        wanted = set(uuids)
        for _, handle in self._driver.iterate_handles():
            uuid = self._driver.read_uuid(handle)
            if uuid in wanted:
                yield uuid, handle

    def process_times(self, uuids: Collection[str]) -> Mapping[str, Mapping[int, int]]:
        """Return nanoseconds by card and pid, summed over samples of the driver.

        A card whose driver has no samples is left out.
        """
        self._driver.start()
        found = {}
        for uuid, handle in self._iterate_wanted(uuids):
            times = self._read_times(uuid, handle)
            if times is not None:
                found[uuid] = times
        return found

    def ended_times(
        self, uuids: Collection[str], pids: Collection[int]
    ) -> Mapping[str, EndedTimes]:
        """Return ended processes by the driver's accounting mode, which an operator turns on."""
        self._driver.start()
        driver = self._driver
        found = {}
        for uuid, handle in self._iterate_wanted(uuids):
            found[uuid] = read_ended_times(driver.nvml, driver.try_call, handle, pids)
        return found

    def health(self) -> Mapping[str, tuple[DeviceHealth, str]]:
        self._driver.start()
        found = {}
        for _, handle in self._driver.iterate_handles():
            uuid = self._driver.read_uuid(handle)
            if uuid:
                found[uuid] = self._judge_health(uuid, handle)
        return found

    def wait_events(self, timeout_seconds: float) -> tuple[HealthEvent, ...]:
        """Wait as the contract says; `close` waits for this to return."""
        self._driver.start()
        with self._waiting:
            self._register_events()
            if not self._watched:
                # No card can report: waiting on an empty set would return at once.
                self._closed.wait(timeout_seconds)
                return ()
            return self._wait_event(timeout_seconds)

    def close(self) -> None:
        self._closed.set()
        with self._waiting:
            if self._events is not None:
                self._driver.ask(self._driver.nvml.nvmlEventSetFree, self._events)
            if self._driver.nvml is not None:
                self._driver.ask(self._driver.nvml.nvmlShutdown)
            self._events = self._driver.nvml = None

    def _read_device(self, index: int, handle: Any) -> Device:
        nvml = self._driver.nvml
        uuid = self._driver.read_uuid(handle)
        pci = self._driver.ask(nvml.nvmlDeviceGetPciInfo, handle)
        address = None if pci is None else format_pci_address(decode_text(pci.busId))
        product = str(self._driver.ask(nvml.nvmlDeviceGetName, handle) or "")
        model = canonical_model(product, None if pci is None else format_pci_id(pci.pciDeviceId))
        minor = self._driver.ask(nvml.nvmlDeviceGetMinorNumber, handle)
        health, reason = self._judge_health(uuid, handle)
        profiles = tuple(read_profiles(self._driver, handle))
        mode = self._driver.ask(nvml.nvmlDeviceGetMigMode, handle)
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
            device_paths=(
                *(() if minor is None else (f"/dev/nvidia{minor}",)),
                *self._drm_nodes(address),
            ),
            health=health,
            health_reason=reason,
            architecture=name_architecture(
                self._driver.ask(nvml.nvmlDeviceGetArchitecture, handle)
            ),
            compute_capability=self._driver.ask(nvml.nvmlDeviceGetCudaComputeCapability, handle),
            driver_version=self._driver.ask(nvml.nvmlSystemGetDriverVersion),
            ecc_enabled=read_first_flag(self._driver.ask(nvml.nvmlDeviceGetEccMode, handle)),
            partitioned=partitioned,
            profiles=profiles,
            partitions=tuple(read_partitions(self._driver, uuid, handle, profiles))
            if partitioned
            else (),
            mode=CardMode.MIG if partitioned else CardMode.PLAIN,
        )

    def _memory_bytes(self, handle: Any, model: str) -> int:
        """Return the memory by the driver; of a lost card, that of its model, 0 if unknown."""
        memory = self._driver.ask(self._driver.nvml.nvmlDeviceGetMemoryInfo, handle)
        if memory is not None:
            return int(memory.total)
        return CATALOGUE[model].memory_mib << 20 if model in CATALOGUE else 0

    def _drm_nodes(self, address: str | None) -> tuple[str, ...]:
        """Return the graphics nodes of the same card."""
        # They are a second way to the card, so hiding a card must close them as well.
        folder = self._sys / f"bus/pci/devices/{address}/drm"
        if not folder.is_dir():
            return ()
        return tuple(sorted(f"/dev/dri/{entry.name}" for entry in folder.iterdir()))

    def _numa_node(self, address: str | None) -> int | None:
        """Return the NUMA node by the kernel, which writes -1 where the platform has none."""
        try:
            node = int((self._sys / f"bus/pci/devices/{address}/numa_node").read_text())
        except (OSError, ValueError):
            return None
        return node if node >= 0 else None

    def _read_usage(self, handle: Any) -> DeviceUsage:
        nvml = self._driver.nvml
        rates = self._driver.ask(nvml.nvmlDeviceGetUtilizationRates, handle)
        # The second form leaves out what the driver reserves; older drivers have the first only.
        memory = self._driver.ask(nvml.nvmlDeviceGetMemoryInfo, handle, nvml.nvmlMemory_v2)
        memory = memory or self._driver.ask(nvml.nvmlDeviceGetMemoryInfo, handle)
        milliwatts = self._driver.ask(nvml.nvmlDeviceGetPowerUsage, handle)
        return DeviceUsage(
            utilization_percent=None if rates is None else int(rates.gpu),
            memory_used_bytes=None if memory is None else int(memory.used),
            power_watts=None if milliwatts is None else round(milliwatts / 1000),
            temperature_celsius=self._driver.ask(
                nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU
            ),
            processes=self._list_running(handle),
        )

    def _read_times(self, uuid: str, handle: Any) -> Mapping[int, int] | None:
        """Return GPU time of the processes on a card; None where the driver has no samples."""
        times = self._times.setdefault(uuid, SampledTimes())
        running = self._list_running(handle)
        said, error = self._driver.try_call(
            self._driver.nvml.nvmlDeviceGetProcessUtilization, handle, times.last_us
        )
        # "Not found" means that nothing ran since the last sample.
        if running is None or error not in (None, self._driver.nvml.NVML_ERROR_NOT_FOUND):
            return None
        samples = []
        for one in said or ():
            samples.append(UseSample(int(one.pid), int(one.timeStamp), int(one.smUtil)))
        alive = {process.pid for process in running}
        return times.add_samples(samples, alive)

    def _list_running(self, handle: Any) -> tuple[DeviceProcess, ...] | None:
        """Return compute, graphics and MPS clients; None if compute clients cannot be listed."""
        compute = self._list_running_kind(handle, "Compute")
        graphics = self._list_running_kind(handle, "Graphics")
        mps = self._list_running_kind(handle, "MPSCompute")
        if compute is None:
            return None
        memory: dict[int, int | None] = {}
        for seen in (*compute, *(graphics or ()), *(mps or ())):
            memory[int(seen.pid)] = find_larger(memory.get(int(seen.pid)), seen.usedGpuMemory)
        return tuple(self._processes.describe_process(pid, memory[pid]) for pid in sorted(memory))

    def _list_running_kind(self, handle: Any, kind: str) -> list[Any] | None:
        # Drivers before R510 know only the second form of these calls, with the same records.
        for form in ("v3", "v2"):
            call = getattr(self._driver.nvml, f"nvmlDeviceGet{kind}RunningProcesses_{form}")
            found, error = self._driver.try_call(call, handle)
            if error != self._driver.nvml.NVML_ERROR_FUNCTION_NOT_FOUND:
                return None if found is None else list(found)
        return None

    def _judge_health(self, uuid: str, handle: Any) -> tuple[DeviceHealth, str]:
        """Return the worst of the events seen so far and of the card's own counters."""
        found = [self._seen.get(uuid, (DeviceHealth.OK, "")), *read_counters(self._driver, handle)]
        for wanted in (DeviceHealth.FAILED, DeviceHealth.WARNING, DeviceHealth.UNKNOWN):
            reasons = [reason for health, reason in found if health is wanted]
            if reasons:
                return wanted, "; ".join(reasons)
        return DeviceHealth.OK, ""

    def _register_events(self) -> None:
        """Register every card for what it can report; done once."""
        nvml = self._driver.nvml
        if self._events is not None:
            return
        self._events = self._driver.ask(nvml.nvmlEventSetCreate)
        wanted = nvml.nvmlEventTypeXidCriticalError | nvml.nvmlEventTypeDoubleBitEccError
        for _, handle in self._driver.iterate_handles() if self._events is not None else ():
            kinds = (self._driver.ask(nvml.nvmlDeviceGetSupportedEventTypes, handle) or 0) & wanted
            _, error = self._driver.try_call(
                nvml.nvmlDeviceRegisterEvents, handle, kinds, self._events
            )
            self._watched = self._watched or (kinds != 0 and error is None)

    def _wait_event(self, timeout_seconds: float) -> tuple[HealthEvent, ...]:
        nvml = self._driver.nvml
        data, error = self._driver.try_call(
            nvml.nvmlEventSetWait, self._events, int(timeout_seconds * 1000)
        )
        if data is not None:
            return (self._build_event(data),)
        if error == nvml.NVML_ERROR_GPU_IS_LOST and not self._lost_told:
            self._lost_told = True
            return (HealthEvent(None, DeviceHealth.FAILED, "the driver has lost a card"),)
        if error != nvml.NVML_ERROR_TIMEOUT:
            # The driver refuses at once; without this pause the caller would spin.
            self._closed.wait(timeout_seconds)
        return ()

    def _build_event(self, data: Any) -> HealthEvent:
        """Return the event and the card's health after it."""
        # A harmless event does not heal a card that failed before.
        uuid = self._driver.read_uuid(data.device) or None
        xid = (
            int(data.eventData)
            if data.eventType == self._driver.nvml.nvmlEventTypeXidCriticalError
            else None
        )
        judged = (
            (DeviceHealth.WARNING, "uncorrected memory error") if xid is None else judge_xid(xid)
        )
        worst = max(
            self._seen.get(uuid, judged), judged, key=lambda found: _GRAVITY.index(found[0])
        )
        if uuid is not None and worst[0] is not DeviceHealth.OK:
            self._seen[uuid] = worst
        return HealthEvent(uuid, worst[0], judged[1], xid)
