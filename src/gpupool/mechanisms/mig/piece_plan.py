"""Decides which pieces an allocation gets: what is granted, and a slot where none is named.

Normally the scheduler has chosen the slot. Where the ledger does not carry it, the slot is chosen
here so that the card keeps the most free slots. Changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from gpupool.base.errors import RequestRejection
from gpupool.mechanisms.bookkeeping import find_size_problem
from gpupool.mechanisms.contract import AllocationView, GrantedDevice, HostKind
from gpupool.mechanisms.mig.driver import GpuInstance, InstanceDriver
from gpupool.mechanisms.mig.records import Piece, read_pieces
from gpupool.mechanisms.notes import NoteBook
from gpupool.model.device import Device
from gpupool.model.partition import (
    PartitionProfile,
    PartitionSlot,
    find_open_slot,
    format_mix,
)


def list_real_profiles(device: Device) -> tuple[PartitionProfile, ...]:
    """Return the profiles that instances can be made of now: those that the driver reported."""
    if device.simulated or device.vendor != "nvidia" or not device.partitioned:
        return ()
    return tuple(profile for profile in device.profiles if profile.profile_id is not None)


def find_grant_problem(view: AllocationView) -> str:
    """Return why hardware partitions cannot serve an allocation, for people; empty if they can."""
    if not view.granted:
        return "it has no card"
    if view.host is HostKind.VM:
        return "a partition is not a PCI function, so no VM can take it over"
    for grant in view.granted:
        problem = _find_card_problem(grant)
        if problem:
            return problem
    if view.seat.own_pool:
        return "only root may create partitions, and this agent runs as another account"
    return find_size_problem(view)


def plan_pieces(view: AllocationView, driver: InstanceDriver, book: NoteBook) -> tuple[Piece, ...]:
    """Return the pieces of an allocation; what an earlier attempt planned stays.

    Raises:
        RequestRejection: the allocation is on record with other partitions, or a slot is claimed by
            another allocation of this node, or none is open.
    """
    note = book.find_note(view.allocation)
    earlier = () if note is None else read_pieces(note.made)
    if earlier:
        _refuse_other_pieces(view, earlier)
        return earlier
    planned = list[Piece]()
    for grant in view.granted:
        claims = (*_list_claims(book, view.allocation), *planned)
        planned.append(_plan_piece(grant, driver, claims))
    return tuple(planned)


def _find_card_problem(grant: GrantedDevice) -> str:
    device = grant.device
    if grant.profile is None:
        return f"it asks for no partition of {device.uuid}"
    if device.simulated:
        return f"{device.uuid} is simulated: its partitions are held by the fence"
    if device.partitioned is None:
        return f"{device.uuid} ({device.model}) has no MIG"
    if not device.partitioned:
        return f"{device.uuid} is not in MIG mode (gpupool mode {device.uuid} mig)"
    profiles = list_real_profiles(device)
    profile = _find_profile(profiles, grant.profile)
    if profile is None:
        known = ", ".join(one.name for one in profiles) or "none"
        return f"{device.uuid} has no profile {grant.profile}; its driver reports: {known}"
    if grant.start is not None and grant.start not in profile.starts:
        starts = ", ".join(map(str, profile.starts))
        return (
            f"{profile.name} cannot begin at unit {grant.start} of {device.uuid}: only at {starts}"
        )
    return ""


def _find_profile(profiles: Iterable[PartitionProfile], name: str) -> PartitionProfile | None:
    return next((profile for profile in profiles if profile.name == name), None)


def _refuse_other_pieces(view: AllocationView, earlier: tuple[Piece, ...]) -> None:
    asked = [(grant.device.uuid, grant.profile) for grant in view.granted]
    known = [(piece.card, piece.profile) for piece in earlier]
    moved = [
        grant
        for grant, piece in zip(view.granted, earlier, strict=False)
        if grant.start not in (None, piece.start)
    ]
    if asked != known or moved:
        mix = format_mix(piece.slot for piece in earlier)
        raise RequestRejection(
            f"allocation {view.allocation} already has {mix} here; a partition is neither resized "
            "nor moved",
            hint="release the allocation first",
        )


def _list_claims(book: NoteBook, allocation: str) -> tuple[Piece, ...]:
    """Return the pieces of other allocations, also of those that are being released."""
    claims = list[Piece]()
    for note in book.iterate_all():
        if note.allocation != allocation:
            claims.extend(read_pieces(note.made))
    return tuple(claims)


def _plan_piece(grant: GrantedDevice, driver: InstanceDriver, claims: tuple[Piece, ...]) -> Piece:
    device = grant.device
    profiles = list_real_profiles(device)
    profile = _find_profile(profiles, grant.profile or "")
    if profile is None or profile.profile_id is None:
        raise RequestRejection(f"{device.uuid} has no profile {grant.profile}")
    claimed = [piece.slot for piece in claims if piece.card == device.uuid]
    if grant.start is not None:
        slot = PartitionSlot(grant.start, profile.size, profile.name)
        _refuse_claimed(slot, claims, device.uuid)
    else:
        standing = _name_slots(profiles, driver.list_instances(device.uuid))
        found = find_open_slot(profiles, {*claimed, *standing}, profile.name)
        if found is None:
            mix = format_mix({*claimed, *standing})
            raise RequestRejection(f"{device.uuid} has no open slot for {profile.name}: {mix}")
        slot = found
    return Piece(device.uuid, profile.name, profile.profile_id, slot.start, slot.size)


def _refuse_claimed(slot: PartitionSlot, claims: Iterable[Piece], card: str) -> None:
    for piece in claims:
        if piece.card == card and set(piece.slot.units) & set(slot.units):
            raise RequestRejection(
                f"{slot.profile} at unit {slot.start} of {card} is still claimed by {piece.profile} "
                f"at unit {piece.start} of another allocation on this node",
                hint="it is free when that allocation has been released",
            )


def _name_slots(
    profiles: Iterable[PartitionProfile], instances: Iterable[GpuInstance]
) -> list[PartitionSlot]:
    names = {profile.profile_id: profile.name for profile in profiles}
    slots = []
    for instance in instances:
        name = names.get(instance.profile_id, f"profile {instance.profile_id}")
        slots.append(PartitionSlot(instance.start, instance.size, name))
    return slots
