"""DNS records of networks: what a client asks for and gets."""

from __future__ import annotations

from pydantic import Field

from gpupool.wire.common import WireModel


class DnsRecordIn(WireModel):
    """A name of a network beside those of its jobs, and an address."""

    name: str = Field(
        min_length=1, max_length=253, description="host name without the network's domain"
    )
    address: str = Field(
        max_length=60, description="IPv4 or IPv6 address, inside the network or outside"
    )


class DnsRecordOut(WireModel):
    network: str
    name: str
    address: str
    long_name: str = Field(description="with the domain of the network")
    created_ns: int
