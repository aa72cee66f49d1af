"""Serves whole cards to virtual machines.

A card in mode `passthrough` has its VFIO driver already, and an allocation of it changes nothing. A card
in mode `plain` is bound for the allocation and returned to the host after it, where its label allows that.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpupool.mechanisms.contract import AllocationView, EnforcementLevels, FenceLevel, PciFunction
from gpupool.mechanisms.offers.summaries import MechanismSummary
from gpupool.mechanisms.passthrough.card_check import check_card
from gpupool.mechanisms.passthrough.plan import plan_card
from gpupool.mechanisms.pci.binding_plan import (
    BindingPlan,
    describe_interrupts,
    describe_reset,
    find_binding_problem,
    plan_binding,
)
from gpupool.mechanisms.pci.fabric import explain_partitions, match_partition, read_partitions
from gpupool.mechanisms.pci.groups import HandoverSet
from gpupool.mechanisms.pci.handover import CardHandover
from gpupool.mechanisms.pci.handover_record import HandoverPlan
from gpupool.mechanisms.pci.operations import Operation
from gpupool.mechanisms.pci.requests import find_mode_problem, read_address
from gpupool.mechanisms.whole import is_whole
from gpupool.model.device import CardMode, Device
from gpupool.model.isolation.host_kind import HostKind
from gpupool.model.isolation.mechanism_offer import SizeClass

WHY = "the virtual machine has the card alone; the IOMMU keeps it away from everything else"
LEVELS = EnforcementLevels(
    memory=FenceLevel.HARD,
    compute=FenceLevel.HARD,
    bandwidth=FenceLevel.HARD,
    fault=FenceLevel.HARD,
)


class PassthroughMechanism(CardHandover):
    """Whole cards, several for one VM. Thread-safe."""

    name = "passthrough"
    summary = MechanismSummary(
        LEVELS,
        (HostKind.VM,),
        SizeClass.WHOLE,
        "whole ones that the IOMMU separates; in mode passthrough, or labelled switchable",
        "real kernel in an emulated machine, on QEMU's edu device and NVMe functions; no real card",
    )

    def explain_pieces(self, view: AllocationView, taken: frozenset[str]) -> str:
        for grant in view.granted:
            if grant.profile is not None or not is_whole(grant):
                return f"{grant.device.uuid} is granted in part, and a VM takes a whole card"
            problem = find_mode_problem(grant.device, CardMode.PASSTHROUGH, by_claim=True)
            if not problem:
                found = check_card(self.tree, grant.device)
                problem = found.problem or _find_owner(found, taken)
            if problem:
                return problem
        addresses = [read_address(grant.device) for grant in view.granted]
        return explain_partitions(self.tree.root, addresses)

    def make_plan(self, view: AllocationView, folder: Path, taken: frozenset[str]) -> HandoverPlan:
        enter: list[Operation] = []
        leave: list[Operation] = []
        functions: list[PciFunction] = []
        notes = []
        for grant in view.granted:
            found = check_card(self.tree, grant.device)
            binding = self._plan_card(grant.device, found, folder)
            enter += binding.enter
            leave += binding.leave
            functions += binding.functions
            notes.append(describe_reset(found.functions))
            machine = os.uname().machine
            notes.append(describe_interrupts(self.tree, found.functions, machine))
        fabric = self._plan_fabric(view, folder)
        return HandoverPlan(
            pieces=tuple(function.address for function in functions),
            enter=(*enter, *fabric.enter),
            leave=(*fabric.leave, *leave),
            levels=LEVELS,
            why=WHY,
            functions=tuple(functions),
            notes=tuple(notes),
        )

    def find_effect_problem(self, made: Mapping[str, Any]) -> str:
        functions = tuple(self.read_function(one) for one in made["functions"])
        return find_binding_problem(self.tree, functions)

    def _plan_card(self, device: Device, found: HandoverSet, folder: Path) -> BindingPlan:
        if device.mode is CardMode.PLAIN:
            return plan_card(self.tree, device, found, folder)
        # The switch of the mode bound it and will restore it.
        binding = plan_binding(self.tree, found.functions)
        return replace(binding, leave=())

    def _plan_fabric(self, view: AllocationView, folder: Path) -> BindingPlan:
        addresses = [read_address(grant.device) for grant in view.granted]
        partition = match_partition(read_partitions(self.tree.root), addresses)
        if partition is None:
            return BindingPlan((), (), ())
        facts = {"partition": partition.identifier, "record": str(folder / "fabric.json")}
        return BindingPlan(
            ({"verb": "activate-partition", **facts},),
            ({"verb": "deactivate-partition", **facts},),
            (),
        )


def _find_owner(found: HandoverSet, taken: frozenset[str]) -> str:
    for function in found.functions:
        if function.address in taken:
            return f"{function.address} belongs to another allocation"
    return ""
