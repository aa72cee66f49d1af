"""Operations on virtual functions: their number, and attributes such as their quotas.

The kernel changes a number only from or to 0. A change from 2 to 3 would end what runs in the 2, so
it is refused here too and never made in passing.
"""

from __future__ import annotations

from pathlib import Path

from gpupool.mechanisms.pci.holders import find_holders, format_holders
from gpupool.mechanisms.pci.tools import OperationFailure, OperationTools
from gpupool.probes.common.sysfs import read_number, read_text

#: Looks at a card whose virtual functions are not all there yet.
LOOKS = 100
#: Seconds between two looks.
PAUSE_SECONDS = 0.1


def create_functions(tools: OperationTools, address: str, count: int) -> None:
    """Create virtual functions that no driver of the host takes."""
    entry = tools.tree.locate(address)
    state = tools.tree.describe(address)
    problem = explain_count(address, state.functions, count, state.total_functions)
    if problem:
        raise OperationFailure(problem)
    if state.functions != count:
        # Else the host's own driver takes each function as it appears.
        _write_if_other(tools, entry / "sriov_drivers_autoprobe", "0")
        tools.writer.write(entry / "sriov_numvfs", str(count))
    for _ in range(LOOKS):
        if len(tools.tree.list_virtual(address)) == count:
            return
        tools.pause(PAUSE_SECONDS)
    found = len(tools.tree.list_virtual(address))
    raise OperationFailure(f"{address} shows {found} virtual functions, expected {count}")


def remove_functions(tools: OperationTools, address: str, count: int, autoprobe: str) -> None:
    """Remove virtual functions, and put back whether the host's drivers take new ones.

    Args:
        count: how many there must be; another number is of another owner and stays.
    """
    if not tools.tree.has_function(address):
        return
    entry = tools.tree.locate(address)
    functions = tools.tree.describe(address).functions
    nodes: list[Path] = []
    for virtual in tools.tree.list_virtual(address):
        nodes += tools.tree.list_group_nodes(virtual)
    holders = find_holders(nodes, tools.root)
    if holders:
        raise OperationFailure(
            f"a virtual function of {address} is in use by {format_holders(holders)}"
        )
    if functions == count:
        tools.writer.write(entry / "sriov_numvfs", "0")
    if functions in (0, count):
        _write_if_other(tools, entry / "sriov_drivers_autoprobe", autoprobe)


def explain_count(address: str, have: int, want: int, total: int) -> str:
    """Return why a number of virtual functions cannot be set, for people; empty when it can."""
    if want > total:
        return f"{address} can have {total} virtual functions, {want} were requested"
    if have not in (0, want):
        return (
            f"{address} has {have} virtual functions: they must go to 0 before there can be {want}, "
            "which ends what uses them"
        )
    return ""


def set_attribute(tools: OperationTools, path: str, value: int, tolerance: int = 0) -> None:
    """Write a number, and check that the driver has taken it, rounded by `tolerance` at most."""
    attribute = tools.root / path
    if read_number(attribute) == value:
        return
    tools.writer.write(attribute, str(value))
    after = read_number(attribute)
    if after is None or abs(after - value) > tolerance:
        raise OperationFailure(f"{attribute.name} reads {after} after {value} was written")


def restore_attribute(tools: OperationTools, path: str, value: int) -> None:
    """Write a number back, if the attribute is still there."""
    attribute = tools.root / path
    if attribute.exists() and read_number(attribute) != value:
        tools.writer.write(attribute, str(value))


def _write_if_other(tools: OperationTools, attribute: Path, text: str) -> None:
    if read_text(attribute) not in (None, text):
        tools.writer.write(attribute, text)
