"""What networks promise: bandwidth limits, and verifications that prove all promises on the spot.

What tenants ask for and get, and what agents do and report."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gpupool.wire.common import Name, WireModel

#: 1 Mbit/s to 100 Gbit/s, in kbit/s.
LEAST_KBIT = 1000
MOST_KBIT = 100_000_000


class BandwidthIn(WireModel):
    """Bandwidth for each direction, in kbit/s. `in` is towards the job or the network."""

    in_kbit: int | None = Field(
        None, ge=LEAST_KBIT, le=MOST_KBIT, description="towards the job; null: no limit"
    )
    out_kbit: int | None = Field(
        None, ge=LEAST_KBIT, le=MOST_KBIT, description="away from the job; null: no limit"
    )


class BandwidthLimitIn(BandwidthIn):
    """A limit of a network. The same subject again replaces it."""

    subject: Literal["port", "gateway"] = "port"
    target: Name | None = Field(
        None, description="a job, an array or a gang; null: every port that has none of its own"
    )


class BandwidthLimitOut(WireModel):
    id: str
    network: str
    subject: Literal["port", "gateway"]
    target: str | None = Field(description="null: every port, or the gateway")
    in_kbit: int | None
    out_kbit: int | None
    created_ns: int


class DirectionOut(WireModel):
    """One direction of a port or a gateway."""

    kbit: int | None = Field(description="that holds for it, in kbit/s; null: no limit")
    state: Literal["none", "set", "verified", "not enforced"]
    reason: str = Field("", description="why it is not enforced")
    measured_kbit: int | None = Field(None, description="what `network verify` measured")


class LimitedPortOut(WireModel):
    """A port or a gateway for which some limit holds, with what the switch was read to have."""

    subject: Literal["port", "gateway"]
    name: str = Field(description="DNS name of the job; empty: the gateway")
    address: str
    inward: DirectionOut
    outward: DirectionOut


class BandwidthLimitsOut(WireModel):
    """The limits of a network, and how each port and the gateway stand."""

    limits: list[BandwidthLimitOut]
    port_cap: BandwidthIn = Field(description="what an admin lets each port have at most")
    gateway_cap: BandwidthIn = Field(description="what an admin lets the gateway have at most")
    states: list[LimitedPortOut]


class LimitWork(WireModel):
    """A limit that an agent enforces. `key` is the id of a port or of a network (its gateway)."""

    key: str
    subject: Literal["port", "gateway"]
    in_kbit: int | None = None
    out_kbit: int | None = None
    zone: int = Field(0, description="whose switch enforces it")


class LimitReading(WireModel):
    """What an agent has read back from its switch and its kernel."""

    key: str = Field(max_length=16)
    in_kbit: int | None = Field(None, description="the limit in force; null: none")
    out_kbit: int | None = None
    in_reason: str = Field("", max_length=200)
    out_reason: str = Field("", max_length=200)


class NetworkVerificationIn(WireModel):
    """Proves on the spot that networks keep what they promise."""

    network: Name | None = Field(None, description="null: every network of the tenant")
    tenant: Name | None = Field(None, description="of another tenant; null: all for an admin")


class NetworkCheck(WireModel):
    """One promise. `kept` is null where it could not be tested; `reason` says why."""

    name: str = Field(max_length=120, description="as isolation/udp, limit/in/lab/train, drift")
    kept: bool | None
    measured: str = Field("", max_length=200)
    reason: str = Field("", max_length=400)


class NetworkVerificationOut(WireModel):
    id: str
    state: Literal["running", "done", "failed"]
    reason: str = Field("", description="why it failed")
    network: str | None = Field(description="null: every network")
    kept: bool | None = Field(description="null: nothing could be tested, or it is not done")
    checks: list[NetworkCheck]
    created_ns: int
    finished_ns: int | None


class ProbePort(WireModel):
    """A port with which an agent probes: of a network made for it, or of a job."""

    key: str
    network: str = Field(description="name of the network, for what is found")
    name: str = Field(description="DNS name of the job")
    address: str
    prefix: int
    gateway: str
    mac: str
    mtu: int
    domain: str
    in_kbit: int | None = None
    out_kbit: int | None = None
    address6: str | None = None
    gateway6: str | None = None


class ProbedBackend(WireModel):
    """What answers behind a load balancer: a job, or the proxy of one of HTTP."""

    key: str
    address: str
    port: int


class ProbedBalancer(WireModel):
    """A load balancer that an agent probes."""

    network: str
    name: str
    protocol: Literal["tcp", "udp"]
    address: str
    port: int
    is_checked: bool = Field(description="backends that accept no connection get none")
    backends: list[ProbedBackend]


class ProbedGateway(WireModel):
    """A gateway with a limit, which an agent measures."""

    key: str = Field(description="of its network")
    network: str
    address: str = Field(description="its own on the uplink")
    next_hop: str = Field(description="the machine's on the uplink")
    in_kbit: int | None = None
    out_kbit: int | None = None


class NetworkVerificationWork(WireModel):
    """What an agent checks.

    `sender` and `control` are in one network made for it, `outsider` in another one with the same
    addresses; `jobs` are ports of the networks that are verified.
    """

    id: str
    sender: ProbePort
    control: ProbePort
    outsider: ProbePort
    jobs: list[ProbePort]
    gateways: dict[str, str] = Field(description="addresses on the uplink, by network")
    balancers: list[ProbedBalancer] = Field(default_factory=list)
    limited_gateways: list[ProbedGateway] = Field(default_factory=list)
    zone: int = Field(0, description="of the networks that are made for it")


class LimitMeasurement(WireModel):
    """What passed a port with a limit."""

    key: str = Field(max_length=16)
    direction: Literal["in", "out"]
    limit_kbit: int
    measured_kbit: int


#: Checks of one report, at most. The agent leaves out the others and counts them.
MOST_CHECKS = 1000


class NetworkVerificationReport(WireModel):
    """What an agent found."""

    id: str = Field(max_length=16)
    checks: list[NetworkCheck] = Field(max_length=MOST_CHECKS)
    measurements: list[LimitMeasurement] = Field(default_factory=list, max_length=1000)
