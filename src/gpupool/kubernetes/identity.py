"""Which container a slot belongs to: said by two witnesses of the kubelet and by the ledger, or by nobody.

The kubelet hands slots out without saying to whom, and asks again before each container starts. By then its records
name the pod: the device manager's checkpoint has the pod's uid, the container and the CDI name that `Allocate`
answered; PodResources has names and ids but no uid, and leaves ordinary init containers out. The ledger joins the two
by uid. What does not agree is refused: the kubelet keeps the container waiting and asks again. Pure.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from gpupool.base.errors import CardNotReady
from gpupool.kubernetes.objects import Entry, EntryState


@dataclass(frozen=True)
class Booking:
    """One line of the kubelet's checkpoint: a container's slot, and the CDI device that it was promised."""

    uid: str
    container: str
    slots: frozenset[str]
    device: str


@dataclass(frozen=True)
class Holder:
    """A container that holds a slot, with the entry that says which cards it gets."""

    booking: Booking
    entry: Entry


def bookings(checkpoint: bytes, resource: str, device_of: Callable[[bytes], str]) -> tuple[Booking, ...]:
    """What the device manager's checkpoint says of our resource; `device_of` reads the CDI name out of an answer.

    The file is JSON: `Data.PodDeviceEntries[]` with `PodUID`, `ContainerName`, `ResourceName`, `DeviceIDs` (by NUMA
    node) and `AllocResp` (base64 of a ContainerAllocateResponse): pkg/kubelet/cm/devicemanager/checkpoint.
    Raises CardNotReady where it cannot be read.
    """
    try:
        entries = json.loads(checkpoint)["Data"]["PodDeviceEntries"] or ()
        return tuple(
            Booking(
                one["PodUID"],
                one["ContainerName"],
                frozenset(slot for slots in one["DeviceIDs"].values() for slot in slots),
                device_of(base64.b64decode(one["AllocResp"])),
            )
            for one in entries
            if one["ResourceName"] == resource
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CardNotReady(f"the kubelet's checkpoint cannot be read: {error!r}") from None


def holders(
    slot: str,
    booked: Iterable[Booking],
    entries: Mapping[tuple[str, str], Entry],
    listed: Callable[[str, str], Mapping[str, Sequence[str]]],
) -> tuple[Holder, ...]:
    """Who holds the slot: one container, or an init container and the one that gets its slot after it.

    `entries` are the node's ledger by (pod uid, container), `listed` asks PodResources for a pod by namespace and name:
    slots by container. Raises CardNotReady with what does not agree.
    """
    mine = [one for one in booked if slot in one.slots]
    if not mine:
        raise CardNotReady(f"slot {slot} is in no line of the kubelet's checkpoint")
    uids = {one.uid for one in mine}
    if len(uids) > 1:
        raise CardNotReady(f"slot {slot} is booked for {len(uids)} pods: {', '.join(sorted(uids))}")
    found = tuple(Holder(one, _entry(one, entries)) for one in mine)
    first = found[0].entry
    said = listed(first.namespace, first.pod)
    by_lister = {container for container, slots in said.items() if slot in slots}
    by_checkpoint = {one.container for one in mine if one.container in said}
    if by_lister != by_checkpoint:
        raise CardNotReady(
            f"slot {slot}: the checkpoint names {_named(by_checkpoint)}, PodResources {_named(by_lister)}; "
            "the kubelet's records do not agree yet"
        )
    return found


def _entry(one: Booking, entries: Mapping[tuple[str, str], Entry]) -> Entry:
    entry = entries.get((one.uid, one.container))
    if entry is None:
        raise CardNotReady(
            f"pod {one.uid}, container {one.container} has no cards in this node's ledger",
            hint="a pod gets its cards before it is released; kubectl gpupool why POD",
        )
    if entry.state is EntryState.DRAINING:
        raise CardNotReady(f"{entry.namespace}/{entry.pod}: its cards are being given back")
    return entry


def _named(containers: Iterable[str]) -> str:
    return ", ".join(sorted(containers)) or "nobody"
