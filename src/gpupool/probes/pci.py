"""Lists the accelerators on the PCI bus, with or without a driver.

`doctor` uses it to tell "no card here" from "a card, but no driver". Reads sysfs only, so it works
for any user and never wakes a card. Only drivers know memory, load and health.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gpupool.model.catalogue import canonical_model

VENDORS = {0x10DE: "nvidia", 0x1002: "amd", 0x8086: "intel"}
# PCI class codes: 03 display controller (00 VGA, 02 3D, 80 other), 12 00 processing accelerator.
_CLASSES = (0x0300, 0x0302, 0x0380, 0x1200)
_DRIVERS = {"nvidia": ("nvidia",), "amd": ("amdgpu",), "intel": ("xe", "i915")}
#: Drivers of cards that are handed over to virtual machines.
_HANDED_OVER = ("vfio-pci", "nvgrace_gpu_vfio_pci", "nvgrace-gpu-vfio-pci", "pci-stub")


@dataclass(frozen=True)
class PciCard:
    """A display or compute function; `model` is a catalogue name, or `vendor:device`."""

    address: str
    vendor: str
    pci_id: str
    model: str
    driver: str | None
    numa_node: int | None
    iommu_group: int | None
    virtual_function: bool

    @property
    def problem(self) -> str:
        """Why a pool on this host cannot use this card, for people; empty when it can."""
        usual = _DRIVERS[self.vendor]
        if self.driver is None:
            return f"no driver is bound to it (the usual one is {usual[0]})"
        if self.driver in _HANDED_OVER:
            return f"it is handed over to virtual machines ({self.driver})"
        return (
            ""
            if self.driver in usual
            else f"driver {self.driver} cannot compute (the usual one is {usual[0]})"
        )


def scan_pci(sys_root: Path = Path("/sys")) -> tuple[PciCard, ...]:
    """Return every NVIDIA, AMD or Intel accelerator by address; none without a PCI bus."""
    bus = sys_root / "bus/pci/devices"
    cards = []
    for entry in sorted(bus.iterdir()) if bus.is_dir() else []:
        card = _read_card(entry)
        if card is not None:
            cards.append(card)
    return tuple(cards)


def _read_card(entry: Path) -> PciCard | None:
    vendor = _read_number(entry / "vendor")
    device = _read_number(entry / "device")
    kind = _read_number(entry / "class")
    if vendor not in VENDORS or device is None or kind is None or kind >> 8 not in _CLASSES:
        return None
    pci_id = f"{vendor:04x}:{device:04x}"
    node = _read_number(entry / "numa_node")
    group = _read_link(entry / "iommu_group")
    return PciCard(
        address=entry.name,
        vendor=VENDORS[vendor],
        pci_id=pci_id,
        model=_find_model(pci_id),
        driver=_read_link(entry / "driver"),
        numa_node=node if node is not None and node >= 0 else None,
        iommu_group=None if group is None else int(group),
        virtual_function=(entry / "physfn").exists(),
    )


def _find_model(pci_id: str) -> str:
    found = canonical_model("", pci_id)
    return pci_id if found == "UNKNOWN" else found


def _read_number(path: Path) -> int | None:
    """Read a sysfs attribute such as `0x10de` or `-1`; None where it is missing."""
    try:
        return int(path.read_text(encoding="ascii").strip(), 0)
    except (OSError, ValueError):
        return None


def _read_link(path: Path) -> str | None:
    return path.resolve().name if path.is_symlink() and path.exists() else None
