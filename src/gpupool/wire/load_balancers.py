"""Load balancers of networks: what a client asks for and gets."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gpupool.wire.common import Name, WireModel


class LoadBalancerIn(WireModel):
    """One address of a network behind which some of its jobs serve."""

    name: Name
    protocol: Literal["tcp", "udp"] = "tcp"
    port: int = Field(ge=1, le=65535, description="on which it is asked")
    target_port: int = Field(ge=1, le=65535, description="on which its backends serve")
    backends: list[Name] = Field(
        min_length=1, max_length=16, description="names of jobs, arrays or gangs"
    )
    is_checked: bool = Field(
        True, description="leave out backends that accept no connection (probed each second)"
    )


class LoadBalancerPartOut(WireModel):
    """A job that serves behind a load balancer."""

    dns_name: str
    address: str


class LoadBalancerOut(WireModel):
    id: str
    name: str = Field(description="its DNS name in the network too")
    network: str
    address: str
    protocol: str
    port: int
    target_port: int
    backends: list[str] = Field(description="names of jobs, arrays or gangs")
    is_checked: bool
    members: list[LoadBalancerPartOut] = Field(description="jobs behind it that run now")
    created_ns: int
