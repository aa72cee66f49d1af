"""Holds bandwidths, clocks, power and costs of simulated cards, beyond what the catalogue has.

They are for what programs print and for how long modelled copies take; no placement reads them.
From the vendors' data sheets; what those do not say is marked as our own choice.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpupool.model.catalogue import CATALOGUE
from gpupool.model.device import Device

_MIB = 1 << 20
_GRANULE = 2 * _MIB


@dataclass(frozen=True)
class CardCharacter:
    """Figures of one model. Gigabytes are 10^9 bytes, as on data sheets.

    Attributes:
        link_gb_per_second: to the host, in one direction.
    """

    memory_gb_per_second: int
    link_gb_per_second: int
    sm_clock_mhz: int
    memory_clock_mhz: int
    memory_bus_bits: int
    l2_mib: int
    power_idle_watts: int  # our own choice
    power_limit_watts: int


_MODELS = {
    "V100-16G": CardCharacter(900, 16, 1530, 877, 4096, 6, 40, 300),
    "V100-32G": CardCharacter(900, 16, 1530, 877, 4096, 6, 40, 300),
    "T4": CardCharacter(320, 16, 1590, 5001, 256, 4, 10, 70),
    "A100-40G": CardCharacter(1555, 31, 1410, 1215, 5120, 40, 50, 400),
    "A100-80G": CardCharacter(2039, 31, 1410, 1593, 5120, 40, 60, 400),
    "A10": CardCharacter(600, 31, 1695, 6251, 384, 6, 20, 150),
    "A30": CardCharacter(933, 31, 1440, 1215, 3072, 24, 30, 165),
    "L4": CardCharacter(300, 31, 2040, 6251, 192, 48, 12, 72),
    "L40S": CardCharacter(864, 31, 2520, 9001, 384, 96, 35, 350),
    "RTX-4090": CardCharacter(1008, 31, 2520, 10501, 384, 72, 20, 450),
    "H100": CardCharacter(3350, 63, 1980, 2619, 5120, 50, 70, 700),
    "H20": CardCharacter(4000, 63, 1980, 2619, 5120, 60, 70, 500),
    "H200": CardCharacter(4800, 63, 1980, 3201, 6144, 50, 75, 700),
    "B200": CardCharacter(8000, 63, 1965, 3996, 8192, 126, 140, 1000),
    "MI300X": CardCharacter(5300, 63, 2100, 1300, 8192, 256, 140, 750),
}
_ARCHITECTURES = {
    "pascal": CardCharacter(600, 16, 1480, 3003, 384, 3, 15, 250),
    "volta": _MODELS["V100-16G"],
    "turing": CardCharacter(616, 16, 1545, 7000, 352, 6, 20, 250),
    "ampere": CardCharacter(768, 31, 1695, 8001, 384, 6, 25, 300),
    "ada": CardCharacter(864, 31, 2505, 9001, 384, 96, 25, 300),
    "hopper": _MODELS["H100"],
    "blackwell": _MODELS["B200"],
}
_THREADS = {
    (7, 5): 1024,
    (8, 6): 1536,
    (8, 9): 1536,
    (12, 0): 1536,
}  # per multiprocessor; CUDA C++ guide, else 2048


def find_character(device: Device) -> CardCharacter:
    """Return the figures of the model, else of its architecture, else of an H100."""
    return _MODELS.get(device.model) or _ARCHITECTURES.get(
        device.architecture or "", _MODELS["H100"]
    )


def find_compute_capability(device: Device) -> tuple[int, int]:
    """Return the card's compute capability, that of an A100 where it has none."""
    # AMD's cards have none, but the simulated driver speaks CUDA for every card.
    return device.compute_capability or (8, 0)


def count_multiprocessors(device: Device) -> int:
    return device.multiprocessors or 108


def count_threads(device: Device) -> int:
    return _THREADS.get(find_compute_capability(device), 2048)


def compute_context_bytes(device: Device) -> int:
    """Return the bytes that a process's first context takes, in whole granules."""
    # 3 MiB for each multiprocessor is near what drivers of the 550 series take with nothing loaded
    # (an H100: about 400 MiB, a T4: about 120). Our own choice until it is calibrated on a card.
    return -(-3 * _MIB * count_multiprocessors(device) // _GRANULE) * _GRANULE


def find_pci_device_id(device: Device) -> int:
    """Return the PCI id as NVML packs it: device << 16 | vendor."""
    known = CATALOGUE.get(device.model)
    vendor, _, number = (known.pci_ids[0] if known and known.pci_ids else "10de:2330").partition(
        ":"
    )
    return int(number, 16) << 16 | int(vendor, 16)
