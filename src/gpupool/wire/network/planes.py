"""Planes of tenants: the inventory that an admin loads, demands, and whether they are in force."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from gpupool.wire.common import Name, WireModel

PlaneName = Literal["ethernet", "roce", "infiniband", "storage", "management"]
#: A name that is part of a file's name, and of a line of a switch's configuration.
DeviceName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")]
PortName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]{0,30}$")]
#: NVMe Base Specification 2.0, section 4.5: an NVMe qualified name.
Nqn = Annotated[str, Field(pattern=r"^nqn\.[0-9]{4}-[0-9]{2}\.[A-Za-z0-9.:_-]{1,200}$")]
#: One that a machine shows: of any form.
ShownNqn = Annotated[str, Field(max_length=223)]
Guid = Annotated[str, Field(pattern=r"^0x[0-9a-fA-F]{1,16}$")]
Numbers = Annotated[
    str, Field(pattern=r"^(0x[0-9a-fA-F]{1,8}|[0-9]{1,9})-(0x[0-9a-fA-F]{1,8}|[0-9]{1,9})$")
]


class LosslessSettings(WireModel):
    """Settings that switches and adapters share."""

    pfc_priority: int = Field(ge=0, le=7)
    dscp: int = Field(ge=0, le=63)
    ecn: bool = True


class LeafIn(WireModel):
    """A switch that nodes are connected to."""

    name: DeviceName
    asn: int = Field(ge=1, le=4294967295)
    router_id: str = Field(max_length=15, description="address of its VXLAN tunnels")
    prefix: str = Field(max_length=18, description="of the servers behind it, in each VRF")
    bridge: PortName = "bridge"
    lossless: LosslessSettings | None = None


class RailPortIn(WireModel):
    """Where a rail of a node ends."""

    leaf: DeviceName
    port: PortName


class PlaneNodeIn(WireModel):
    """A node of the pool."""

    name: Name
    pod: str = Field("", max_length=63, description="its nodes have each rail on the same leaf")
    rails: list[RailPortIn] = Field([], max_length=64, description="by rail")
    guids: list[Guid] = Field([], max_length=64, description="of its InfiniBand ports")
    nqn: Nqn | None = Field(None, description="of its NVMe host")
    lossless: LosslessSettings | None = None


class SubsystemIn(WireModel):
    """Storage of a tenant."""

    nqn: Nqn
    tenant: Name


class StorageTargetIn(WireModel):
    """A server of NVMe over fabrics."""

    name: DeviceName
    kind: Literal["nvmet", "spdk"] = "nvmet"
    subsystems: list[SubsystemIn] = Field([], max_length=4096)


class PlaneInventory(WireModel):
    """Switches, node ports, storage targets, and the numbers that the pool may give to tenants."""

    leaves: list[LeafIn] = Field([], max_length=1024)
    nodes: list[PlaneNodeIn] = Field([], max_length=16384)
    storage_targets: list[StorageTargetIn] = Field([], max_length=1024)
    vlans: Numbers | None = Field(None, description="for tenants, as 100-199")
    vnis: Numbers | None = Field(None, description="for tenants, as 4001-4100")
    pkeys: Numbers | None = Field(None, description="for tenants, as 0x0010-0x00ff")
    route_target_asn: int = Field(64512, ge=1, le=65535)
    management: list[str] = Field([], max_length=256, description="prefixes closed to tenants")
    lossless: LosslessSettings | None = Field(None, description="that all leaves and nodes share")


class PlaneFinding(WireModel):
    """What is wrong with the RoCE plane of a node."""

    node: str
    text: str


class PlaneInventoryOut(WireModel):
    inventory: PlaneInventory | None = Field(description="null: none was loaded")
    findings: list[PlaneFinding]
    loaded_ns: int | None


class PlaneDemandIn(WireModel):
    """What a tenant demands of a plane. Without a number it gets a free one."""

    vlan: int | None = Field(None, ge=1, le=4094, description="of the RoCE plane (admins)")
    vni: int | None = Field(None, ge=1, le=16777215, description="of the RoCE plane (admins)")
    pkey: int | None = Field(None, ge=1, le=0x7FFE, description="of InfiniBand (admins)")


class PlaneNodeState(WireModel):
    """A plane on one node."""

    node: str
    in_force: bool
    reason: str
    evidence: list[str] = Field(description="what was reported or read")
    seen_ns: int | None = Field(description="when the oldest of it was")


class PlaneOut(WireModel):
    tenant: str
    plane: PlaneName
    vlan: int | None
    vni: int | None
    pkey: int | None
    in_force: bool = Field(description="on each node, and there is one")
    nodes: list[PlaneNodeState]
    created_ns: int


class PlaneNodesIn(WireModel):
    """The nodes of a tenant: no other tenant gets them."""

    nodes: list[Name] = Field(max_length=16384)


class PlaneNodesOut(WireModel):
    tenant: str
    nodes: list[str]


class PlaneFile(WireModel):
    """Configuration of one target."""

    name: str
    hash: str = Field(description="SHA-256 of the text")
    text: str
    is_applied: bool = Field(description="whether this hash was reported last")


class PlaneReportIn(WireModel):
    """What a target has: the hash of a compiled file that was applied, or what was read from it."""

    hash: str | None = Field(None, pattern=r"^[0-9a-f]{64}$")
    text: str | None = Field(None, max_length=4_000_000)


class PlaneEvidenceOut(WireModel):
    name: str
    source: Literal["hash", "text", "agent", "stale"] = Field(
        description="`agent`: read by the agent of a node; `stale`: so, and too long ago to count"
    )
    hash: str
    reporter: str = Field(description="a user or an agent")
    seen_ns: int


class FabricPort(WireModel):
    """An InfiniBand port of a node that has a link."""

    name: str = Field(max_length=80)
    guid: Guid
    keys: list[Annotated[str, Field(pattern=r"^0x[0-9a-fA-F]{1,4}$")]] = Field(
        max_length=1024, description="its partition keys"
    )


class RailInterface(WireModel):
    """An Ethernet interface of a node for RDMA that has a link."""

    name: str = Field(max_length=15)
    vlans: list[int] = Field([], max_length=4094, description="of interfaces on it")
    masters: list[str] = Field([], max_length=16, description="a bond, a bridge or a VRF")


class PlaneReading(WireModel):
    """What the agent of a node reads of planes on its machine."""

    node: Name
    ports: list[FabricPort] = Field([], max_length=64)
    rails: list[RailInterface] = Field([], max_length=64)
    nvme_hosts: list[ShownNqn] = Field([], max_length=64, description="its qualified names")
    nvme_subsystems: list[ShownNqn] = Field(
        [], max_length=4096, description="that it is connected to over fabrics"
    )
