"""Bandwidth limits of networks: what tenants ask for and get, what agents enforce and read back."""

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


class LimitReading(WireModel):
    """What an agent has read back from its switch and its kernel."""

    key: str = Field(max_length=16)
    in_kbit: int | None = Field(None, description="the limit in force; null: none")
    out_kbit: int | None = None
    in_reason: str = Field("", max_length=200)
    out_reason: str = Field("", max_length=200)
