"""Floating IPs: what a client asks for and gets, what an agent translates and reports."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gpupool.wire.common import WireModel

ProbeState = Literal["starting", "reachable", "silent", "down", "taken"]


class FloatingIpIn(WireModel):
    """An address outside of the pool for one job of a network with a gateway."""

    target: str = Field(
        min_length=1, max_length=127, description="a job's name, or its address in the network"
    )
    address: str | None = Field(
        None, max_length=39, description="one of those for tenants; null: a free one"
    )


class FloatingIpOut(WireModel):
    id: str
    network: str
    address: str = Field(description="outside of the pool")
    target: str = Field(description="DNS name or address in the network")
    job: str | None = Field(None, description="DNS name of the job that has it now; null: none")
    job_address: str | None = Field(None, description="the job's address in the network")
    state: Literal["off", "waiting", "starting", "reachable", "silent", "down", "taken"] = Field(
        description="waiting: no job has it; taken: another host outside has it; the others are "
        "what a probe of the machine saw"
    )
    reason: str = ""
    probed_ns: int | None = Field(None, description="since when the probe sees that")
    created_ns: int


class FloatingIpWork(WireModel):
    """A floating IP, as a machine that has the gateways translates it."""

    id: str
    address: str
    inner: str = Field(description="on the uplink, which the gateway translates to the job")


class FloatingIpReport(WireModel):
    """What the probe of a machine with the gateways sees of a floating IP."""

    id: str = Field(max_length=16)
    state: ProbeState
    reason: str = Field("", max_length=400)
