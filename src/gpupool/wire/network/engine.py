"""What agents do about the engine of networks, and what they report of it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gpupool.wire.common import WireModel
from gpupool.wire.network.databases import (
    DatabaseServerReport,
    DatabaseServerWork,
)
from gpupool.wire.network.firewall import FirewallWork
from gpupool.wire.network.floating_ips import FloatingIpReport, FloatingIpWork
from gpupool.wire.network.flows import FlowReport
from gpupool.wire.network.gateways import (
    GatewayDrillReport,
    GatewayDrillWork,
    GatewayReport,
    GatewayWork,
)
from gpupool.wire.network.lines import LineReport, LineWork
from gpupool.wire.network.mirrors import MirrorReading, MirrorWork
from gpupool.wire.network.networks import (
    EngineCertificate,
    ForwardWork,
    ProxyReport,
    ProxyWork,
)
from gpupool.wire.network.promises import (
    LimitReading,
    LimitWork,
    NetworkVerificationReport,
    NetworkVerificationWork,
)
from gpupool.wire.network.zones import NetworkZoneReport

#: Proxies in one report, at most. The agent leaves out the others and counts them.
MOST_PROXIES = 4096


class NetworkEngineWork(WireModel):
    """What an agent has to do about the engine on its machine."""

    want: Literal["run", "stop"]
    role: Literal["centre", "member"] = "centre"
    chassis: str = Field("gpupool", description="how OVN knows the machine")
    members: list[str] = Field(
        default_factory=list, description="for the centre: how OVN knows the other machines"
    )
    southbound: str = Field(
        "", description="where it connects; empty for a centre that has the databases alone"
    )
    is_external: bool = Field(
        False,
        description="the databases are those of an OVN with other users: the agent changes and "
        "removes nothing in them but its own chassis",
    )
    cluster: int = Field(
        0, description="number of the cluster of databases that it connects to; 0: no cluster"
    )
    databases: DatabaseServerWork | None = Field(
        None, description="its part in a cluster of databases; null: none"
    )
    certificate: EngineCertificate | None = Field(None, description="null: a pool of one machine")
    mtu: int = Field(0, description="largest packet of a network of the pool")
    uplink: bool = Field(False, description="some network has a gateway")
    uplink6: bool = Field(False, description="some gateway carries IPv6 too")
    forwards: list[ForwardWork] = Field(default_factory=list)
    firewall: list[FirewallWork] = Field(default_factory=list)
    floating_ips: list[FloatingIpWork] = Field(default_factory=list)
    proxies: list[ProxyWork] = Field(default_factory=list)
    line_interface: str = ""
    lines: list[LineWork] = Field(default_factory=list)
    limits: list[LimitWork] = Field(default_factory=list)
    flows: bool = Field(False, description="some network has a flow log")
    mirrors: list[MirrorWork] = Field(default_factory=list)
    verification: NetworkVerificationWork | None = None
    gateway: GatewayWork | None = Field(None, description="null: no machine of a pair of gateways")
    drill: GatewayDrillWork | None = None
    zones: list[int] = Field(
        default_factory=list, description="zones above 0; each is an engine of its own"
    )


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
    databases: DatabaseServerReport | None = None
    lines: list[LineReport] = Field(default_factory=list)
    floating_ips: list[FloatingIpReport] = Field(
        default_factory=list, max_length=65536, description="of a machine that has the gateways now"
    )
    proxies: list[ProxyReport] = Field(default_factory=list, max_length=MOST_PROXIES)
    relay_socket: str = Field("", max_length=200)
    missing_proxy: str = Field(
        "", max_length=80, description="the program that its machine lacks for load balancers"
    )
    limits: list[LimitReading] | None = Field(
        None, max_length=100_000, description="every limit that it has; null: no news"
    )
    mirrors: list[MirrorReading] = Field(default_factory=list, max_length=100_000)
    flows: list[FlowReport] = Field(
        default_factory=list, description="each once; the others of a report are the state"
    )
    verification: NetworkVerificationReport | None = Field(
        None, description="the last one that was done"
    )
    gateway: GatewayReport | None = Field(None, description="null: no machine of a pair")
    drill: GatewayDrillReport | None = Field(None, description="the last one that was done")
    zones: list[NetworkZoneReport] = Field(default_factory=list, max_length=10_000)
    in_kbit: int | None = Field(None, description="bandwidth towards it; null: no limit")
    out_kbit: int | None = None
