"""Networks of tenants: what a client asks for, what it gets, what agents serve and report."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gpupool.wire.common import Name, WireModel
from gpupool.wire.network.databases import (
    DatabaseServerOut,
)
from gpupool.wire.network.external import ExternalOvnIn, ExternalOvnOut
from gpupool.wire.network.gateways import (
    GatewayPairOut,
)
from gpupool.wire.network.zones import NetworkZoneOut

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
    address6: str | None = Field(None, max_length=60, description="as `address`, of IPv6")


class SubnetIn(WireModel):
    """A subnet of a network."""

    name: Name = "default"
    cidr: str = Field(max_length=60, description="IPv4 prefix of 16 to 28 bits: 10.0.0.0/24")
    cidr6: str | None = Field(
        None,
        max_length=60,
        description="IPv6 prefix of 64 bits in fd00::/8, or auto: one of the network's own; "
        "null: no IPv6",
    )


class NetworkIn(WireModel):
    """A virtual private cloud (VPC) of a tenant."""

    name: Name
    subnets: list[SubnetIn] = Field(min_length=1, max_length=16)
    mtu: int = Field(1442, ge=576, le=9000, description="largest packet inside it, in bytes")
    tenant: Name | None = Field(None, description="for another tenant (admins)")
    zone: int | None = Field(None, ge=0, description="a zone that is used; null: any")


class SubnetOut(WireModel):
    id: str
    name: str
    cidr: str
    gateway: str
    used: int = Field(description="addresses that jobs have")
    free: int
    cidr6: str | None = Field(None, description="null: no IPv6")
    gateway6: str | None = Field(None, description="IPv6 address of the router")


class NetworkPortOut(WireModel):
    """A job in a network."""

    job: str
    job_name: str
    address: str
    mac: str
    subnet: str
    dns_name: str
    security_groups: list[str] = Field(default_factory=list, description="names")
    address6: str | None = Field(None, description="null: its subnet has no IPv6")


class GatewayOut(WireModel):
    """The way of a network to what lies outside of the pool."""

    state: Literal["starting", "ready"]
    address: str | None = Field(None, description="of its packets on the machine's uplink")
    address6: str | None = Field(None, description="as `address`; null: it carries IPv4 alone")


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
    zone: int = Field(0, description="networks of one zone can be peered")
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
    other_prefixes: list[str] = Field(
        default_factory=list, description="which packets reach, or will once it is accepted"
    )
    other_new_prefixes: list[str] = Field(
        default_factory=list,
        description="of subnets that the other network got later: accept again to reach them",
    )
    own_new_prefixes: list[str] = Field(
        default_factory=list, description="which the owner of the other network has yet to accept"
    )
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
    databases: list[DatabaseServerOut] = Field(
        default_factory=list, description="servers of a cluster; empty: the centre has them alone"
    )
    networks: int = 0
    jobs: int = Field(0, description="jobs in networks now")
    forward_ports: str = Field("", description="ports of its machine for tenants; empty: none")
    gateway_ipv6: bool = Field(False, description="whether gateways carry IPv6 too")
    relay_socket: str = Field(
        "", description="of an agent before 0.3: where users of its machine reach ports of jobs"
    )
    floating_ips: str = Field("", description="prefix outside for floating IPs; empty: none")
    line_interface: str = Field("", description="its interface for dedicated lines; empty: none")
    line_vlans: str = Field("", description="VLANs on it for tenants, as 200-299; empty: none")
    gateways: GatewayPairOut | None = Field(None, description="null: the centre has the gateways")
    zone_size: int = Field(0, description="networks of a zone at most; 0: the engine is off")
    zones: list[NetworkZoneOut] = Field(
        default_factory=list, description="each with databases and a switch of its own"
    )
    ovn: ExternalOvnOut | None = Field(None, description="null: databases of the pool's own")


class NetworkEngineIn(WireModel):
    """Settings of the engine. What is null stays as it is."""

    forward_ports: str | None = Field(
        None,
        pattern=r"^([0-9]{1,5}-[0-9]{1,5})?$",
        description="ports of the pool's machine that tenants may forward, as 30000-30099; "
        "empty: none",
    )
    floating_ips: str | None = Field(
        None,
        max_length=43,
        description="prefix outside for floating IPs of tenants, as 203.0.113.32/28; empty: none",
    )
    node: Name | None = Field(None, description="the machine that becomes the centre")
    databases: list[Name] | None = Field(
        None,
        max_length=16,
        description="3 or 5 machines that have the databases as a cluster, or the centre alone",
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
    zone_size: int | None = Field(
        None,
        ge=1,
        le=10_000,
        description="networks of a zone at most; for networks that come later",
    )
    ovn: ExternalOvnIn | None = Field(
        None, description="join an OVN that is there; only where the engine does not run yet"
    )
    gateway_ipv6: bool | None = Field(
        None, description="whether gateways of networks with IPv6 carry it too"
    )


class ForwardWork(WireModel):
    """A port of the machine whose packets go to the gateway of a network."""

    protocol: Literal["tcp", "udp"]
    port: int
    gateway: str
    gateway6: str | None = Field(None, description="null: the gateway carries IPv4 alone")


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
    address6: str | None = Field(None, description="of a /64; null: no IPv6")
    gateway6: str | None = None
    zone: int = Field(0, description="whose switch it is plugged into")
    has_outside6: bool = Field(
        False, description="the network leads IPv6 out of unique local addresses"
    )


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
    is_paired: bool = Field(False, description="another machine has a proxy of the same balancer")


class ProxyServerReport(WireModel):
    """A job behind a proxy, as HAProxy sees it."""

    id: str = Field(max_length=16)
    state: Literal["up", "down", "draining", "unknown"]
    check: str = Field("", max_length=80)
    sessions: int = 0
    requests: int = 0


#: Jobs in the report of one proxy, at most. The agent leaves out the others and counts them.
MOST_SERVERS = 4096


class ProxyReport(WireModel):
    """How a proxy is."""

    id: str = Field(max_length=16)
    state: Literal["ready", "failed"]
    reason: str = Field("", max_length=400)
    servers: list[ProxyServerReport] = Field(default_factory=list, max_length=MOST_SERVERS)
    is_serving: bool = Field(True, description="whether new connections go to it")
