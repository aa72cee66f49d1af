"""Switches a card to mode `passthrough`, in which it serves virtual machines only."""

from __future__ import annotations

from pathlib import Path

from gpupool.mechanisms.passthrough.card_check import check_card
from gpupool.mechanisms.passthrough.plan import plan_card
from gpupool.mechanisms.pci.mode_switch import OperationSwitch
from gpupool.mechanisms.pci.operations import Operation
from gpupool.mechanisms.pci.requests import read_address
from gpupool.model.device import CardMode, Device, ModeNeed, ModeOffer


class PassthroughSwitch(OperationSwitch):
    """Binds a card and its companions to VFIO drivers, and puts them back."""

    mode = CardMode.PASSTHROUGH

    def describe_offer(self, device: Device) -> ModeOffer | None:
        if device.simulated or device.pci_address is None:
            return None
        if not self.tree.has_function(read_address(device)):
            return None
        problem = "" if device.mode is self.mode else self.explain_block(device)
        return ModeOffer(self.mode, ModeNeed.IDLE_CARD, None, problem)

    def find_problem(self, device: Device) -> str:
        return check_card(self.tree, device).problem

    def make_plan(
        self, device: Device, folder: Path
    ) -> tuple[tuple[Operation, ...], tuple[Operation, ...]]:
        plan = plan_card(self.tree, device, check_card(self.tree, device), folder)
        return plan.enter, plan.leave
