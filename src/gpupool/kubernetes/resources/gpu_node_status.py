"""Reads and writes `GpuNode.status`: cards, slots in use, and the sum of foreign pods' requests.

Shapes and their JSON. Sizes are bytes, compute is thousandths of a card.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpupool.kubernetes.resources.pod_constraints import AffinityTerm, HostPort
from gpupool.model.catalogue import vendor_of
from gpupool.model.device import DeviceHealth

Json = Mapping[str, Any]
NVIDIA = "nvidia"
#: Of GPU time that one container is said to have used: its processes could write any number into
#: their usage page.
MOST_MS = 1 << 48


@dataclass(frozen=True)
class ReportedCard:
    """A card as its node's agent sees it."""

    uuid: str
    index: int
    model: str
    memory_bytes: int
    product: str = ""
    health: DeviceHealth = DeviceHealth.UNKNOWN
    health_reason: str = ""
    simulated: bool = False
    vendor: str = NVIDIA

    def to_json(self) -> dict[str, Any]:
        found = {
            "uuid": self.uuid,
            "index": self.index,
            "model": self.model,
            "memoryBytes": self.memory_bytes,
            "product": self.product,
            "health": self.health.value,
            "simulated": self.simulated,
            "vendor": self.vendor,
        }
        return {**found, "healthReason": self.health_reason} if self.health_reason else found

    @classmethod
    def from_json(cls, read: Json) -> ReportedCard:
        return cls(
            uuid=read["uuid"],
            index=read["index"],
            model=read["model"],
            memory_bytes=read["memoryBytes"],
            product=read.get("product", ""),
            health=DeviceHealth(read.get("health", DeviceHealth.UNKNOWN)),
            health_reason=read.get("healthReason", ""),
            simulated=read.get("simulated", False),
            # Agents that do not tell the vendor report NVML's cards alone, beside simulated ones of
            # the catalogue.
            vendor=read.get("vendor") or vendor_of(read["model"]) or NVIDIA,
        )


@dataclass(frozen=True)
class SlotUse:
    """What the agent did for one container: the slot it came by, and the generation of the entry
    that it prepared.

    `released`: nothing of the container runs on the cards any more. `gpu_ms`: GPU time that it has
    used, as far as that was told; None where nothing counts it.
    """

    uid: str
    container: str
    slot: str = ""
    generation: int = 0
    released: bool = False
    gpu_ms: int | None = None

    @property
    def key(self) -> tuple[str, str]:
        return self.uid, self.container

    def to_json(self) -> dict[str, Any]:
        found = {
            "uid": self.uid,
            "container": self.container,
            "slot": self.slot,
            "generation": self.generation,
        }
        spent = {} if self.gpu_ms is None else {"gpuMs": self.gpu_ms}
        return {**found, **spent, **({"released": True} if self.released else {})}

    @classmethod
    def from_json(cls, read: Json) -> SlotUse:
        return cls(
            read["uid"],
            read["container"],
            read.get("slot", ""),
            read.get("generation", 0),
            read.get("released", False),
            read.get("gpuMs"),
        )


@dataclass(frozen=True)
class ForeignUsage:
    """What pods that are not ours ask of the node, added up."""

    cpu_milli: int = 0
    memory_bytes: int = 0
    pods: int = 0
    #: Of the node, that they take.
    ports: tuple[HostPort, ...] = ()
    #: What else they ask, by name.
    resources: tuple[tuple[str, int], ...] = ()
    #: By which rules they keep others away.
    apart: tuple[AffinityTerm, ...] = ()

    def to_json(self) -> dict[str, Any]:
        found = {"cpuMilli": self.cpu_milli, "memoryBytes": self.memory_bytes, "pods": self.pods}
        more = {
            "ports": [one._asdict() for one in self.ports],
            "resources": dict(self.resources),
            "apart": [one.to_json() for one in self.apart],
        }
        return {**found, **more}

    @classmethod
    def from_json(cls, read: Json) -> ForeignUsage:
        return cls(
            read.get("cpuMilli", 0),
            read.get("memoryBytes", 0),
            read.get("pods", 0),
            tuple(HostPort(**one) for one in read.get("ports") or ()),
            tuple(sorted((read.get("resources") or {}).items())),
            tuple(AffinityTerm.from_json(one) for one in read.get("apart") or ()),
        )
