"""Gives one virtual function of a card in mode `sriov` to a virtual machine, with quotas."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gpupool.base.errors import RequestRejection
from gpupool.base.units import WHOLE
from gpupool.mechanisms.contract import AllocationView, EnforcementLevels, FenceLevel, GrantedDevice
from gpupool.mechanisms.offers.summaries import MechanismSummary
from gpupool.mechanisms.pci.binding_plan import (
    describe_reset,
    find_binding_problem,
    plan_binding,
)
from gpupool.mechanisms.pci.groups import find_handover_set
from gpupool.mechanisms.pci.handover import CardHandover
from gpupool.mechanisms.pci.handover_record import HandoverPlan
from gpupool.mechanisms.pci.holders import find_holders
from gpupool.mechanisms.pci.requests import find_mode_problem, read_address
from gpupool.mechanisms.pci.sysfs import PciTree
from gpupool.mechanisms.sriov.mode_switch import GIM
from gpupool.mechanisms.sriov.quotas import has_quotas, plan_changes, plan_quotas
from gpupool.model.device import CardMode, Device
from gpupool.model.isolation.host_kind import HostKind
from gpupool.model.partition import PartitionProfile
from gpupool.probes.common.sysfs import read_number

_QUOTAS = EnforcementLevels(memory=FenceLevel.HARD, compute=FenceLevel.HARD, fault=FenceLevel.SOFT)
_TURNS = EnforcementLevels(memory=FenceLevel.HARD, compute=FenceLevel.SOFT, fault=FenceLevel.SOFT)


class SriovMechanism(CardHandover):
    """Virtual functions, one for each card of an allocation. Thread-safe."""

    name = "sriov"
    summary = MechanismSummary(
        _QUOTAS,
        (HostKind.VM,),
        None,
        "Intel and AMD cards in mode sriov; quotas of Intel's drivers, turns of AMD's",
        "NVMe functions on a real kernel in an emulated machine; file trees of the drivers' rules; "
        "no real card",
    )

    def list_profiles(self, device: Device) -> tuple[PartitionProfile, ...]:
        """Return the one equal part of a card that takes no quotas."""
        if device.mode is not CardMode.SRIOV or device.pci_address is None:
            return ()
        count = len(self._list_functions(device))
        if count == 0 or has_quotas(self.tree, read_address(device)):
            return ()
        memory = device.memory_bytes // count
        name = f"vf-1of{count}"
        return (PartitionProfile(name, 1, memory, tuple(range(count)), count, WHOLE // count),)

    def explain_pieces(self, view: AllocationView, taken: frozenset[str]) -> str:
        for grant in view.granted:
            problem = find_mode_problem(grant.device, CardMode.SRIOV, by_claim=False)
            if not problem:
                problem = self._find_size_problem(grant)
            if not problem and self._find_free(grant.device, taken) is None:
                count = len(self._list_functions(grant.device))
                problem = f"all {count} virtual functions of {grant.device.uuid} are in use"
            if problem:
                return problem
        return ""

    def make_plan(self, view: AllocationView, folder: Path, taken: frozenset[str]) -> HandoverPlan:
        enter: list[Any] = []
        leave: list[Any] = []
        functions: list[Any] = []
        notes = []
        quotas: list[list[Any]] = []
        levels = _QUOTAS
        for grant in view.granted:
            index = self._find_free(grant.device, taken)
            if index is None:
                raise RequestRejection(f"{grant.device.uuid} has no free virtual function")
            physical = read_address(grant.device)
            function = self.tree.describe(self._list_functions(grant.device)[index])
            taken = taken | {function.address}
            binding = plan_binding(self.tree, (function,))
            values = plan_quotas(self.tree, physical, index, grant.memory_bytes, grant.gpu_milli)
            set_quotas, put_back = plan_changes(self.tree, values)
            # The quotas come first: a VM must never have the function without them.
            enter += [*set_quotas, *binding.enter]
            leave += [*binding.leave, *put_back]
            functions += binding.functions
            quotas += [[one.path, one.value, one.tolerance] for one in values]
            notes.append(describe_reset((function,)))
            levels = levels if values else find_levels(self.tree, physical)
        return HandoverPlan(
            pieces=tuple(function.address for function in functions),
            enter=tuple(enter),
            leave=tuple(leave),
            levels=levels,
            why=explain_levels(self.tree, read_address(view.granted[0].device), bool(quotas)),
            functions=tuple(functions),
            notes=tuple(notes),
            extra={"quotas": quotas},
        )

    def find_effect_problem(self, made: Mapping[str, Any]) -> str:
        for path, value, tolerance in made["quotas"]:
            found = read_number(self.tree.root / path)
            if found is None or abs(found - value) > tolerance:
                return f"{path} is {found}, expected {value}"
        return find_binding_problem(
            self.tree, tuple(self.read_function(one) for one in made["functions"])
        )

    def _list_functions(self, device: Device) -> tuple[str, ...]:
        return self.tree.list_virtual(read_address(device))

    def _find_size_problem(self, grant: GrantedDevice) -> str:
        if grant.memory_bytes > grant.device.memory_bytes:
            return f"{grant.device.uuid} has {grant.device.memory_bytes >> 20} MiB"
        profiles = self.list_profiles(grant.device)
        if grant.profile is not None and grant.profile not in [one.name for one in profiles]:
            return f"{grant.device.uuid} cannot be cut into {grant.profile} now"
        for profile in profiles:
            # Claims name whole MiB.
            fits = grant.memory_bytes >> 20 <= profile.memory_bytes >> 20
            if not fits or grant.gpu_milli > profile.gpu_milli:
                return (
                    f"{grant.device.uuid} takes no quotas: each of its {profile.max_count} virtual "
                    f"functions has {profile.memory_bytes >> 20} MiB and {profile.gpu_milli} "
                    "thousandths"
                )
        return ""

    def _find_free(self, device: Device, taken: frozenset[str]) -> int | None:
        return next(self._iterate_free(device, taken), None)

    def _iterate_free(self, device: Device, taken: frozenset[str]) -> Iterator[int]:
        for index, address in enumerate(self._list_functions(device)):
            if address in taken or find_handover_set(self.tree, address).problem:
                continue
            # A foreign VM may have it, without any note of ours.
            if not find_holders(self.tree.list_group_nodes(address), self.tree.root):
                yield index


def find_levels(tree: PciTree, physical: str) -> EnforcementLevels:
    """Return the levels of a card whose driver takes no quotas."""
    # GIM gives each function its own memory and takes turns on the engines.
    return _TURNS if tree.describe(physical).driver == GIM else EnforcementLevels()


def explain_levels(tree: PciTree, physical: str, quotas: bool) -> str:
    """Return why the levels are what they are, for people."""
    driver = tree.describe(physical).driver
    if quotas:
        return f"driver {driver} holds each virtual function to its quotas of memory and time"
    if driver == GIM:
        return "gim gives each virtual function its own memory, and the engines in turns"
    return f"the device divides itself among its virtual functions; driver {driver} takes no quotas"
