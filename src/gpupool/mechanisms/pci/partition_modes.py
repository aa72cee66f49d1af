"""Operation on the compute partition mode of an AMD card.

The kernel refuses a change while any process has `/dev/kfd` open, on whatever card
(kgd2kfd_check_and_lock_kfd in drivers/gpu/drm/amd/amdkfd/kfd_device.c of Linux), and recreates the agents
of the card. The attributes are those of amdgpu_gfx.c.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from gpupool.mechanisms.pci.holders import find_holders, format_holders
from gpupool.mechanisms.pci.tools import OperationFailure, OperationTools
from gpupool.probes.common.sysfs import read_text

#: The mode that the card is in, and those that it has.
CURRENT: Final = "current_compute_partition"
AVAILABLE: Final = "available_compute_partition"
#: Looks at a card whose driver recreates its agents, which takes seconds.
LOOKS: Final = 300
#: Seconds between two looks.
PAUSE_SECONDS: Final = 0.1


def set_compute_partition(
    tools: OperationTools, address: str, mode: str, nodes: Sequence[str]
) -> None:
    """Set the mode, and wait until the card shows it. Idempotent.

    Args:
        mode: as the kernel writes it, such as `CPX`.
        nodes: device nodes that no process may have open.
    """
    entry = tools.tree.locate(address)
    current = read_text(entry / CURRENT)
    if current is None:
        raise OperationFailure(f"{address} has no compute partitions now: is amdgpu loaded?")
    if current != mode:
        holders = find_holders([Path(node) for node in nodes], tools.root)
        if holders:
            raise OperationFailure(f"{address} is in use by {format_holders(holders)}")
        tools.writer.write(entry / CURRENT, mode)
    for _ in range(LOOKS):
        # A second change fails until the list is back (seen by AMD's device plugin).
        if read_text(entry / CURRENT) == mode and read_text(entry / AVAILABLE):
            return
        tools.pause(PAUSE_SECONDS)
    raise OperationFailure(f"{address} is in mode {read_text(entry / CURRENT)}, expected {mode}")
