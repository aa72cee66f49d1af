"""Plans how functions go to a VFIO driver and back, from what is there before."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpupool.mechanisms.contract import PciFunction
from gpupool.mechanisms.pci.drivers import find_driver, find_module, is_same_driver
from gpupool.mechanisms.pci.operations import Operation
from gpupool.mechanisms.pci.sysfs import PciDescription, PciTree, read_link
from gpupool.probes.common.sysfs import read_number

#: Seconds that a card may take to become idle, for daemons that close it slowly.
IDLE_SECONDS = 60.0


@dataclass(frozen=True)
class BindingPlan:
    """Operations to bind functions, those to put them back, and what a VM then gets."""

    enter: tuple[Operation, ...]
    leave: tuple[Operation, ...]
    functions: tuple[PciFunction, ...]


def plan_binding(tree: PciTree, functions: Sequence[PciDescription]) -> BindingPlan:
    """Plan for functions that go to one VM; the first is the card itself."""
    enter: list[Operation] = []
    leave: list[Operation] = []
    handed = []
    for function in functions:
        if function.is_bridge:
            continue
        module = find_module(tree, function.address)
        enter.append({"verb": "bind", "address": function.address, "module": module})
        leave.append(
            {
                "verb": "restore",
                "address": function.address,
                "module": module,
                "driver": function.driver,
                "override": function.override,
            }
        )
        driver = find_driver(tree, module) or module
        handed.append(PciFunction(function.address, function.group, driver, function.bar_bytes))
    # The last function goes back first: the card's own driver looks at its companions.
    return BindingPlan(tuple(enter), tuple(reversed(leave)), tuple(handed))


def list_card_nodes(tree: PciTree, address: str, paths: Iterable[str] = ()) -> tuple[Path, ...]:
    """Return the device nodes through which the host's processes use a card.

    Args:
        paths: nodes that the probe of the card named.
    """
    nodes = [tree.root / path.lstrip("/") for path in paths]
    for entry in _list_folder(tree.locate(address) / "drm"):
        nodes.append(tree.root / "dev/dri" / entry.name)
    # NVIDIA's driver names its node in a file of its own.
    facts = tree.root / "proc/driver/nvidia/gpus" / address / "information"
    if facts.is_file():
        for line in facts.read_text(encoding="utf-8", errors="replace").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "Device Minor":
                nodes.append(tree.root / "dev" / f"nvidia{value.strip()}")
    for entry in _list_folder(tree.locate(address) / "nvme"):
        nodes.append(tree.root / "dev" / entry.name)
    return tuple(dict.fromkeys(node for node in nodes if node.exists()))


def find_binding_problem(tree: PciTree, functions: Iterable[PciFunction]) -> str:
    """Return which function a VM cannot open; empty when it can open all."""
    for function in functions:
        driver = tree.describe(function.address).driver
        if not is_same_driver(driver, function.driver):
            return f"{function.address} is on driver {driver}, expected {function.driver}"
        if not tree.list_group_nodes(function.address):
            return f"{function.address} has no device node in /dev/vfio"
    return ""


def describe_reset(functions: Iterable[PciDescription]) -> str:
    """Return how the functions are reset between two VMs, for people."""
    texts = []
    for function in functions:
        texts.append(f"{function.address} by {' or '.join(function.reset_methods) or 'nothing'}")
    return f"reset: {', '.join(texts)}"


def describe_interrupts(tree: PciTree, functions: Iterable[PciDescription], machine: str) -> str:
    """Return how many interrupt vectors the functions have; ARM maps each one by itself.

    Args:
        machine: of the host, as `uname -m` prints it.
    """
    count = sum(tree.count_vectors(function.address) for function in functions)
    if machine not in ("aarch64", "arm64"):
        return f"interrupts: {count} vectors"
    group = next((read_link(tree.locate(one.address) / "iommu_group") for one in functions), None)
    regions = tree.root / "sys/kernel/iommu_groups" / str(group) / "reserved_regions"
    text = regions.read_text(encoding="ascii") if regions.is_file() else ""
    window = "with" if " msi" in text else "without"
    return (
        f"interrupts: {count} vectors, each of which needs a mapping in the ITS; "
        f"{window} a reserved MSI window"
    )


def _list_folder(path: Path) -> list[Path]:
    return sorted(path.iterdir()) if path.is_dir() else []


def read_autoprobe(tree: PciTree, address: str) -> str:
    """Return whether the host's drivers take new virtual functions: `0` or `1`."""
    return str(read_number(tree.locate(address) / "sriov_drivers_autoprobe") or 0)
