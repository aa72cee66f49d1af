"""Reads PCI functions from sysfs: drivers, groups, BARs, reset methods, virtual functions.

Reads only; changes are in `operations`. Must not know mechanisms.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from gpupool.probes.common.sysfs import read_number, read_text

#: `0000:01:00.0`; what comes from a file or a claim is checked before it becomes part of a path.
_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
#: linux/ioport.h
_IORESOURCE_MEM = 0x200
#: The kernel lists 6 BARs and the ROM first; bridge windows and SR-IOV BARs follow.
_BARS = 6
#: What `driver_override` reads when it is empty.
NO_OVERRIDE = "(null)"
#: Classes of PCI, by their upper 16 bits, for people.
_KINDS = {
    0x0100: "SCSI controller",
    0x0106: "SATA controller",
    0x0107: "SAS controller",
    0x0108: "NVMe disk",
    0x0200: "network card",
    0x0300: "VGA card",
    0x0302: "3D card",
    0x0380: "display card",
    0x0403: "audio function",
    0x0604: "PCI bridge",
    0x0C03: "USB controller",
    0x0C80: "serial bus controller",
    0x1200: "accelerator",
}


@dataclass(frozen=True)
class PciDescription:
    """One function as the kernel shows it.

    Attributes:
        class_code: 24 bits: base class, subclass, interface.
        driver: None where none is bound.
        override: the only driver that may bind; None where any may.
        group: number of its IOMMU group; None where the kernel has no IOMMU.
        bar_bytes: sizes of its memory BARs, without those that are absent.
        reset_methods: in the order in which the kernel tries them; empty without any.
        total_functions: virtual functions that it can have; 0 where it has no SR-IOV.
        functions: virtual functions that it has now.
        physical: address of the physical function, of a virtual one.
    """

    address: str
    vendor: int
    device: int
    class_code: int
    driver: str | None
    override: str | None
    group: int | None
    bar_bytes: tuple[int, ...]
    reset_methods: tuple[str, ...]
    total_functions: int
    functions: int
    physical: str | None

    @property
    def is_bridge(self) -> bool:
        return self.class_code >> 16 == 0x06

    @property
    def kind(self) -> str:
        """What it is, for people."""
        return _KINDS.get(self.class_code >> 8, f"device of class {self.class_code:06x}")


class PciTree:
    """The PCI bus below `<root>/sys`, with the device nodes below `<root>/dev`."""

    def __init__(self, root: Path = Path("/")) -> None:
        self.root = root

    def locate(self, address: str) -> Path:
        """Return a function's directory.

        Raises:
            ValueError: `address` is none, which would reach other files.
        """
        if _ADDRESS.fullmatch(address) is None:
            raise ValueError(f"not a PCI address: {address!r}")
        return self.root / "sys/bus/pci/devices" / address

    def locate_driver(self, driver: str) -> Path:
        return self.root / "sys/bus/pci/drivers" / driver

    def has_function(self, address: str) -> bool:
        return self.locate(address).exists()

    def describe(self, address: str) -> PciDescription:
        """Read one function.

        Raises:
            FileNotFoundError: the function is gone.
        """
        entry = self.locate(address)
        override = read_text(entry / "driver_override")
        group = read_link(entry / "iommu_group")
        return PciDescription(
            address=address,
            vendor=int((entry / "vendor").read_text(encoding="ascii"), 0),
            device=int((entry / "device").read_text(encoding="ascii"), 0),
            class_code=int((entry / "class").read_text(encoding="ascii"), 0),
            driver=read_link(entry / "driver"),
            override=None if override in (None, "", NO_OVERRIDE) else override,
            group=None if group is None else int(group),
            bar_bytes=_read_bars(entry / "resource"),
            reset_methods=tuple((read_text(entry / "reset_method") or "").split()),
            total_functions=read_number(entry / "sriov_totalvfs") or 0,
            functions=read_number(entry / "sriov_numvfs") or 0,
            physical=read_link(entry / "physfn"),
        )

    def list_slot(self, address: str) -> tuple[str, ...]:
        """Return all physical functions of the card in the slot of `address`, the lowest first."""
        slot = address.rsplit(".", 1)[0]
        found = []
        for number in range(8):
            name = f"{slot}.{number}"
            entry = self.locate(name)
            if entry.exists() and not (entry / "physfn").exists():
                found.append(name)
        return tuple(found)

    def list_group(self, group: int) -> tuple[str, ...]:
        """Return the functions that the IOMMU cannot tell apart."""
        folder = self.root / "sys/kernel/iommu_groups" / str(group) / "devices"
        return tuple(sorted(entry.name for entry in folder.iterdir()))

    def has_groups(self) -> bool:
        """Whether the kernel uses an IOMMU at all."""
        folder = self.root / "sys/kernel/iommu_groups"
        return folder.is_dir() and any(folder.iterdir())

    def list_virtual(self, address: str) -> tuple[str, ...]:
        """Return the virtual functions of a physical one, by their index."""
        found = []
        entry = self.locate(address)
        for index in range(read_number(entry / "sriov_numvfs") or 0):
            name = read_link(entry / f"virtfn{index}")
            if name is not None:
                found.append(name)
        return tuple(found)

    def list_group_nodes(self, address: str) -> tuple[Path, ...]:
        """Return the device nodes through which a VM drives a function."""
        nodes = []
        group = read_link(self.locate(address) / "iommu_group")
        if group is not None:
            nodes.append(self.root / "dev/vfio" / group)
        # With iommufd a function has a node of its own (kernel 6.6).
        folder = self.locate(address) / "vfio-dev"
        if folder.is_dir():
            nodes += [self.root / "dev/vfio/devices" / one.name for one in sorted(folder.iterdir())]
        return tuple(node for node in nodes if node.exists())

    def name_uses(self, address: str) -> str:
        """Return what the host does with a function, for people: `disk sda`, `network eth0`."""
        uses = []
        for folder, word in (("block", "disk"), ("net", "network")):
            base = self.root / "sys/class" / folder
            names = sorted(base.iterdir()) if base.is_dir() else []
            for entry in names:
                if address in entry.resolve().parts:
                    uses.append(f"{word} {entry.name}")
        return ", ".join(uses)

    def count_vectors(self, address: str) -> int:
        """Return how many MSI-X or MSI vectors a function has, from its configuration space.

        0 where it has none, or where the space beyond 64 bytes may not be read.
        """
        space = (self.locate(address) / "config").read_bytes()
        if len(space) < 64 or not space[6] & 0x10:
            return 0
        most = 0
        offset = space[0x34] & 0xFC
        # A broken list could lead in a circle; there are 48 places for a capability.
        for _ in range(48):
            if offset < 0x40 or offset + 4 > len(space):
                break
            control = int.from_bytes(space[offset + 2 : offset + 4], "little")
            if space[offset] == 0x11:
                most = max(most, (control & 0x7FF) + 1)
            elif space[offset] == 0x05:
                most = max(most, 1 << (control >> 1 & 7))
            offset = space[offset + 1] & 0xFC
        return most


def _read_bars(path: Path) -> tuple[int, ...]:
    sizes = []
    for line in (read_text(path) or "").splitlines()[:_BARS]:
        start, end, flags = (int(word, 0) for word in line.split())
        if flags & _IORESOURCE_MEM and end > start:
            sizes.append(end - start + 1)
    return tuple(sizes)


def read_link(path: Path) -> str | None:
    """Return the name that a link leads to, None where there is no link."""
    try:
        return path.readlink().name
    except OSError:
        return None
