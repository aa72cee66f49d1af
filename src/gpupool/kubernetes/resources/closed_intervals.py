"""Reads and writes closed intervals: cards of a node that were held from one instant to another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gpupool.kubernetes.resources.gpu_time import GpuTime
from gpupool.model.allocation import Seat
from gpupool.model.partition import PartitionSlot

Json = Mapping[str, Any]


def seats_to_json(seats: Iterable[Seat]) -> list[dict[str, Any]]:
    """Seats as ledgers write them."""
    found = []
    for one in seats:
        seat: dict[str, Any] = {
            "uuid": one.device,
            "gpuMilli": one.gpu_milli,
            "memoryBytes": one.memory_bytes,
        }
        if one.partition is not None:
            seat["profile"] = one.partition.profile
            seat["start"] = one.partition.start
            seat["size"] = one.partition.size
        found.append(seat)
    return found


def seats_from_json(cards: Iterable[Json]) -> tuple[Seat, ...]:
    """And back."""
    return tuple(
        Seat(one["uuid"], one["gpuMilli"], one["memoryBytes"], _read_slot(one)) for one in cards
    )


def _read_slot(seat: Json) -> PartitionSlot | None:
    profile = seat.get("profile")
    return None if profile is None else PartitionSlot(seat["start"], seat["size"], profile)


@dataclass(frozen=True)
class ClosedInterval:
    """What was held and is no more: seats from one instant to another, for the books.

    `spent`: GPU time that the container had used by then, since it began; None where nothing
    counted it.
    """

    uid: str
    namespace: str
    pod: str
    container: str
    seats: tuple[Seat, ...]
    tenant: str
    account: str
    held_ns: int
    ended_ns: int
    spent: GpuTime | None = None

    def to_json(self) -> dict[str, Any]:
        spent = {} if self.spent is None else self.spent.to_json()
        return {
            "uid": self.uid,
            "namespace": self.namespace,
            "pod": self.pod,
            "container": self.container,
            "cards": seats_to_json(self.seats),
            "tenant": self.tenant,
            "account": self.account,
            "heldNs": self.held_ns,
            "endedNs": self.ended_ns,
            **spent,
        }

    @classmethod
    def from_json(cls, read: Json) -> ClosedInterval:
        return cls(
            uid=read["uid"],
            namespace=read["namespace"],
            pod=read["pod"],
            container=read["container"],
            seats=seats_from_json(read["cards"]),
            tenant=read["tenant"],
            account=read["account"],
            held_ns=read["heldNs"],
            ended_ns=read["endedNs"],
            spent=GpuTime.from_json(read),
        )
