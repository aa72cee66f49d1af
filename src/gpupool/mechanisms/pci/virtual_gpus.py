"""Operations that make and remove one virtual GPU: a mediated device, or a type on a virtual function.

A type's name or number says what it is, and not which allocation has it. So an undo removes only what
is still exactly as it was made, and mediated devices get an id that no other allocation ever has.
"""

from __future__ import annotations

import uuid
from pathlib import Path

from gpupool.mechanisms.pci.sysfs import PciTree, read_link
from gpupool.mechanisms.pci.tools import OperationFailure, OperationTools
from gpupool.probes.common.sysfs import read_number, read_text

#: Namespace of the ids of mediated devices; fixed, so that an id can be computed again.
_NAMESPACE = uuid.UUID("6f1d3c52-7a4b-5e0e-9d52-0c4f8f1f6a11")


def name_mediated_device(allocation: str, card: str) -> str:
    """Return the id of an allocation's mediated device on a card."""
    return str(uuid.uuid5(_NAMESPACE, f"{allocation}/{card}"))


def locate_mediated_device(tree: PciTree, identifier: str) -> Path:
    """Return a mediated device's directory.

    Raises:
        ValueError: `identifier` is no uuid, which would reach other files.
    """
    return tree.root / "sys/bus/mdev/devices" / str(uuid.UUID(identifier))


def list_mediated_nodes(tree: PciTree, identifier: str) -> tuple[Path, ...]:
    """Return the device nodes through which a VM drives a mediated device."""
    group = read_link(locate_mediated_device(tree, identifier) / "iommu_group")
    node = tree.root / "dev/vfio" / str(group)
    return (node,) if group is not None and node.exists() else ()


def locate_types(tree: PciTree, parent: str) -> Path:
    """Return the directory with a card's types of mediated devices."""
    tree.locate(parent)
    return tree.root / "sys/class/mdev_bus" / parent / "mdev_supported_types"


def create_mediated_device(tools: OperationTools, parent: str, kind: str, identifier: str) -> None:
    """Create a mediated device of a type on a card."""
    device = locate_mediated_device(tools.tree, identifier)
    if not device.exists():
        tools.writer.write(locate_types(tools.tree, parent) / kind / "create", identifier)
    found = read_link(device / "mdev_type")
    if found != kind:
        raise OperationFailure(f"mediated device {identifier} has type {found}, expected {kind}")


def remove_mediated_device(tools: OperationTools, identifier: str) -> None:
    """Remove a mediated device, if it is there."""
    device = locate_mediated_device(tools.tree, identifier)
    if device.exists():
        tools.writer.write(device / "remove", "1")
    if device.exists():
        raise OperationFailure(f"mediated device {identifier} is still there")


def set_function_type(tools: OperationTools, address: str, number: int) -> None:
    """Make a virtual function the virtual GPU of a type, by the driver's number of the type."""
    attribute = locate_type_attribute(tools.tree, address)
    found = read_number(attribute)
    if found not in (0, number):
        raise OperationFailure(f"{address} is already a virtual GPU of type {found}")
    if found == 0:
        tools.writer.write(attribute, str(number))
    found = read_number(attribute)
    if found != number:
        raise OperationFailure(f"{address} is of type {found}, expected {number}")


def clear_function_type(tools: OperationTools, address: str, number: int) -> None:
    """Make a virtual function free again, unless another type was set on it meanwhile."""
    attribute = locate_type_attribute(tools.tree, address)
    if read_number(attribute) != number:
        return
    tools.writer.write(attribute, "0")
    if read_number(attribute) != 0:
        raise OperationFailure(f"{address} is still of type {read_text(attribute)}")


def locate_type_attribute(tree: PciTree, address: str) -> Path:
    return tree.locate(address) / "nvidia/current_vgpu_type"


def enable_functions(tools: OperationTools, address: str) -> None:
    """Create the virtual functions of an NVIDIA card with the vendor's program."""
    if tools.tree.describe(address).functions == 0:
        tools.run_program("sriov-manage", ["-e", address])
    # The program returns before the driver has set the functions up, which takes about 10 s.
    for _ in range(300):
        virtual = tools.tree.list_virtual(address)
        if virtual and all(locate_type_attribute(tools.tree, one).exists() for one in virtual):
            return
        tools.pause(0.1)
    raise OperationFailure(f"{address} has {len(virtual)} virtual functions without a type")


def disable_functions(tools: OperationTools, address: str) -> None:
    """Remove the virtual functions of an NVIDIA card."""
    if not tools.tree.has_function(address) or not tools.tree.describe(address).functions:
        return
    for virtual in tools.tree.list_virtual(address):
        if read_number(locate_type_attribute(tools.tree, virtual)):
            raise OperationFailure(f"virtual function {virtual} is still a virtual GPU")
    tools.run_program("sriov-manage", ["-d", address])


def set_mixed_sizes(tools: OperationTools, address: str, enabled: bool) -> None:
    """Let a card have virtual GPUs of several sizes, or of one only.

    Must come after `enable_functions`, which resets it.
    """
    tools.run_program("nvidia-smi", ["vgpu", "-i", address, "-shm", "1" if enabled else "0"])
