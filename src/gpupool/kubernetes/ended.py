"""What was held of a node's cards and is no more, as its ledger and its journal keep it for the books."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpupool.model.allocation import Seat

Json = Mapping[str, Any]


@dataclass(frozen=True)
class Ended:
    """What was held and is no more: seats from one instant to another, for the books."""

    uid: str
    namespace: str
    pod: str
    container: str
    seats: tuple[Seat, ...]
    tenant: str
    account: str
    held_ns: int
    ended_ns: int

    def to_json(self) -> dict[str, Any]:
        return {
            "uid": self.uid,
            "namespace": self.namespace,
            "pod": self.pod,
            "container": self.container,
            "cards": [{"uuid": s.device, "gpuMilli": s.gpu_milli, "memoryBytes": s.memory_bytes} for s in self.seats],
            "tenant": self.tenant,
            "account": self.account,
            "heldNs": self.held_ns,
            "endedNs": self.ended_ns,
        }

    @classmethod
    def from_json(cls, read: Json) -> Ended:
        return cls(
            uid=read["uid"],
            namespace=read["namespace"],
            pod=read["pod"],
            container=read["container"],
            seats=tuple(Seat(c["uuid"], c["gpuMilli"], c["memoryBytes"]) for c in read["cards"]),
            tenant=read["tenant"],
            account=read["account"],
            held_ns=read["heldNs"],
            ended_ns=read["endedNs"],
        )
