"""Probes NVIDIA cards of this host through the driver's management library.

Almost any call of NVML may answer "not supported" on some card, driver or virtual machine. Such an
answer is None or "unknown" here and never a failure; only a card that the driver has lost is an
event. While a step needs NVML closed, every reading raises ProbeSuspended, and `wait_events` waits on.
Numbers and rules are from the NVML API reference, NVIDIA's XID catalogue and proc(5).
"""

from __future__ import annotations

import os
import platform
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
from gpupool.probes.nvml.driver import NvmlDriver, decode_text, format_pci_address, in_session
from gpupool.probes.nvml.events import CardEvents
from gpupool.probes.nvml.partitions import read_partitions, read_profiles
from gpupool.probes.nvml.topology import read_topology
from gpupool.probes.nvml.values import (
    find_larger,
    format_cuda,
    format_pci_id,
    name_architecture,
    read_first_flag,
)
from gpupool.probes.process_times import SampledTimes, UseSample
from gpupool.probes.processes import ProcessTable


class NvmlProbe:
    """Queries the driver. Calls may come from several threads.

    Args:
        processes: describes processes, of the host where this process is in a container.
        sys_root: where the kernel shows devices.
        driver: NVML, as this process has it open.
    """

    name = "nvml"

    def __init__(
        self,
        processes: ProcessTable | None = None,
        sys_root: Path = Path("/sys"),
        driver: NvmlDriver | None = None,
    ) -> None:
        self._processes = processes or ProcessTable()
        self._sys = sys_root
        self._driver = driver or NvmlDriver()
        self._events = CardEvents(self._driver)
        self._times: dict[str, SampledTimes] = {}

    def available(self) -> ProbeAvailability:
        try:
            with self._driver.session():
                count = self._driver.ask(self._driver.nvml.nvmlDeviceGetCount)
        except ServiceUnavailable as problem:
            return ProbeAvailability(False, problem.message)
        return ProbeAvailability(
            bool(count), "" if count else "the NVIDIA driver works but shows no card"
        )

    @in_session
    def scan(self) -> Machine:
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

    @in_session
    def observe(self, uuids: Collection[str]) -> Mapping[str, DeviceUsage]:
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

    @in_session
    def process_times(self, uuids: Collection[str]) -> Mapping[str, Mapping[int, int]]:
        """Return nanoseconds by card and pid, summed over samples of the driver.

        A card whose driver has no samples is left out.
        """
        found = {}
        for uuid, handle in self._iterate_wanted(uuids):
            times = self._read_times(uuid, handle)
            if times is not None:
                found[uuid] = times
        return found

    @in_session
    def ended_times(
        self, uuids: Collection[str], pids: Collection[int]
    ) -> Mapping[str, EndedTimes]:
        """Return ended processes by the driver's accounting mode, which an operator turns on."""
        driver = self._driver
        found = {}
        for uuid, handle in self._iterate_wanted(uuids):
            found[uuid] = read_ended_times(driver.nvml, driver.try_call, handle, pids)
        return found

    @in_session
    def health(self) -> Mapping[str, tuple[DeviceHealth, str]]:
        found = {}
        for _, handle in self._driver.iterate_handles():
            uuid = self._driver.read_uuid(handle)
            if uuid:
                found[uuid] = self._judge_health(uuid, handle)
        return found

    def wait_events(self, timeout_seconds: float) -> tuple[HealthEvent, ...]:
        """Wait as the contract says, also while NVML is closed."""
        return self._events.wait(timeout_seconds)

    def close(self) -> None:
        self._events.close()
        self._driver.close()

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
            energy_millijoules=self._driver.ask(nvml.nvmlDeviceGetTotalEnergyConsumption, handle),
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
        found = [self._events.get_worst(uuid), *read_counters(self._driver, handle)]
        for wanted in (DeviceHealth.FAILED, DeviceHealth.WARNING, DeviceHealth.UNKNOWN):
            reasons = [reason for health, reason in found if health is wanted]
            if reasons:
                return wanted, "; ".join(reasons)
        return DeviceHealth.OK, ""
