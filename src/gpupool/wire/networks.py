"""Networks of tenants: what a client asks for, what it gets, what agents serve and report."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gpupool.wire.common import Name, WireModel
from gpupool.wire.lines import LineReport, LineWork

EngineState = Literal["off", "starting", "ready", "failed", "stopping"]


class NetworkJoinIn(WireModel):
    """The network that the jobs of a submission join."""

    name: Name = Field(description="`none`: no network, whatever the tenant's default is")
    security_groups: list[Name] = Field(
        default_factory=list, max_length=16, description="names of groups of the network"
    )


class SubnetIn(WireModel):
    """A subnet of a network."""

    name: Name = "default"
    cidr: str = Field(max_length=60, description="IPv4 prefix of 16 to 28 bits: 10.0.0.0/24")


class NetworkIn(WireModel):
    """A virtual private cloud (VPC) of a tenant."""

    name: Name
    subnets: list[SubnetIn] = Field(min_length=1, max_length=16)
    mtu: int = Field(1442, ge=576, le=9000, description="largest packet inside it, in bytes")
    tenant: Name | None = Field(None, description="for another tenant (admins)")


class SubnetOut(WireModel):
    id: str
    name: str
    cidr: str
    gateway: str
    used: int = Field(description="addresses that jobs have")
    free: int


class NetworkPortOut(WireModel):
    """A job in a network."""

    job: str
    job_name: str
    address: str
    mac: str
    subnet: str
    dns_name: str
    security_groups: list[str] = Field(default_factory=list, description="names")


class GatewayOut(WireModel):
    """The way of a network to what lies outside of the pool."""

    state: Literal["starting", "ready"]
    address: str | None = Field(None, description="of its packets on the machine's uplink")


class NetworkOut(WireModel):
    id: str
    name: str
    tenant: str
    mtu: int
    domain: str = Field(description="DNS domain of the names of its jobs")
    subnets: list[SubnetOut]
    ports: list[NetworkPortOut] = Field(
        default_factory=list, description="jobs in it; empty in lists"
    )
    gateway: GatewayOut | None = Field(None, description="null: its jobs reach nothing outside")
    is_default: bool = Field(False, description="jobs of its tenant that name no network join it")
    created_ns: int


class PeeringIn(WireModel):
    """A peering that the owner of a network asks the owner of another one for."""

    accepter: str = Field(max_length=16, description="id of the other network: its owner tells it")


class PeeringOut(WireModel):
    """A link between two networks. Packets pass once the owner of the other one has accepted."""

    id: str
    state: Literal["requested", "accepted"]
    network: str = Field(description="the caller's network")
    is_requester: bool = Field(description="whether the caller's network asked for it")
    other: str = Field(description="id of the other network")
    other_name: str | None = Field(None, description="null: its owner has not accepted yet")
    other_tenant: str | None = None
    other_prefixes: list[str] = Field(default_factory=list)
    created_ns: int
    accepted_ns: int | None = None


class ReachOut(WireModel):
    """Whether a job reaches a target, by the networks as they are wanted."""

    network: str
    source: str
    target: str
    is_reached: bool | None = Field(description="null: another owner, or what is outside, decides")
    object: str = Field(description="what decides")
    reason: str
    hint: str = Field("", description="the command that changes it")


class NetworkEngineOut(WireModel):
    """The engine that carries networks."""

    state: EngineState
    reason: str = ""
    node: str | None = Field(None, description="the node that runs its databases")
    networks: int = 0
    jobs: int = Field(0, description="jobs in networks now")
    forward_ports: str = Field("", description="ports of its machine for tenants; empty: none")
    line_interface: str = Field("", description="its interface for dedicated lines; empty: none")
    line_vlans: str = Field("", description="VLANs on it for tenants, as 200-299; empty: none")


class NetworkEngineIn(WireModel):
    """Settings of the engine. What is null stays as it is."""

    forward_ports: str | None = Field(
        None,
        pattern=r"^([0-9]{1,5}-[0-9]{1,5})?$",
        description="ports of the pool's machine that tenants may forward, as 30000-30099; "
        "empty: none",
    )
    line_interface: str | None = Field(
        None,
        pattern=r"^([A-Za-z0-9][A-Za-z0-9_.-]{0,14})?$",
        description="interface of the pool's machine for dedicated lines, which becomes the "
        "pool's alone; empty: none",
    )
    line_vlans: str | None = Field(
        None,
        pattern=r"^([0-9]{1,4}(-[0-9]{1,4})?)?$",
        description="VLANs of that interface that tenants may take, as 200-299; empty: none",
    )


class ForwardWork(WireModel):
    """A port of the machine whose packets go to the gateway of a network."""

    protocol: Literal["tcp", "udp"]
    port: int
    gateway: str


class NetworkEngineWork(WireModel):
    """What an agent has to do about the engine on its machine."""

    want: Literal["run", "stop"]
    uplink: bool = Field(False, description="some network has a gateway")
    forwards: list[ForwardWork] = Field(default_factory=list)
    line_interface: str = ""
    lines: list[LineWork] = Field(default_factory=list)


class NetworkEngineReport(WireModel):
    """What an agent says of the engine on its machine. `northbound` is where its database is."""

    state: Literal["starting", "ready", "failed", "stopped"]
    reason: str = Field("", max_length=400)
    northbound: str = Field("", max_length=200)
    uplink: str = Field("", max_length=18, description="its prefix, where one is set up")
    lines: list[LineReport] = Field(default_factory=list)


class PortWork(WireModel):
    """The attachment of a job to a network."""

    id: str
    network: str
    address: str
    prefix: int
    gateway: str
    mac: str
    mtu: int
    domain: str
    dns_name: str
    has_gateway: bool = Field(False, description="it reaches the machine's name servers")
