"""A tree of PCI functions as data, and a writer that plays the kernel's reaction to each write.

Reactions are what Linux 6.1 did in a guest with an NVMe disk with SR-IOV and QEMU's `edu` device
(`tests/hosts/test_guest_sysfs.py` compares them): `driver_override` reads `(null)` when empty, a probe
without a matching driver is silent, a number of virtual functions changes only from or to 0.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gpupool.mechanisms.contract import NotYet
from gpupool.mechanisms.pci.operations import Operation, main
from gpupool.mechanisms.pci.steps import PlanRunner
from gpupool.mechanisms.pci.sysfs import PciTree
from gpupool.mechanisms.pci.tools import OperationTools
from gpupool.mechanisms.pci.writer import SysfsWriter
from gpupool.mechanisms.slow_step import StepResult
from tests.support.kill_points import KILLED

PCI = "sys/bus/pci"
#: Vendors' numbers.
NVIDIA = 0x10DE
INTEL = 0x8086
AMD = 0x1002


@dataclass(frozen=True)
class FunctionFacts:
    """One function of a tree.

    Attributes:
        own_driver: the driver that a probe without an override finds.
        numbers: further attributes with numbers.
    """

    address: str
    group: int | None = 10
    vendor: int = NVIDIA
    device: int = 0x2335
    class_code: int = 0x030200
    own_driver: str | None = "nvidia"
    reset: str = "flr bus"
    bars: tuple[int, ...] = (16 << 20, 256 << 30, 32 << 20)
    total: int = 0
    numbers: Mapping[str, int] = field(default_factory=dict)


def build_tree(root: Path, functions: Sequence[FunctionFacts]) -> Path:
    """Write a tree in which each function is bound to its own driver."""
    for folder in (f"{PCI}/devices", f"{PCI}/drivers", "sys/kernel/iommu_groups", "dev/vfio"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    (root / "sys/bus/mdev/devices").mkdir(parents=True)
    for folder in ("sys/class/block", "sys/class/net", "proc"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    (root / PCI / "drivers_probe").write_text("")
    (root / "dev/vfio/vfio").write_text("")
    (root / "proc/cpuinfo").write_text("vendor_id\t: GenuineIntel\n")
    add_driver(root, "vfio-pci")
    for function in functions:
        add_function(root, function)
    return root


def add_driver(root: Path, name: str) -> Path:
    """Register a driver."""
    folder = root / PCI / "drivers" / name
    folder.mkdir(exist_ok=True)
    for attribute in ("bind", "unbind"):
        (folder / attribute).write_text("")
    return folder


def add_function(root: Path, facts: FunctionFacts) -> Path:
    """Add a function below the one root bus, as the kernel shows it."""
    entry = root / "sys/devices/pci0000:00" / facts.address
    entry.mkdir(parents=True)
    relative = os.path.relpath(entry, root / PCI / "devices")
    (root / PCI / "devices" / facts.address).symlink_to(relative)
    attributes = {
        "vendor": f"0x{facts.vendor:04x}",
        "device": f"0x{facts.device:04x}",
        "class": f"0x{facts.class_code:06x}",
        "driver_override": "(null)",
        "modalias": f"pci:v{facts.vendor:08X}d{facts.device:08X}sv00sd00bc03sc02i00",
        "resource": _format_bars(facts.bars),
        "own_driver": facts.own_driver or "",
    }
    if facts.reset:
        attributes["reset_method"] = facts.reset
    if facts.total:
        attributes["sriov_totalvfs"] = str(facts.total)
        attributes["sriov_numvfs"] = "0"
        attributes["sriov_drivers_autoprobe"] = "1"
    attributes |= {name: str(number) for name, number in facts.numbers.items()}
    for name, text in attributes.items():
        (entry / name).parent.mkdir(parents=True, exist_ok=True)
        (entry / name).write_text(f"{text}\n")
    (entry / "config").write_bytes(_build_config(vectors=6))
    if facts.group is not None:
        group = root / "sys/kernel/iommu_groups" / str(facts.group)
        (group / "devices").mkdir(parents=True, exist_ok=True)
        (group / "reserved_regions").write_text("0x08000000 0x080fffff msi\n")
        (group / "devices" / facts.address).symlink_to(os.path.relpath(entry, group / "devices"))
        (entry / "iommu_group").symlink_to(os.path.relpath(group, entry))
    if facts.own_driver is not None:
        add_driver(root, facts.own_driver)
        FakeKernel(root).bind(entry, facts.own_driver)
    return entry


def _format_bars(sizes: Sequence[int]) -> str:
    lines = []
    start = 1 << 40
    for size in sizes:
        lines.append(f"0x{start:016x} 0x{start + size - 1:016x} 0x000000000014220c")
        start += size
    empty = " ".join(["0x0000000000000000"] * 3)
    return "\n".join([*lines, *[empty] * (7 - len(lines))])


def _build_config(vectors: int) -> bytes:
    """Return a configuration space with MSI (1 vector) and MSI-X."""
    space = bytearray(256)
    space[6] = 0x10
    space[0x34] = 0x40
    space[0x40:0x44] = bytes((0x05, 0x50, 0, 0))
    space[0x50:0x54] = bytes((0x11, 0, vectors - 1, 0))
    return bytes(space)


class FakeKernel(SysfsWriter):
    """Carries out each write as the kernel does.

    Args:
        crash_at: number of the point at which the process ends; each write has one before its effect
            and one after it. None never.
    """

    def __init__(self, root: Path, crash_at: int | None = None) -> None:
        super().__init__()
        self.root = root
        self.crash_at = crash_at
        self.points = 0

    def write(self, path: Path, text: str) -> None:
        self.pass_point()
        before = len(self.writes)
        super().write(path, text)
        assert len(self.writes) == before + 1
        self._react(path, text)
        self.pass_point()

    def pass_point(self) -> None:
        """Count a point at which the process may end, and end it there."""
        if self.crash_at is not None and self.points == self.crash_at:
            os._exit(KILLED)
        self.points += 1

    def _react(self, path: Path, text: str) -> None:
        word = text.strip()
        entry = path.parent
        if path.name == "driver_override":
            path.write_text(f"{word or '(null)'}\n")
            return
        if path.name in ("unbind", "bind", "drivers_probe", "create", "remove"):
            path.write_text("")
        if path.name == "unbind":
            self._unbind(word, entry.resolve().name)
        elif path.name == "bind":
            self.bind(self._locate(word), entry.name)
        elif path.name == "drivers_probe":
            self._probe(word)
        elif path.name == "sriov_numvfs":
            self._set_functions(entry.resolve(), int(word))
        elif path.name == "current_vgpu_type":
            self._set_type(path, int(word))
        elif path.name == "create":
            self._create_device(path, word)
        elif path.name == "remove":
            self._remove_device(entry)
        else:
            # Drivers round quotas: to whole MiB here.
            number = int(word)
            number -= number % (1 << 20) if number > 1 << 20 else 0
            path.write_text(f"{number}\n")

    def _locate(self, address: str) -> Path:
        return (self.root / PCI / "devices" / address).resolve()

    def _unbind(self, address: str, driver: str) -> None:
        entry = self._locate(address)
        if not (entry / "driver").is_symlink() or (entry / "driver").readlink().name != driver:
            raise OSError(errno.ENODEV, os.strerror(errno.ENODEV))
        (entry / "driver").unlink()
        (self.root / PCI / "drivers" / driver / address).unlink()
        self._refresh_nodes(entry)

    def _probe(self, address: str) -> None:
        entry = self._locate(address)
        override = (entry / "driver_override").read_text().strip()
        driver = (entry / "own_driver").read_text().strip() if override == "(null)" else override
        if (entry / "driver").is_symlink() or not driver:
            return
        if (self.root / PCI / "drivers" / driver).is_dir():
            self.bind(entry, driver)

    def bind(self, entry: Path, driver: str) -> None:
        """Make a driver's link."""
        folder = self.root / PCI / "drivers" / driver
        (entry / "driver").symlink_to(os.path.relpath(folder, entry))
        (folder / entry.name).symlink_to(os.path.relpath(entry, folder))
        self._refresh_nodes(entry)

    def _refresh_nodes(self, entry: Path) -> None:
        """Show a group's node while a VFIO driver has one of its functions."""
        if not (entry / "iommu_group").is_symlink():
            return
        group = (entry / "iommu_group").resolve()
        drivers = []
        for member in (group / "devices").iterdir():
            if (member / "driver").is_symlink():
                drivers.append((member / "driver").readlink().name)
        node = self.root / "dev/vfio" / group.name
        if any("vfio" in driver for driver in drivers):
            node.touch()
        else:
            node.unlink(missing_ok=True)

    def _set_functions(self, entry: Path, count: int) -> None:
        have = len(list(entry.glob("virtfn*")))
        if have and count:
            # The write above has already changed the text, which the kernel would not do.
            (entry / "sriov_numvfs").write_text(f"{have}\n")
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
        (entry / "sriov_numvfs").write_text(f"{count}\n")
        for link in sorted(entry.glob("virtfn*")):
            self.remove_function(link.resolve())
            link.unlink()
        for index in range(count):
            self._add_virtual(entry, index)

    def _add_virtual(self, parent: Path, index: int) -> None:
        slot, _ = parent.name.rsplit(":", 1)
        address = f"{slot}:{(index >> 3) + 1:02x}.{index & 7}"
        own = (parent / "own_driver").read_text().strip()
        probe = (parent / "sriov_drivers_autoprobe").read_text().strip() == "1"
        vendor = int((parent / "vendor").read_text(), 0)
        kinds = parent / "nvidia_types"
        numbers = {"nvidia/current_vgpu_type": 0} if kinds.exists() else {}
        facts = FunctionFacts(
            address,
            40 + index,
            vendor,
            class_code=int((parent / "class").read_text(), 0),
            # NVIDIA's driver takes its virtual functions itself.
            own_driver=own if probe or kinds.exists() else None,
            numbers=numbers,
        )
        entry = add_function(self.root, facts)
        (entry / "physfn").symlink_to(os.path.relpath(parent, entry))
        (parent / f"virtfn{index}").symlink_to(os.path.relpath(entry, parent))
        if kinds.exists():
            (entry / "nvidia/creatable_vgpu_types").write_text(kinds.read_text())

    def remove_function(self, entry: Path) -> None:
        """Take a function off the bus."""
        if (entry / "driver").is_symlink():
            self._unbind(entry.name, (entry / "driver").readlink().name)
        if (entry / "iommu_group").is_symlink():
            ((entry / "iommu_group").resolve() / "devices" / entry.name).unlink()
            shutil.rmtree((entry / "iommu_group").resolve())
        (self.root / PCI / "devices" / entry.name).unlink()
        shutil.rmtree(entry)

    def _set_type(self, path: Path, number: int) -> None:
        known = (path.parent / "creatable_vgpu_types").read_text()
        if number and not any(line.startswith(f"{number} ") for line in known.splitlines()):
            path.write_text("0\n")
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        path.write_text(f"{number}\n")
        node = self.root / "dev/vfio" / (path.parents[1] / "iommu_group").readlink().name
        if number:
            node.touch()
        else:
            node.unlink(missing_ok=True)
        self._refresh_types(path.parents[1].resolve())

    def _refresh_types(self, entry: Path) -> None:
        """Leave only types of the size that the card has already, as with equal sizes."""
        parent = (entry / "physfn").resolve()
        lines = (parent / "nvidia_types").read_text().splitlines(keepends=True)
        numbers = set()
        for link in parent.glob("virtfn*"):
            numbers.add((link / "nvidia/current_vgpu_type").read_text().strip())
        sizes = {line.rsplit("-", 1)[1] for line in lines if line.split()[0] in numbers}
        shown = [line for line in lines if not sizes or line.rsplit("-", 1)[-1] in sizes]
        for link in parent.glob("virtfn*"):
            (link / "nvidia/creatable_vgpu_types").write_text("".join(shown))

    def _create_device(self, path: Path, identifier: str) -> None:
        kind = path.parent
        free = int((kind / "available_instances").read_text())
        if free == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        (kind / "available_instances").write_text(f"{free - 1}\n")
        entry = self.root / "sys/bus/mdev/devices" / identifier
        entry.mkdir(parents=True)
        (entry / "mdev_type").symlink_to(os.path.relpath(kind, entry))
        (entry / "remove").write_text("")
        group = 60
        while (self.root / "dev/vfio" / str(group)).exists():
            group += 1
        (entry / "iommu_group").symlink_to(f"../../../../kernel/iommu_groups/{group}")
        (self.root / "dev/vfio" / str(group)).touch()

    def _remove_device(self, entry: Path) -> None:
        kind = (entry / "mdev_type").resolve()
        free = int((kind / "available_instances").read_text())
        (kind / "available_instances").write_text(f"{free + 1}\n")
        (self.root / "dev/vfio" / (entry / "iommu_group").readlink().name).unlink()
        shutil.rmtree(entry)


class InlineRunner(PlanRunner):
    """Runs a plan at once, in the caller's process, on a fake kernel.

    Attributes:
        asks: calls of a plan that answer `NotYet` before it has run.
        pause: called where an operation waits.
    """

    def __init__(self, kernel: FakeKernel, asks: int = 0) -> None:
        self.kernel = kernel
        self.asks = asks
        self.pause: Callable[[float], object] = lambda _: None

    def run_plan(
        self, root: Path, folder: Path, name: str, operations: Sequence[Operation], reason: str
    ) -> StepResult | NotYet:
        if self.asks:
            self.asks -= 1
            return NotYet(reason, 0.01)
        return super().run_plan(root, folder, name, operations, reason)

    def _start(
        self, folder: Path, name: str, module: Sequence[str], reason: str, needs_release: bool
    ) -> StepResult | NotYet:
        lines: list[str] = []
        tools = OperationTools(PciTree(self.kernel.root), self.kernel, self.pause)
        exit_code = main(module[1:], tools, lines.append)
        return StepResult(exit_code, "\n".join(lines))
