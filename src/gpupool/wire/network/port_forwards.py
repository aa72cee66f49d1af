"""Port forwards of networks: what a client asks for and gets."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gpupool.wire.common import Name, WireModel


class PortForwardIn(WireModel):
    """A port of the pool's machine that leads to jobs of a network."""

    protocol: Literal["tcp", "udp"] = "tcp"
    port: int | None = Field(
        None, ge=1, le=65535, description="on the machine; null: a free one of those for tenants"
    )
    target: Name = Field(description="name of a job, an array, a gang or a load balancer")
    target_port: int = Field(ge=1, le=65535, description="on which the target serves")


class PortForwardOut(WireModel):
    id: str
    network: str
    protocol: str
    port: int = Field(description="on the machine of the pool")
    target: str = Field(description="DNS name in the network")
    target_port: int
    created_ns: int
