"""Creates a simulated machine's file from a `Machine`.

`probes.simgpu_layout` holds its layout, `probes.simgpu` reads it.
"""

from __future__ import annotations

import ctypes
import os
import tempfile
import uuid as uuids
from pathlib import Path
from typing import Final

from gpupool.model.device import Device
from gpupool.probes import simgpu_layout as layout
from gpupool.probes.contract import Machine
from gpupool.probes.simgpu_cards import (
    compute_context_bytes,
    count_multiprocessors,
    count_threads,
    find_character,
    find_compute_capability,
    find_pci_device_id,
)

#: Versions that the simulated driver reports; CUDA 13.0 as cuDriverGetVersion writes it.
DRIVER_VERSION: Final = "580.65.06"
CUDA_VERSION: Final = 13_000
_NEWEST: Final = (CUDA_VERSION, DRIVER_VERSION)
GRANULE_BYTES: Final = 2 << 20
#: Nanoseconds of a context's time slice, and of a switch between two contexts.
SLICE_NS: Final = 2_000_000
SWITCH_NS: Final = 20_000


def create_machine(
    path: Path, machine: Machine, *, virtual: bool = False, together: bool = False
) -> None:
    """Create a machine file atomically; processes that have an older one open keep it.

    Args:
        virtual: its clock moves when all processes wait.
        together: contexts run side by side as under MPS instead of in turns.

    Raises:
        OSError: the file cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        # In a user's own pool every job runs as that user; in root's, jobs of any account use the
        # card.
        os.fchmod(descriptor, 0o666 if os.geteuid() == 0 else 0o600)
        os.ftruncate(descriptor, ctypes.sizeof(layout.MachineFile))
        os.pwrite(descriptor, bytes(_build_header(machine, virtual, together)), 0)
        cards = b""
        for index, device in enumerate(machine.devices[: layout.CARDS]):
            cards += bytes(_build_card(device, index))
        os.pwrite(descriptor, cards, layout.MachineFile.card.offset)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    finally:
        os.close(descriptor)


def read_boot_id() -> bytes:
    return uuids.UUID(
        Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    ).bytes


def _build_header(machine: Machine, virtual: bool, together: bool) -> layout.SimHeader:
    cuda, driver = _choose_versions(machine)
    return layout.SimHeader(
        magic=layout.MAGIC,
        layout=layout.LAYOUT,
        cards=min(len(machine.devices), layout.CARDS),
        size=ctypes.sizeof(layout.MachineFile),
        clock=layout.CLOCK_VIRTUAL if virtual else layout.CLOCK_REAL,
        mode=layout.TOGETHER if together else layout.TIME_SLICE,
        slice_ns=SLICE_NS,
        switch_ns=0 if virtual else SWITCH_NS,
        cuda_version=cuda,
        nvml_version=13,
        driver_version=driver.encode()[:31],
        name=machine.name.encode()[:63],
        boot=(ctypes.c_uint8 * 16)(*read_boot_id()),
        wake=1,
    )


def _choose_versions(machine: Machine) -> tuple[int, str]:
    """Return the versions of CUDA, as cuDriverGetVersion writes it, and of the driver.

    A machine recorded with an older driver gets those of the simulated driver, which is what runs.
    """
    major, _, minor = (machine.cuda_version or "").partition(".")
    cuda = (
        int(major) * 1000 + int(minor or 0) * 10
        if major.isdigit() and (minor or "0").isdigit()
        else 0
    )
    return (
        (cuda, machine.driver_version)
        if cuda >= CUDA_VERSION and machine.driver_version
        else _NEWEST
    )


def _build_card(device: Device, index: int) -> layout.SimCard:
    about = find_character(device)
    major, minor = find_compute_capability(device)
    domain, bus, slot = _parse_pci(device.pci_address, index)
    return layout.SimCard(
        uuid=(ctypes.c_uint8 * 16)(*uuids.UUID(device.uuid.removeprefix("GPU-")).bytes),
        name=device.product.encode()[:63],
        memory_bytes=device.memory_bytes,
        context_bytes=compute_context_bytes(device),
        granule_bytes=GRANULE_BYTES,
        launch_ns=2000,
        memory_bandwidth=about.memory_gb_per_second * 10**9,
        link_bandwidth=about.link_gb_per_second * 10**9,
        multiprocessors=count_multiprocessors(device),
        threads_per_multiprocessor=count_threads(device),
        compute_major=major,
        compute_minor=minor,
        pci_domain=domain,
        pci_bus=bus,
        pci_device=slot,
        pci_device_id=find_pci_device_id(device),
        sm_clock_mhz=about.sm_clock_mhz,
        memory_clock_mhz=about.memory_clock_mhz,
        memory_bus_bits=about.memory_bus_bits,
        l2_bytes=about.l2_mib << 20,
        power_idle_mw=about.power_idle_watts * 1000,
        power_limit_mw=about.power_limit_watts * 1000,
        numa_node=-1 if device.numa_node is None else device.numa_node,
        minor=index,
        ecc_enabled=int(device.ecc_enabled is not False),
    )


def _parse_pci(address: str | None, index: int) -> tuple[int, int, int]:
    """Return domain, bus and device of `0000:17:00.0`; made up where a machine has no address."""
    if not address:
        return 0, 1 + index, 0
    domain, bus, rest = address.split(":")
    return int(domain, 16), int(bus, 16), int(rest.partition(".")[0], 16)
