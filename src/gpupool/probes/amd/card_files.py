"""Reads what the amdgpu driver says of one card below its PCI directory.

Attributes: https://docs.kernel.org/gpu/amdgpu/driver-misc.html, .../ras.html and .../thermal.html.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from gpupool.model.device import DeviceHealth
from gpupool.probes.common.sysfs import read_number, read_text

#: Partition modes by the label under which a device shows them.
PARTITION_FILES: Final = {
    "compute-partition": "current_compute_partition",
    "memory-partition": "current_memory_partition",
}
#: Modes that the card could be switched to.
OFFER_FILES: Final = {
    "compute-partitions": "available_compute_partition",
    "memory-partitions": "available_memory_partition",
}


class AmdCard:
    """The files of one card.

    Args:
        folder: `/sys/bus/pci/devices/0000:03:00.0`.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read_product(self) -> str:
        """Return the name on the board's own memory; empty for boards without one."""
        return read_text(self.folder / "product_name") or ""

    def read_uuid(self) -> int:
        """Return the chip's number; 0 where it has none."""
        text = read_text(self.folder / "unique_id") or ""
        try:
            return int(text, 16)
        except ValueError:
            return 0

    def read_pci_id(self) -> str | None:
        vendor = read_number(self.folder / "vendor")
        device = read_number(self.folder / "device")
        return None if vendor is None or device is None else f"{vendor:04x}:{device:04x}"

    def read_memory(self) -> int | None:
        return read_number(self.folder / "mem_info_vram_total")

    def read_used_memory(self) -> int | None:
        return read_number(self.folder / "mem_info_vram_used")

    def read_utilization(self) -> int | None:
        return read_number(self.folder / "gpu_busy_percent")

    def read_numa_node(self) -> int | None:
        node = read_number(self.folder / "numa_node")
        return node if node is not None and node >= 0 else None

    def read_partition_labels(self) -> dict[str, str]:
        """Return the partition modes that the card is in, and those that it offers."""
        labels = {}
        for label, name in {**PARTITION_FILES, **OFFER_FILES}.items():
            text = read_text(self.folder / name)
            if text:
                labels[label] = text.replace(" ", "")
        return labels

    def judge_health(self) -> tuple[DeviceHealth, str]:
        """Return the worst of what the card's own counters say, and all reasons."""
        reasons = list(self._find_damage())
        if reasons:
            return DeviceHealth.WARNING, "; ".join(reasons)
        if self.read_used_memory() is None:
            return DeviceHealth.UNKNOWN, "the driver does not tell the state of the card"
        return DeviceHealth.OK, ""

    def _find_damage(self) -> Iterator[str]:
        errors = sum(_read_uncorrected(path) for path in self.folder.glob("ras/*_err_count"))
        if errors:
            yield f"{errors} uncorrected errors since the driver was loaded"
        pages = _count_bad_pages(self.folder / "ras/gpu_vram_bad_pages")
        if pages.get("P"):
            yield f"{pages['P']} memory pages wait to be retired: reset the card"
        if pages.get("F"):
            yield f"{pages['F']} memory pages could not be retired"


def _read_uncorrected(path: Path) -> int:
    """Return the number after `ue` in lines such as `ue: 0` and `ce: 1`."""
    for line in (read_text(path) or "").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "ue" and value.strip().isdigit():
            return int(value)
    return 0


def _count_bad_pages(path: Path) -> dict[str, int]:
    """Return the number of bad pages by flag: R retired, P pending, F failed."""
    counts: dict[str, int] = {}
    for line in (read_text(path) or "").splitlines():
        # Such as: 0x00000001 : 0x00001000 : R
        flag = line.rpartition(":")[2].strip()
        counts[flag] = counts.get(flag, 0) + 1
    return counts
