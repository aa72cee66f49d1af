"""Reads and writes closed intervals: cards of a node that were held from one instant to another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gpupool.model.allocation import Seat

Json = Mapping[str, Any]


def seats_to_json(seats: Iterable[Seat]) -> list[dict[str, Any]]:
    """Seats as ledgers write them."""
    found = []
    for one in seats:
        found.append(
            {"uuid": one.device, "gpuMilli": one.gpu_milli, "memoryBytes": one.memory_bytes}
        )
    return found


def seats_from_json(cards: Iterable[Json]) -> tuple[Seat, ...]:
    """And back."""
    return tuple(Seat(one["uuid"], one["gpuMilli"], one["memoryBytes"]) for one in cards)


@dataclass(frozen=True)
class ClosedInterval:
    """What was held and is no more: seats from one instant to another, for the books.

    `gpu_ms`: GPU time that the container had used by then, since it began; None where nothing
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
    gpu_ms: int | None = None

    def to_json(self) -> dict[str, Any]:
        spent = {} if self.gpu_ms is None else {"gpuMs": self.gpu_ms}
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
            gpu_ms=read.get("gpuMs"),
        )
