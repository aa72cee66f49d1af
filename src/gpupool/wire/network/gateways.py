"""The pair of machines of gateways: what an admin asks for, what agents do and report."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gpupool.wire.common import Name, WireModel

GatewayState = Literal["starting", "active", "standby", "away"]
DrillState = Literal["running", "done", "failed"]


class GatewayPairIn(WireModel):
    """Two machines that serve the gateways of all networks, one at a time."""

    nodes: list[Name] = Field(
        min_length=2, max_length=2, description="the first is active at first"
    )
    address: str = Field(
        max_length=15,
        description="IPv4 address outside that the active machine has: free, and of a prefix in "
        "which both machines have addresses of their own",
    )
    upstream: str | None = Field(
        None,
        max_length=15,
        description="IPv4 address of that prefix that each machine watches, as a router's; null: "
        "the carrier alone",
    )


class GatewayMachineOut(WireModel):
    """A machine of the pair."""

    node: str
    state: Literal["starting", "active", "standby", "away", "silent"]
    reason: str = ""
    is_drained: bool = False
    since_ns: int | None = None
    balancers: int = Field(0, description="load balancers of HTTP whose new connections it gets")


class GatewayPairOut(WireModel):
    """The pair, and the last move between its machines."""

    address: str
    upstream: str | None = None
    active: str | None = Field(None, description="node that carries the gateways; null: not known")
    active_since_ns: int | None = None
    moved_from: str | None = Field(None, description="node before; null: none was moved yet")
    move_reason: str = ""
    machines: list[GatewayMachineOut] = Field(default_factory=list)


class GatewayMove(WireModel):
    """A move of gateways that was measured."""

    origin: Name = Field(description="node that was active before")
    target: Name
    outage_seconds: float = Field(ge=0, description="the longest time without an answer")
    answers: int = Field(ge=0, description="of probes, 20 ms apart")


class GatewayDrillOut(WireModel):
    """Gateways that were moved on purpose, and back, with probes through one of them."""

    id: str
    network: str
    state: DrillState
    reason: str = ""
    outage_seconds: float | None = Field(None, description="the longest of its moves")
    moves: list[GatewayMove] = Field(default_factory=list)
    created_ns: int
    finished_ns: int | None = None


class GatewayWork(WireModel):
    """What a machine of the pair has to do beside what every gateway does."""

    address: str
    upstream: str | None = None
    prefix: str = Field("", description="of the uplink; empty: it chooses one")
    peer: str = Field(description="how OVN knows the other machine")
    peer_node: Name
    peer_tunnel: str = Field("", description="address of its tunnels; empty: not known yet")
    northbound: str = Field("", description="over TLS; empty: on this machine")
    is_first: bool = False
    is_drained: bool = False


class GatewayReport(WireModel):
    """What the watchdog of a machine of the pair says."""

    state: GatewayState
    reason: str = Field("", max_length=400)
    since_ns: int | None = None
    balancers: int = Field(0, ge=0, description="load balancers of HTTP that answer there")


class GatewayDrillWork(WireModel):
    """A drill that the centre does: it probes from a port of the network."""

    id: str
    port: str
    address: str
    prefix: int
    gateway: str
    mac: str
    mtu: int
    target: str = Field(description="address outside that answers pings")
    origin: Name = Field(description="node that was active when the drill was asked for")
    northbound: str = Field("", description="over TLS; empty: on this machine")
    chassis: dict[str, str] = Field(description="how OVN knows the machines, by node")


class GatewayDrillReport(WireModel):
    """What a drill found; `reason` where it did not move anything, or not back."""

    id: str = Field(max_length=16)
    reason: str = Field("", max_length=400)
    moves: list[GatewayMove] = Field(default_factory=list, max_length=8)
