"""Reads and writes `GpuNode.status`: cards, slots in use, and the sum of foreign pods' requests.

Shapes and their JSON. Sizes are bytes, compute is thousandths of a card.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from gpupool.kubernetes.resources.gpu_time import GpuTime
from gpupool.kubernetes.resources.pod_constraints import AffinityTerm, HostPort
from gpupool.model.catalogue import vendor_of
from gpupool.model.device import DeviceHealth
from gpupool.model.enforcement import FenceLevel
from gpupool.model.partition import ForeignPiece, PartitionProfile, PartitionSlot

Json = Mapping[str, Any]
#: Profiles of different boards that are remembered; a board has about ten.
KINDS = 1024
NVIDIA = "nvidia"
#: Pieces of one card that other tools made; more are left out of a report.
MOST_PIECES = 64
#: Parts of what foreign pods ask of a node. Their tenants choose these, and the API server would
#: refuse a whole report for one part too many. kube-scheduler knows what is left out.
MOST_PORTS = 1024
MOST_RESOURCES = 128
MOST_RULES = 256
#: Namespaces of a rule, and values of one requirement.
MOST_NAMES = 256
MOST_REQUIREMENTS = 64
#: Characters of one rule: an object of 1.5 MiB is refused by etcd, and a pod may have that much.
MOST_RULE_TEXT = 2048
#: The greatest number of the schema (int64).
MOST_SUM = (1 << 63) - 1


@dataclass(frozen=True)
class ShareIsolation:
    """What a node enforces in a share of a card.

    Attributes:
        fence: the level of the fence.
        absence: why the card's driver does not limit the memory of containers; empty if it does.
    """

    fence: FenceLevel
    absence: str = ""

    def to_json(self) -> dict[str, str]:
        """Return it as a card has it."""
        found = {"fence": self.fence.value}
        # Texts of a GpuNode's status hold 200 characters (its schema).
        return {**found, "noMemoryLimit": self.absence[:200]} if self.absence else found

    @classmethod
    def from_json(cls, read: Json) -> ShareIsolation:
        return cls(FenceLevel(read["fence"]), read.get("noMemoryLimit", ""))


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
    #: What a card in partition mode can be cut into; None for a card that is not in this mode.
    profiles: tuple[PartitionProfile, ...] | None = None
    #: What other tools have made of it.
    foreign: tuple[ForeignPiece, ...] = ()
    #: None for a card in partition mode, of another vendor, or of an agent that does not report it.
    share: ShareIsolation | None = None

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "uuid": self.uuid,
            "index": self.index,
            "model": self.model,
            "memoryBytes": self.memory_bytes,
            "product": self.product,
            "health": self.health.value,
            "simulated": self.simulated,
            "vendor": self.vendor,
        }
        if self.profiles is not None:
            found["profiles"] = [_profile_to_json(one) for one in self.profiles]
        if self.foreign:
            found["foreign"] = [_piece_to_json(one) for one in self.foreign]
        if self.share is not None:
            found["share"] = self.share.to_json()
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
            profiles=_read_profiles(read.get("profiles")),
            foreign=tuple(_read_piece(one) for one in read.get("foreign") or ()),
            share=ShareIsolation.from_json(read["share"]) if read.get("share") else None,
        )


def _piece_to_json(one: ForeignPiece) -> dict[str, Any]:
    # Texts of a GpuNode's status hold 200 characters (its schema).
    found: dict[str, Any] = {"text": one.text[:200]}
    if one.slot is not None:
        found["profile"] = one.slot.profile
        found["start"] = one.slot.start
        found["size"] = one.slot.size
    return found


def _read_piece(read: Json) -> ForeignPiece:
    profile = read.get("profile")
    slot = None if profile is None else PartitionSlot(read["start"], read["size"], profile)
    return ForeignPiece(read["text"], slot)


def _profile_to_json(one: PartitionProfile) -> dict[str, Any]:
    # The driver's number of the profile is left out: only the node's agent calls the driver.
    return {
        "name": one.name,
        "size": one.size,
        "memoryBytes": one.memory_bytes,
        "starts": list(one.starts),
        "maxCount": one.max_count,
        "gpuMilli": one.gpu_milli,
        "media": one.media,
    }


@lru_cache(KINDS)
def _build_profile(
    name: str, size: int, memory_bytes: int, starts: tuple[int, ...], rest: tuple[int, int, bool]
) -> PartitionProfile:
    # Cached: a status is read at each of its changes, and all cards of a model are alike.
    max_count, gpu_milli, media = rest
    return PartitionProfile(name, size, memory_bytes, starts, max_count, gpu_milli, media=media)


def _read_profiles(read: Sequence[Json] | None) -> tuple[PartitionProfile, ...] | None:
    if read is None:
        return None
    found = []
    for one in read:
        rest = (one["maxCount"], one["gpuMilli"], bool(one.get("media", False)))
        found.append(
            _build_profile(one["name"], one["size"], one["memoryBytes"], tuple(one["starts"]), rest)
        )
    return tuple(found)


@dataclass(frozen=True)
class SlotUse:
    """What the agent did for one container: the slot it came by, and the generation of the entry
    that it prepared.

    `released`: nothing of the container runs on the cards any more. `spent`: GPU time that it has
    used, as of the last report; None where nothing counts it. `memory_level`: how the driver holds
    its memory beside the fence; None where it does not.
    """

    uid: str
    container: str
    slot: str = ""
    generation: int = 0
    released: bool = False
    spent: GpuTime | None = None
    memory_level: FenceLevel | None = None

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
        spent = {} if self.spent is None else self.spent.to_json()
        level = {} if self.memory_level is None else {"memoryLevel": self.memory_level.value}
        return {**found, **spent, **level, **({"released": True} if self.released else {})}

    @classmethod
    def from_json(cls, read: Json) -> SlotUse:
        return cls(
            read["uid"],
            read["container"],
            read.get("slot", ""),
            read.get("generation", 0),
            read.get("released", False),
            GpuTime.from_json(read),
            FenceLevel(read["memoryLevel"]) if "memoryLevel" in read else None,
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

    def limit_parts(self) -> ForeignUsage:
        """Return what of it a report may have."""
        rules = filter(_is_reportable, self.apart)
        return ForeignUsage(
            min(self.cpu_milli, MOST_SUM),
            min(self.memory_bytes, MOST_SUM),
            self.pods,
            self.ports[:MOST_PORTS],
            tuple((name, min(size, MOST_SUM)) for name, size in self.resources[:MOST_RESOURCES]),
            tuple(rules)[:MOST_RULES],
        )

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


def _is_reportable(rule: AffinityTerm) -> bool:
    for selector in (rule.selector, rule.spaces):
        requirements = () if selector is None else selector.requirements
        if len(requirements) > MOST_REQUIREMENTS:
            return False
        if any(len(values) > MOST_NAMES for _, _, values in requirements):
            return False
    if len(rule.namespaces) > MOST_NAMES:
        return False
    return len(json.dumps(rule.to_json())) <= MOST_RULE_TEXT
