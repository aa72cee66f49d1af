"""Dedicated lines of networks: what a client asks for and gets, what an agent does and reports."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from gpupool.wire.common import WireModel

Prefix = Annotated[str, Field(max_length=60, examples=["172.20.0.0/16"])]
Asn = Annotated[int, Field(ge=1, le=4294967294)]
LineState = Literal["off", "starting", "up", "down"]


class LineTranslation(WireModel):
    """A prefix that has other addresses on the other side of a line, as many."""

    inside: Prefix = Field(description="as jobs of the network see it")
    outside: Prefix = Field(description="as hosts of the company see it")


class LineIn(WireModel):
    """A dedicated line between a network and a peer, a BGP router of the tenant's company."""

    vlan: int = Field(ge=1, le=4094, description="on the interface that an admin opened")
    address: Annotated[str, Field(max_length=60)] = Field(
        description="of the network's router on the line, as 192.168.200.1/29"
    )
    speaker: Annotated[str, Field(max_length=60)] | None = Field(
        None, description="second address of ours, of the BGP speaker; null: the next one"
    )
    peer: Annotated[str, Field(max_length=60)] = Field(description="the peer's address")
    asn: Asn
    peer_asn: Asn
    key: str | None = Field(
        None,
        pattern=r"^[!-~]{1,80}$",
        repr=False,
        description="TCP MD5 key (RFC 2385), never shown again; null: none",
    )
    bfd: bool = Field(False, description="detect failures by BFD (RFC 5880), within two seconds")
    mtu: int = Field(1500, ge=576, le=9000, description="largest packet on the line, in bytes")
    prefix_limit: int = Field(100, ge=1, le=1000, description="prefixes that are learned at most")
    allowed: list[Prefix] = Field(
        min_length=1, max_length=50, description="prefixes that the peer may announce"
    )
    announced: list[Prefix] | None = Field(
        None, max_length=16, description="subnets that the peer learns; null: all of the network"
    )
    translations: list[LineTranslation] = Field(
        default_factory=list,
        max_length=16,
        description="subnets that the company sees with other addresses, and learns as those",
    )
    peer_translations: list[LineTranslation] = Field(
        default_factory=list,
        max_length=16,
        description="allowed prefixes that jobs see with other addresses",
    )


class LineRefusal(WireModel):
    """A prefix that the peer announces and that is not learned."""

    prefix: str
    reason: Annotated[str, Field(max_length=100)]


class LineOut(WireModel):
    id: str
    network: str
    vlan: int
    address: str
    speaker: str = Field(description="the neighbor's address in the peer's configuration")
    peer: str
    asn: int
    peer_asn: int
    has_key: bool
    bfd: bool
    mtu: int
    prefix_limit: int
    allowed: list[str]
    announced: list[str]
    state: LineState
    reason: str = ""
    learned: list[str] = Field(description="prefixes that lead to the peer now")
    refused: list[LineRefusal] = Field(description="the first ones of those that are refused")
    refused_count: int = 0
    translations: list[LineTranslation] = Field(default_factory=list)
    peer_translations: list[LineTranslation] = Field(default_factory=list)
    created_ns: int


class LineWork(WireModel):
    """A line whose speaker an agent runs."""

    id: str
    speaker: str
    prefix: int = Field(description="bits of the link's prefix")
    router: str
    mac: str
    peer: str
    asn: int
    peer_asn: int
    key: str | None = Field(None, repr=False)
    bfd: bool
    mtu: int
    prefix_limit: int
    allowed: list[str]
    announced: list[str]
    ours: list[LineTranslation] = Field(
        default_factory=list,
        description="all subnets of a line that translates; empty: packets pass by the speaker",
    )
    theirs: list[LineTranslation] = Field(
        default_factory=list, description="all allowed prefixes of a line that translates"
    )


class LineReport(WireModel):
    """What an agent sees of a line."""

    id: str
    state: LineState
    reason: str = Field("", max_length=400)
    learned: list[str] = Field(default_factory=list, max_length=1000)
    refused: list[LineRefusal] = Field(default_factory=list, max_length=50)
    refused_count: int = 0
