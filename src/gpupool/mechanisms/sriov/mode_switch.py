"""Switches a card to mode `sriov`: creates its virtual functions, and removes them."""

from __future__ import annotations

from pathlib import Path

from gpupool.mechanisms.pci.binding_plan import read_autoprobe
from gpupool.mechanisms.pci.groups import explain_missing_iommu
from gpupool.mechanisms.pci.mode_switch import OperationSwitch
from gpupool.mechanisms.pci.operations import Operation
from gpupool.mechanisms.pci.requests import read_address
from gpupool.mechanisms.pci.virtual_functions import explain_count
from gpupool.model.device import CardMode, Device, ModeNeed, ModeOffer

#: Label of a card: how many virtual functions it gets; all that it can have without it.
COUNT = "virtual-functions"
#: AMD's driver for hosts creates the functions when its module loads, from `vf_num`.
GIM = "gim"


class SriovSwitch(OperationSwitch):
    """Creates as many virtual functions as the card's label says."""

    mode = CardMode.SRIOV

    def describe_offer(self, device: Device) -> ModeOffer | None:
        # NVIDIA's virtual functions need a type and a licence: mode `vgpu`.
        if device.simulated or device.pci_address is None or device.vendor == "nvidia":
            return None
        address = read_address(device)
        if not self.tree.has_function(address):
            return None
        state = self.tree.describe(address)
        if state.total_functions == 0 and state.driver != GIM:
            return None
        needs = ModeNeed.RELOAD if state.driver == GIM else ModeNeed.IDLE_CARD
        problem = "" if device.mode is self.mode else self.explain_block(device)
        return ModeOffer(self.mode, needs, None, problem)

    def find_problem(self, device: Device) -> str:
        address = read_address(device)
        if not self.tree.has_function(address):
            return f"{address} is not on the PCI bus"
        state = self.tree.describe(address)
        if state.group is None:
            return explain_missing_iommu(self.tree)
        text = device.labels.get(COUNT, str(state.total_functions))
        if not text.isdecimal() or int(text) == 0:
            return f"label {COUNT}={text} is not a number of virtual functions"
        if state.driver == GIM:
            if state.functions == int(text):
                return ""
            return (
                f"gim has made {state.functions} virtual functions, {text} are wanted: "
                f"load it again with vf_num={text}"
            )
        return explain_count(address, state.functions, int(text), state.total_functions)

    def make_plan(
        self, device: Device, folder: Path
    ) -> tuple[tuple[Operation, ...], tuple[Operation, ...]]:
        address = read_address(device)
        state = self.tree.describe(address)
        count = int(device.labels.get(COUNT, str(state.total_functions)))
        # Functions that are there already are not ours to remove.
        if state.functions == count:
            return (), ()
        facts = {"address": address, "count": count}
        autoprobe = read_autoprobe(self.tree, address)
        enter = {"verb": "create-functions", **facts}
        leave = {"verb": "remove-functions", **facts, "autoprobe": autoprobe}
        return (enter,), (leave,)
