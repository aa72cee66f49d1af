"""Switches AMD cards to a compute partition mode, and says what a memory mode needs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from gpupool.base.errors import RequestRejection
from gpupool.mechanisms.contract import NotYet
from gpupool.mechanisms.pci.binding import explain_use
from gpupool.mechanisms.pci.binding_plan import list_card_nodes
from gpupool.mechanisms.pci.mode_switch import OperationSwitch
from gpupool.mechanisms.pci.operations import Operation
from gpupool.mechanisms.pci.partition_modes import AVAILABLE, CURRENT
from gpupool.mechanisms.pci.requests import read_address
from gpupool.mechanisms.pci.steps import PlanRunner
from gpupool.mechanisms.pci.sysfs import PciTree
from gpupool.model.device import CardMode, Device, ModeNeed, ModeOffer
from gpupool.probes.common.sysfs import read_text

#: Agents of a mode; those of CPX differ between cards.
_AGENTS: Final = {CardMode.DPX: 2, CardMode.TPX: 3, CardMode.QPX: 4}
_MEMORY_CURRENT: Final = "current_memory_partition"
_MEMORY_AVAILABLE: Final = "available_memory_partition"
#: Every ROCm process of the node has it open.
_KFD: Final = "dev/kfd"


class ComputePartitionSwitch(OperationSwitch):
    """Cuts a card's compute units into agents, and puts back the mode that it had.

    Args:
        mode: one of COMPUTE_PARTITION_MODES.
    """

    def __init__(
        self, mode: CardMode, root: Path = Path("/"), runner: PlanRunner | None = None
    ) -> None:
        super().__init__(root, runner)
        self.mode = mode

    def describe_offer(self, device: Device) -> ModeOffer | None:
        if self._word not in _list_modes(self.tree, device, AVAILABLE):
            return None
        problem = "" if device.mode is self.mode else self.explain_block(device)
        return ModeOffer(self.mode, ModeNeed.IDLE_BOARD, None, problem)

    def explain_block(self, device: Device) -> str:
        path = self.tree.locate(read_address(device)) / CURRENT
        if not os.access(path, os.W_OK):
            return "the agent may not change the mode: the pool must be one of root"
        return self.find_problem(device)

    def find_problem(self, device: Device) -> str:
        address = read_address(device)
        memory = read_text(self.tree.locate(address) / _MEMORY_CURRENT) or "NPS1"
        parts = memory.removeprefix("NPS")
        agents = _AGENTS.get(self.mode)
        if agents is not None and parts.isdecimal() and int(parts) > agents:
            return f"its memory is in mode {memory}, which needs at least {parts} agents"
        use = explain_use(self.tree.root, self._list_nodes(device))
        if use:
            return f"it or another AMD card of the node is in use by {use}"
        return ""

    def make_plan(
        self, device: Device, folder: Path
    ) -> tuple[tuple[Operation, ...], tuple[Operation, ...]]:
        address = read_address(device)
        before = read_text(self.tree.locate(address) / CURRENT)
        # The nodes of agents change with the mode; a process that uses any has this one open.
        shared = {"address": address, "nodes": [str(self.tree.root / _KFD)]}
        enter = {"verb": "set-compute-partition", "mode": self._word, **shared}
        return (enter,), ({**enter, "mode": before},)

    def _list_nodes(self, device: Device) -> tuple[Path, ...]:
        nodes = list_card_nodes(self.tree, read_address(device), device.device_paths)
        return tuple(dict.fromkeys((*nodes, self.tree.root / _KFD)))

    @property
    def _word(self) -> str:
        """The mode as the kernel writes it."""
        return self.mode.upper()


class MemoryPartitionSwitch:
    """Says what a memory mode needs; gpupool does not reload drivers, so it never switches.

    Args:
        mode: one of MEMORY_PARTITION_MODES.
    """

    def __init__(self, mode: CardMode, root: Path = Path("/")) -> None:
        self.mode = mode
        self._tree = PciTree(root)

    def describe_offer(self, device: Device) -> ModeOffer | None:
        if self.mode.upper() not in _list_modes(self._tree, device, _MEMORY_AVAILABLE):
            return None
        return ModeOffer(self.mode, ModeNeed.RELOAD, None, self._explain())

    def list_steps(self, device: Device) -> tuple[str, ...]:
        return (f"not possible: {self._explain()}",)

    def enter(self, device: Device, state_dir: Path) -> NotYet | None:
        raise RequestRejection(f"{device.uuid} cannot go to mode {self.mode}: {self._explain()}")

    def leave(self, device: Device, state_dir: Path) -> NotYet | None:
        raise RequestRejection(f"{device.uuid} is not in mode {self.mode}")

    def _explain(self) -> str:
        return (
            "the memory mode needs a reload of amdgpu and changes for all cards of the node, which "
            "gpupool does not do: end the jobs, stop gpupool, "
            f"amd-smi set --memory-partition {self.mode.upper()}"
        )


def _list_modes(tree: PciTree, device: Device, attribute: str) -> tuple[str, ...]:
    """List the modes that an attribute of a real AMD card names; none for any other card."""
    if device.simulated or device.vendor != "amd" or device.pci_address is None:
        return ()
    address = read_address(device)
    if not tree.has_function(address):
        return ()
    text = read_text(tree.locate(address) / attribute) or ""
    return tuple(word.strip() for word in text.split(","))
