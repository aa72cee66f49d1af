"""Finds the container that has a slot, from two records of the kubelet and the ledger.

The kubelet allocates slots without naming the pod, and asks again before each container starts. By
then its records name the pod: the device manager's checkpoint has the pod's uid, the container and
the CDI name that `Allocate` answered; PodResources has names and ids but no uid, and leaves
ordinary init containers out. The ledger joins the two by uid. If they disagree, the slot is
refused: the kubelet keeps the container waiting and asks again. Pure.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from gpupool.base.errors import CardNotReady
from gpupool.kubernetes.resources.gpu_node import Entry, EntryState


@dataclass(frozen=True)
class SlotBooking:
    """One line of the kubelet's checkpoint: a container, its slots and its CDI device."""

    uid: str
    container: str
    slots: frozenset[str]
    device: str


@dataclass(frozen=True)
class SlotHolder:
    """A container that has a slot, with the entry that names its cards."""

    booking: SlotBooking
    entry: Entry


def read_bookings(
    checkpoint: bytes, resource: str, device_of: Callable[[bytes], str]
) -> tuple[SlotBooking, ...]:
    """Read the device manager's checkpoint.

    Args:
        resource: name of our extended resource; other lines are ignored.
        device_of: reads the CDI name in an answer of the plugin.

    Raises:
        CardNotReady: the checkpoint cannot be read.
    """
    # JSON of pkg/kubelet/cm/devicemanager/checkpoint: `Data.PodDeviceEntries[]` with `PodUID`,
    # `ContainerName`, `ResourceName`, `DeviceIDs` (by NUMA node) and `AllocResp` (base64 of a
    # ContainerAllocateResponse).
    bookings = []
    try:
        for one in json.loads(checkpoint)["Data"]["PodDeviceEntries"] or ():
            if one["ResourceName"] != resource:
                continue
            slots = frozenset(chain.from_iterable(one["DeviceIDs"].values()))
            device = device_of(base64.b64decode(one["AllocResp"]))
            bookings.append(SlotBooking(one["PodUID"], one["ContainerName"], slots, device))
        return tuple(bookings)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CardNotReady(f"the kubelet's checkpoint cannot be read: {error!r}") from None


def find_holders(
    slot: str,
    booked: Iterable[SlotBooking],
    entries: Mapping[tuple[str, str], Entry],
    listed: Callable[[str, str], Mapping[str, Sequence[str]]],
) -> tuple[SlotHolder, ...]:
    """Return the container that has the slot; two if an init container had it before.

    Args:
        entries: the node's ledger by pod uid and container.
        listed: asks PodResources for a pod by namespace and name; slots by container.

    Raises:
        CardNotReady: the records do not agree, or there is no entry.
    """
    mine = [one for one in booked if slot in one.slots]
    if not mine:
        raise CardNotReady(f"slot {slot} is in no line of the kubelet's checkpoint")
    uids = {one.uid for one in mine}
    if len(uids) > 1:
        raise CardNotReady(f"slot {slot} is booked for {len(uids)} pods: {', '.join(sorted(uids))}")
    found = tuple(SlotHolder(one, _find_entry(one, entries)) for one in mine)
    first = found[0].entry
    said = listed(first.namespace, first.pod)
    by_lister = {container for container, slots in said.items() if slot in slots}
    # PodResources lists no ordinary init containers, so only the others can be compared.
    by_checkpoint = {one.container for one in mine if one.container in said}
    if by_lister != by_checkpoint:
        checkpoint = _containers_by_name(by_checkpoint)
        lister = _containers_by_name(by_lister)
        raise CardNotReady(
            f"slot {slot}: the checkpoint names {checkpoint}, PodResources {lister}; "
            "the kubelet's records do not agree yet"
        )
    return found


def _find_entry(one: SlotBooking, entries: Mapping[tuple[str, str], Entry]) -> Entry:
    entry = entries.get((one.uid, one.container))
    if entry is None:
        raise CardNotReady(
            f"pod {one.uid}, container {one.container} has no cards in this node's ledger",
            hint="a pod gets its cards before it is released; kubectl gpupool why POD",
        )
    if entry.state is EntryState.DRAINING:
        raise CardNotReady(f"{entry.namespace}/{entry.pod}: its cards are being given back")
    return entry


def _containers_by_name(containers: Iterable[str]) -> str:
    return ", ".join(sorted(containers)) or "nobody"
