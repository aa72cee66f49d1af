"""Networks of tenants: what a client asks for, what it gets, what agents serve and report."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gpupool.wire.common import Name, WireModel
from gpupool.wire.network.firewall import FirewallWork
from gpupool.wire.network.lines import LineReport, LineWork
from gpupool.wire.network.promises import (
    LimitReading,
    LimitWork,
    NetworkVerificationReport,
    NetworkVerificationWork,
)

EngineState = Literal["off", "starting", "ready", "failed", "stopping"]
MachineState = Literal["starting", "ready", "failed", "stopping", "silent"]


class NetworkJoinIn(WireModel):
    """The network that the jobs of a submission join."""

    name: Name = Field(description="`none`: no network, whatever the tenant's default is")
    security_groups: list[Name] = Field(
        default_factory=list, max_length=16, description="names of groups of the network"
    )
    address: str | None = Field(
        None, max_length=60, description="of the network, for one job alone; null: a free one"
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


class NetworkMachineOut(WireModel):
    """A machine of the engine."""

    node: str
    role: Literal["centre", "member"] = Field(description="the centre has the databases")
    state: MachineState
    reason: str = ""
    tunnel_address: str | None = Field(None, description="null: a pool of one machine has none")
    mtu: int | None = Field(None, description="largest packet of a network that it carries")
    datapath: str = Field("", description="system: the kernel's; netdev: a program's")
    version: str = Field("", description="of OVN")


class NetworkEngineOut(WireModel):
    """The engine that carries networks."""

    state: EngineState
    reason: str = ""
    node: str | None = Field(None, description="the node that runs its databases")
    machines: list[NetworkMachineOut] = Field(default_factory=list)
    networks: int = 0
    jobs: int = Field(0, description="jobs in networks now")
    forward_ports: str = Field("", description="ports of its machine for tenants; empty: none")
    relay_socket: str = Field(
        "", description="on its machine, where users reach ports of their jobs; empty: not known"
    )
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
    node: Name | None = Field(None, description="the machine that becomes the centre")
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


class EngineCertificate(WireModel):
    """A machine's certificate for the databases (PEM), its key, and the authorities to trust."""

    certificate: str
    private_key: str
    trusted: str


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
    in_kbit: int | None = Field(None, description="bandwidth towards it; null: no limit")
    out_kbit: int | None = None


class ProxyServerWork(WireModel):
    """A job behind a proxy."""

    id: str
    address: str
    port: int
    is_draining: bool = False


class ProxyRouteWork(WireModel):
    """Requests and the jobs that answer them."""

    host: str | None = None
    path: str = "/"
    servers: list[ProxyServerWork] = Field(default_factory=list)


class ProxyWork(WireModel):
    """A proxy that the agent runs. Only agents and admins of the pool read it."""

    port: PortWork
    listen_port: int
    https_port: int | None = None
    certificate: str | None = Field(None, repr=False)
    redirects: bool = False
    is_sticky: bool = False
    check_path: str | None = None
    drain_seconds: int = 10
    routes: list[ProxyRouteWork] = Field(default_factory=list)


class ProxyServerReport(WireModel):
    """A job behind a proxy, as HAProxy sees it."""

    id: str = Field(max_length=16)
    state: Literal["up", "down", "draining", "unknown"]
    check: str = Field("", max_length=80)
    sessions: int = 0
    requests: int = 0


class ProxyReport(WireModel):
    """How a proxy is."""

    id: str = Field(max_length=16)
    state: Literal["ready", "failed"]
    reason: str = Field("", max_length=400)
    servers: list[ProxyServerReport] = Field(default_factory=list, max_length=4096)


class NetworkEngineWork(WireModel):
    """What an agent has to do about the engine on its machine."""

    want: Literal["run", "stop"]
    role: Literal["centre", "member"] = "centre"
    chassis: str = Field("gpupool", description="how OVN knows the machine")
    members: list[str] = Field(
        default_factory=list, description="for the centre: how OVN knows the other machines"
    )
    southbound: str = Field("", description="for a member: where it connects")
    certificate: EngineCertificate | None = Field(None, description="null: a pool of one machine")
    mtu: int = Field(0, description="largest packet of a network of the pool")
    uplink: bool = Field(False, description="some network has a gateway")
    forwards: list[ForwardWork] = Field(default_factory=list)
    firewall: list[FirewallWork] = Field(default_factory=list)
    proxies: list[ProxyWork] = Field(default_factory=list)
    line_interface: str = ""
    lines: list[LineWork] = Field(default_factory=list)
    limits: list[LimitWork] = Field(default_factory=list)
    verification: NetworkVerificationWork | None = None


class NetworkEngineReport(WireModel):
    """What an agent says of the engine on its machine. `northbound` is where its database is."""

    state: Literal["starting", "ready", "failed", "stopped"]
    reason: str = Field("", max_length=400)
    northbound: str = Field("", max_length=200)
    uplink: str = Field("", max_length=18, description="its prefix, where one is set up")
    tunnel: str = Field("", max_length=45, description="address of its tunnels")
    mtu: int = Field(0, description="largest packet of a network that it carries; 0: any")
    datapath: str = Field("", max_length=16)
    version: str = Field("", max_length=40)
    northbound_tls: str = Field("", max_length=200)
    southbound: str = Field("", max_length=200)
    lines: list[LineReport] = Field(default_factory=list)
    proxies: list[ProxyReport] = Field(default_factory=list, max_length=4096)
    relay_socket: str = Field("", max_length=200)
    missing_proxy: str = Field(
        "", max_length=80, description="the program that its machine lacks for load balancers"
    )
    limits: list[LimitReading] | None = Field(
        None, max_length=100_000, description="every limit that it has; null: no news"
    )
    verification: NetworkVerificationReport | None = Field(
        None, description="the last one that was done"
    )
    in_kbit: int | None = Field(None, description="bandwidth towards it; null: no limit")
    out_kbit: int | None = None
