"""Planes, what an admin knows of them, and what tenants demand. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from ipaddress import IPv4Address, IPv4Network
from typing import Final


class Plane(StrEnum):
    """A network that can be divided by tenant."""

    ETHERNET = "ethernet"
    ROCE = "roce"
    INFINIBAND = "infiniband"
    STORAGE = "storage"
    MANAGEMENT = "management"


#: Planes that a node is in for one tenant alone, so an admin gives nodes to tenants.
NODE_PLANES: Final = frozenset({Plane.ROCE, Plane.INFINIBAND, Plane.STORAGE})


#: Planes that hold for jobs in a network of the tenant: a job without one uses that of its node.
NETWORK_PLANES: Final = frozenset({Plane.ETHERNET, Plane.MANAGEMENT})


@dataclass(frozen=True)
class Lossless:
    """Settings that a switch and the adapters behind it must share, or RoCE loses packets.

    Attributes:
        pfc_priority: priority with flow control (IEEE 802.1Qbb), 0 to 7.
        dscp: of RoCE packets, 0 to 63.
        ecn: whether congestion is marked (RFC 3168).
    """

    pfc_priority: int
    dscp: int
    ecn: bool


@dataclass(frozen=True)
class Leaf:
    """A switch that nodes are connected to.

    Attributes:
        prefix: of the servers behind it, the same in the VRF of each tenant.
        bridge: name of its VLAN-aware bridge.
    """

    name: str
    asn: int
    router_id: IPv4Address
    prefix: IPv4Network
    bridge: str
    lossless: Lossless | None = None

    @property
    def gateway(self) -> str:
        """Its own address in the VRF of each tenant, with the prefix length."""
        return f"{self.prefix[1]}/{self.prefix.prefixlen}"


@dataclass(frozen=True)
class RailPort:
    """Where a rail of a node ends."""

    leaf: str
    port: str


@dataclass(frozen=True)
class PlaneNode:
    """A node of the pool, as it is in the inventory.

    Attributes:
        rails: where its compute adapters end, by rail.
        guids: of its InfiniBand ports.
        nqn: of its NVMe host; empty: it has none.
        pod: nodes of one pod have each rail on the same leaf.
    """

    name: str
    rails: tuple[RailPort, ...]
    guids: tuple[int, ...]
    nqn: str
    pod: str
    lossless: Lossless | None = None


@dataclass(frozen=True)
class Subsystem:
    """Storage of a tenant."""

    nqn: str
    tenant: str


@dataclass(frozen=True)
class StorageTarget:
    """A server of NVMe over fabrics: Linux (`nvmet`) or SPDK (`spdk`)."""

    name: str
    kind: str
    subsystems: tuple[Subsystem, ...]


@dataclass(frozen=True)
class Inventory:
    """What an admin has loaded.

    Attributes:
        vlans, vnis, pkeys: numbers that the pool may give to tenants; empty: none.
        route_target_asn: first half of the route targets.
        management: prefixes that no network of a tenant may reach.
    """

    leaves: tuple[Leaf, ...]
    nodes: tuple[PlaneNode, ...]
    targets: tuple[StorageTarget, ...]
    vlans: range
    vnis: range
    pkeys: range
    route_target_asn: int
    management: tuple[IPv4Network, ...]
    lossless: Lossless | None = None

    def list_ports(self, leaf: str) -> Iterator[tuple[PlaneNode, str]]:
        """Yield the nodes with a rail on a leaf, with the port."""
        for node in self.nodes:
            for rail in node.rails:
                if rail.leaf == leaf:
                    yield node, rail.port


@dataclass(frozen=True)
class PlaneDemand:
    """What a tenant demands of one plane.

    Attributes:
        vlan, vni: its numbers on the RoCE plane, else 0.
        pkey: its partition key on the InfiniBand plane, else 0.
    """

    tenant: str
    plane: Plane
    vlan: int = 0
    vni: int = 0
    pkey: int = 0

    @property
    def vrf(self) -> str:
        """Name of its VRF: an interface of Linux has at most 15 characters, a tenant has more."""
        return f"vrf{self.vni}"


@dataclass(frozen=True)
class Evidence:
    """The configuration that a target has.

    Attributes:
        target: name of the compiled file.
        text: the configuration, as it was applied or read.
        source: how the pool knows of it: `hash`, `text`, `agent`, or `stale` where an agent read it too long ago.
        reporter: the user or the agent that reported it.
    """

    target: str
    text: str
    source: str
    reporter: str
    seen_ns: int


@dataclass(frozen=True)
class PlaneState:
    """Whether a plane of a tenant is in force on a node.

    Attributes:
        reason: one sentence; why not, or what says so.
        targets: names of the evidence that decides.
        seen_ns: when the oldest of it was seen; None where nothing was.
    """

    tenant: str
    plane: Plane
    node: str
    is_in_force: bool
    reason: str
    targets: tuple[str, ...] = ()
    seen_ns: int | None = None


@dataclass(frozen=True)
class EngineState:
    """What the engine of networks is on a node."""

    state: str
    reason: str
    seen_ns: int | None


@dataclass(frozen=True)
class PlaneFacts:
    """All that decides which planes are in force.

    Attributes:
        inventory: None until an admin loads one.
        owners: tenant by node, for nodes that an admin gave to one.
        evidence: by target.
        pool_nodes: names of the pool's nodes.
        engine: by node, for those with a part of the engine of networks.
        default_networks: name by tenant.
        exposures: ways from networks to management prefixes, by tenant.
        guests: number of jobs of other tenants on nodes that an admin gave to one.
    """

    inventory: Inventory | None
    demands: tuple[PlaneDemand, ...]
    owners: Mapping[str, str]
    evidence: Mapping[str, Evidence]
    pool_nodes: tuple[str, ...]
    engine: Mapping[str, EngineState]
    default_networks: Mapping[str, str]
    exposures: Mapping[str, tuple[str, ...]]
    guests: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether planes decide nothing in this pool."""
        return not self.demands and not self.owners and not self.evidence

    def list_demands(self, plane: Plane) -> list[PlaneDemand]:
        return [demand for demand in self.demands if demand.plane is plane]
