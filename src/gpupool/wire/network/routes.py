"""Route tables of networks: what a client asks for and gets."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gpupool.wire.common import Name, WireModel


class RouteIn(WireModel):
    """A static route: a next hop, or packets are discarded."""

    prefix: str = Field(max_length=60, description="destinations, as 172.20.0.0/16 or ::/0")
    via: str | None = Field(None, max_length=60, description="address of the job that forwards")
    discard: bool = Field(False, description="packets go nowhere")
    subnet: Name | None = Field(
        None, description="for the packets of that subnet alone; null: of every subnet"
    )
    forwards: list[str] = Field(
        default_factory=list,
        max_length=8,
        description="prefixes of other senders whose packets the next hop sends on",
    )


class RouteOut(WireModel):
    """A route of a network's table."""

    id: str = Field(description="of the static route, or of what the route comes from")
    network: str
    prefix: str
    kind: Literal["connected", "static", "peering", "line", "gateway"]
    via: str | None = Field(description="next hop; null: connected, or packets are discarded")
    is_discarding: bool = False
    subnet: str | None = Field(description="for its packets alone; null: of every subnet")
    forwards: list[str] = Field(default_factory=list)
    is_active: bool = Field(description="whether it decides, for packets with no longer prefix")
    reason: str = Field("", description="why it is not active, or that its next hop is missing")
