"""The parts of a node's cards that containers hold now, with what is measured of each."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, replace

from gpupool.kubernetes.node.prepare import EntryPreparer
from gpupool.kubernetes.resources.gpu_node import Entry
from gpupool.mechanisms.contract import GrantedDevice
from gpupool.mechanisms.regions import FenceDeviceUsage
from gpupool.mechanisms.whole import is_whole
from gpupool.model.allocation import Seat
from gpupool.model.device import Device


@dataclass(frozen=True)
class HeldSeat:
    """One container's part of one card.

    Attributes:
        fence: what its processes use; None if nothing measures it.
        driver_bytes: memory that the card's driver counts for it; None where the driver does not.
    """

    entry: Entry
    seat: Seat
    card: Device
    fence: FenceDeviceUsage | None
    driver_bytes: int | None = None

    @property
    def whole(self) -> bool:
        """Whether it is the whole card: then the card's values are the container's."""
        return is_whole(GrantedDevice(self.card, self.seat.gpu_milli, self.seat.memory_bytes))


def read_held_seat(
    entry: Entry,
    seat: Seat,
    card: Device,
    counted: Mapping[str, FenceDeviceUsage] | None,
    driver_bytes: int | None = None,
) -> HeldSeat:
    """The entry's part of the card.

    Args:
        counted: usage of the entry's processes by card; empty before it is prepared, None if
            nothing measures it.
        driver_bytes: what the driver counts for its container.
    """
    one = HeldSeat(entry, seat, card, None, driver_bytes)
    # A whole card has no fence before and after its preparation, so nothing counts its usage: the
    # card's own values are the container's.
    if counted is None or (one.whole and not counted):
        return one
    return replace(one, fence=counted.get(card.uuid, FenceDeviceUsage()))


def list_held_seats(
    entries: Iterable[Entry],
    pods: Container[str],
    cards: Mapping[str, Device],
    preparing: EntryPreparer,
) -> list[HeldSeat]:
    """List the parts of cards that containers hold now. Blocks for as long as the driver does.

    Args:
        pods: uids of the node's pods.
        cards: by uuid.
    """
    held = []
    for entry in entries:
        # An entry whose pod is not bound yet has no container whose series could begin.
        if entry.uid not in pods:
            continue
        usage = preparing.measure_usage(entry)
        driver_bytes = preparing.read_driver_bytes(entry)
        for seat in entry.seats:
            if seat.device in cards:
                counted = driver_bytes.get(seat.device)
                held.append(read_held_seat(entry, seat, cards[seat.device], usage, counted))
    return held
