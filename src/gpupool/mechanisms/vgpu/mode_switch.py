"""Switches a card to mode `vgpu`, in which it has virtual GPUs only."""

from __future__ import annotations

from pathlib import Path

from gpupool.mechanisms.pci.groups import explain_missing_iommu
from gpupool.mechanisms.pci.mode_switch import OperationSwitch
from gpupool.mechanisms.pci.operations import Operation
from gpupool.mechanisms.pci.requests import read_address
from gpupool.mechanisms.pci.tools import find_program
from gpupool.mechanisms.vgpu.types import is_mediated
from gpupool.model.device import CardMode, Device, ModeNeed, ModeOffer

#: Label of a card: `mixed` lets it have virtual GPUs of several sizes.
SIZES = "vgpu-sizes"
MIXED = "mixed"


class VgpuSwitch(OperationSwitch):
    """Creates an NVIDIA card's virtual functions; other drivers need nothing."""

    mode = CardMode.VGPU

    def describe_offer(self, device: Device) -> ModeOffer | None:
        if device.simulated or device.pci_address is None:
            return None
        address = read_address(device)
        if not self.tree.has_function(address):
            return None
        if not is_mediated(self.tree, address) and not self._has_manager(device):
            return None
        problem = "" if device.mode is self.mode else self.explain_block(device)
        return ModeOffer(self.mode, ModeNeed.IDLE_CARD, None, problem)

    def find_problem(self, device: Device) -> str:
        address = read_address(device)
        if not self.tree.has_function(address):
            return f"{address} is not on the PCI bus"
        if self.tree.describe(address).group is None:
            return explain_missing_iommu(self.tree)
        if is_mediated(self.tree, address) or self._has_manager(device):
            return ""
        return "the host's driver has no virtual GPUs: install NVIDIA's vGPU manager"

    def make_plan(
        self, device: Device, folder: Path
    ) -> tuple[tuple[Operation, ...], tuple[Operation, ...]]:
        address = read_address(device)
        if device.vendor != "nvidia" or not self._has_manager(device):
            return (), ()
        enter: list[Operation] = []
        leave: list[Operation] = []
        if self.tree.describe(address).functions == 0:
            enter.append({"verb": "enable-functions", "address": address})
            leave.append({"verb": "disable-functions", "address": address})
        if device.labels.get(SIZES) == MIXED:
            # Creating the functions resets the sizes, so this comes after it.
            enter.append({"verb": "set-mixed-sizes", "address": address, "enabled": True})
            leave.insert(0, {"verb": "set-mixed-sizes", "address": address, "enabled": False})
        return tuple(enter), tuple(leave)

    def _has_manager(self, device: Device) -> bool:
        state = self.tree.describe(read_address(device))
        program = find_program(self.tree.root, "sriov-manage")
        return device.vendor == "nvidia" and state.total_functions > 0 and program is not None
