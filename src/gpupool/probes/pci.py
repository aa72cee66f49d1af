"""Lists the accelerators on the PCI bus, with or without a driver.

`doctor` uses it to tell "no card here" from "a card, but no driver". Reads sysfs only, so it works
for any user and never wakes a card. Only drivers know memory, load and health.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gpupool.model.catalogue import canonical_model
from gpupool.probes.common.sysfs import read_link_name, read_number

#: By PCI vendor id. From https://pci-ids.ucw.cz; those that are not in it (0x9999, 0xcabc, 0x1e3e)
#: from github.com/gpustack/runtime, gpustack_runtime/detector; 0x1ee0 from
#: github.com/BirenTechnology/k8s-device-plugin, pkg/brgpu/kata.go.
VENDORS = {
    0x10DE: "nvidia",
    0x1002: "amd",
    0x8086: "intel",
    0x19E5: "ascend",
    0x1EE0: "biren",
    0xCABC: "cambricon",
    0x1E36: "enflame",
    0x1D94: "hygon",
    0x1E3E: "iluvatar",
    0x1D22: "kunlunxin",
    0x9999: "metax",
    0x1ED5: "mthreads",
    0x1DED: "thead",
}
#: PCI class 12 00.
_ACCELERATOR = 0x1200
# PCI class codes: 03 display controller (00 VGA, 02 3D, 80 other), 12 00 processing accelerator.
_CLASSES = (0x0300, 0x0302, 0x0380, _ACCELERATOR)
#: Makers whose display controllers are no accelerators: Huawei's are consoles of service processors.
_WITHOUT_DISPLAYS = frozenset({"ascend"})
#: Kernel drivers that can compute. For a maker that is not listed any bound driver will do.
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
        usual = _DRIVERS.get(self.vendor, ())
        hint = f" (the usual one is {usual[0]})" if usual else ""
        if self.driver is None:
            return f"no driver is bound to it{hint}"
        if self.driver in _HANDED_OVER:
            return f"it is handed over to virtual machines ({self.driver})"
        if not usual or self.driver in usual:
            return ""
        return f"driver {self.driver} cannot compute{hint}"


def scan_pci(sys_root: Path = Path("/sys")) -> tuple[PciCard, ...]:
    """Return every accelerator of a known maker by address; none without a PCI bus."""
    bus = sys_root / "bus/pci/devices"
    cards = []
    for entry in sorted(bus.iterdir()) if bus.is_dir() else []:
        card = _read_card(entry)
        if card is not None:
            cards.append(card)
    return tuple(cards)


def _read_card(entry: Path) -> PciCard | None:
    vendor = VENDORS.get(read_number(entry / "vendor") or 0)
    device = read_number(entry / "device")
    kind = (read_number(entry / "class") or 0) >> 8
    if vendor is None or device is None or kind not in _CLASSES:
        return None
    if vendor in _WITHOUT_DISPLAYS and kind != _ACCELERATOR:
        return None
    pci_id = f"{read_number(entry / 'vendor'):04x}:{device:04x}"
    node = read_number(entry / "numa_node")
    group = read_link_name(entry / "iommu_group")
    return PciCard(
        address=entry.name,
        vendor=vendor,
        pci_id=pci_id,
        model=_find_model(pci_id),
        driver=read_link_name(entry / "driver"),
        numa_node=node if node is not None and node >= 0 else None,
        iommu_group=None if group is None else int(group),
        virtual_function=(entry / "physfn").exists(),
    )


def _find_model(pci_id: str) -> str:
    found = canonical_model("", pci_id)
    return pci_id if found == "UNKNOWN" else found
