"""Gives a virtual machine one virtual GPU of a card in mode `vgpu`, of the type that the claim names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gpupool.base.errors import RequestRejection
from gpupool.base.units import WHOLE
from gpupool.mechanisms.contract import AllocationView, GrantedDevice, PciFunction
from gpupool.mechanisms.offers.summaries import MechanismSummary
from gpupool.mechanisms.pci.handover import CardHandover
from gpupool.mechanisms.pci.handover_record import HandoverPlan
from gpupool.mechanisms.pci.holders import find_holders
from gpupool.mechanisms.pci.requests import find_mode_problem, read_address
from gpupool.mechanisms.pci.sysfs import read_link
from gpupool.mechanisms.pci.virtual_gpus import (
    locate_mediated_device,
    locate_type_attribute,
    name_mediated_device,
)
from gpupool.mechanisms.vgpu.driver_settings import (
    LICENCE_FOLDER,
    find_levels,
    find_licence,
    read_scheduler,
)
from gpupool.mechanisms.vgpu.mode_switch import MIXED, SIZES
from gpupool.mechanisms.vgpu.types import (
    VgpuType,
    format_types,
    is_mediated,
    list_sizes,
    list_types,
    shorten_name,
)
from gpupool.model.device import CardMode, Device
from gpupool.model.enforcement import EnforcementLevels, FenceLevel
from gpupool.model.isolation.host_kind import HostKind
from gpupool.model.isolation.mechanism_offer import SizeClass
from gpupool.model.partition import PartitionProfile
from gpupool.probes.common.sysfs import read_number

END_OF_LIFE = (
    "GVT-g has reached its end of life: Intel develops it no more, and it serves graphics up to "
    "Comet Lake only"
)


class VgpuMechanism(CardHandover):
    """One virtual GPU on each card of an allocation. Thread-safe."""

    name = "vgpu"
    summary = MechanismSummary(
        EnforcementLevels(FenceLevel.HARD, FenceLevel.HARD, FenceLevel.HARD, FenceLevel.HARD),
        (HostKind.VM,),
        SizeClass.PROFILES,
        "NVIDIA with a licence (all levels only on MIG instances), Intel GVT-g; in mode vgpu",
        "file trees of the drivers' rules; no real card",
    )

    def list_profiles(self, device: Device) -> tuple[PartitionProfile, ...]:
        """Return the types that the card can have now."""
        if device.mode is not CardMode.VGPU or device.pci_address is None:
            return ()
        address = read_address(device)
        functions = len(self.tree.list_virtual(address))
        profiles = []
        for kind in list_types(self.tree, address):
            most = _count_most(kind, device, functions)
            if most:
                profiles.append(
                    PartitionProfile(
                        kind.name, 1, kind.memory_bytes, tuple(range(most)), most, WHOLE // most
                    )
                )
        return tuple(profiles)

    def explain_pieces(self, view: AllocationView, taken: frozenset[str]) -> str:
        for grant in view.granted:
            problem = find_mode_problem(grant.device, CardMode.VGPU, by_claim=False)
            problem = problem or self._find_type_problem(grant, taken)
            if problem:
                return problem
        return ""

    def make_plan(self, view: AllocationView, folder: Path, taken: frozenset[str]) -> HandoverPlan:
        plans = []
        for grant in view.granted:
            kind = self._find_type(grant)
            if kind is None:
                raise RequestRejection(f"{grant.device.uuid} has no type {grant.profile}")
            if is_mediated(self.tree, read_address(grant.device)):
                plans.append(self._plan_mediated(view, grant, kind))
            else:
                plans.append(self._plan_function(grant, kind, taken))
        first = plans[0]
        return HandoverPlan(
            pieces=tuple(piece for plan in plans for piece in plan.pieces),
            enter=tuple(one for plan in plans for one in plan.enter),
            leave=tuple(one for plan in plans for one in plan.leave),
            levels=first.levels,
            why=first.why,
            functions=tuple(one for plan in plans for one in plan.functions),
            mediated_devices=tuple(one for plan in plans for one in plan.mediated_devices),
            notes=first.notes,
            extra={"types": [kind for plan in plans for kind in plan.extra["types"]]},
        )

    def find_effect_problem(self, made: Mapping[str, Any]) -> str:
        for piece, kind in made["types"]:
            if piece in made["mediated_devices"]:
                found = read_link(locate_mediated_device(self.tree, piece) / "mdev_type")
            else:
                found = str(read_number(locate_type_attribute(self.tree, piece)))
            if found != kind:
                return f"virtual GPU {piece} is of type {found}, expected {kind}"
        return ""

    def _plan_mediated(
        self, view: AllocationView, grant: GrantedDevice, kind: VgpuType
    ) -> HandoverPlan:
        parent = read_address(grant.device)
        # The generation is no part of the id: a younger one of the allocation keeps its device.
        identifier = name_mediated_device(view.allocation, parent)
        create = {
            "verb": "create-mediated-device",
            "parent": parent,
            "kind": kind.identifier,
            "identifier": identifier,
        }
        remove = {"verb": "remove-mediated-device", "identifier": identifier}
        return self._describe_plan(
            kind, identifier, enter=create, leave=remove, mediated_devices=(identifier,)
        )

    def _plan_function(
        self, grant: GrantedDevice, kind: VgpuType, taken: frozenset[str]
    ) -> HandoverPlan:
        address = next(self._iterate_free(grant.device, taken), None)
        if address is None:
            raise RequestRejection(f"{grant.device.uuid} has no free virtual function")
        state = self.tree.describe(address)
        facts = {"address": address, "number": int(kind.identifier)}
        # The function stays on NVIDIA's driver, which is also its VFIO driver.
        function = PciFunction(address, state.group, state.driver or "nvidia", state.bar_bytes)
        return self._describe_plan(
            kind,
            address,
            enter={"verb": "set-function-type", **facts},
            leave={"verb": "clear-function-type", **facts},
            functions=(function,),
        )

    def _describe_plan(
        self,
        kind: VgpuType,
        piece: str,
        *,
        enter: Mapping[str, Any],
        leave: Mapping[str, Any],
        functions: tuple[PciFunction, ...] = (),
        mediated_devices: tuple[str, ...] = (),
    ) -> HandoverPlan:
        scheduler = read_scheduler(self.tree.root)
        if kind.is_gvt:
            why = "the host's driver divides the memory; the engines are shared without a quota"
            notes = (END_OF_LIFE,)
        else:
            licence = find_licence(self.tree.root)
            token = "none" if licence is None else licence.name
            why = f"the host's driver divides memory, and time by the policy {scheduler}"
            notes = (f"licence: put {token} into /etc/nvidia/ClientConfigToken of the guest",)
        return HandoverPlan(
            pieces=(piece,),
            enter=(enter,),
            leave=(leave,),
            levels=find_levels(mig=kind.is_mig, gvt=kind.is_gvt, scheduler=scheduler),
            why=why,
            functions=functions,
            mediated_devices=mediated_devices,
            notes=notes,
            extra={"types": [[piece, kind.identifier]]},
        )

    def _find_type(self, grant: GrantedDevice) -> VgpuType | None:
        for kind in list_types(self.tree, read_address(grant.device)):
            if shorten_name(grant.profile or "") == kind.name:
                return kind
        return None

    def _find_type_problem(self, grant: GrantedDevice, taken: frozenset[str]) -> str:
        device = grant.device
        address = read_address(device)
        types = list_types(self.tree, address)
        kind = self._find_type(grant)
        if kind is None:
            wanted = grant.profile or "a virtual GPU without a type"
            return f"{device.uuid} cannot have {wanted}; it can have {format_types(types)}"
        if not kind.is_gvt and find_licence(self.tree.root) is None:
            return (
                f"no licence: /{LICENCE_FOLDER} has no token for the guest, which the driver would "
                "slow down without one"
            )
        numbers = list_sizes(self.tree, address)
        sizes = {one.memory_bytes for one in types if one.identifier in map(str, numbers)}
        if device.labels.get(SIZES) != MIXED and sizes - {kind.memory_bytes}:
            size = next(iter(sizes)) >> 30
            return (
                f"{device.uuid} has virtual GPUs of {size} GB and takes that size only: "
                f"label it {SIZES}={MIXED} and switch its mode again"
            )
        if kind.available == 0:
            return f"{device.uuid} has no {kind.name} left; it can have {format_types(types)}"
        if is_mediated(self.tree, address) or any(self._iterate_free(device, taken)):
            return ""
        return f"all virtual functions of {device.uuid} are in use"

    def _iterate_free(self, device: Device, taken: frozenset[str]) -> Iterator[str]:
        for address in self.tree.list_virtual(read_address(device)):
            if address in taken or read_number(locate_type_attribute(self.tree, address)) != 0:
                continue
            if not find_holders(self.tree.list_group_nodes(address), self.tree.root):
                yield address


def _count_most(kind: VgpuType, device: Device, functions: int) -> int:
    """Return how many of a type a card can have, in the mode of sizes that it is in."""
    most = kind.most
    if most is None and kind.memory_bytes:
        most = device.memory_bytes // kind.memory_bytes
        if functions:
            most = min(most, functions)
    if most is None:
        most = kind.available
    if device.labels.get(SIZES) == MIXED and most:
        # With mixed sizes the driver places each type at multiples of a power of two.
        most = 1 << most.bit_length() - 1
    return most
