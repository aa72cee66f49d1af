"""Zones of networks: what agents report of them, and how they are shown."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gpupool.wire.common import WireModel


class NetworkZoneReport(WireModel):
    """What an agent says of a zone."""

    number: int = Field(ge=0)
    state: Literal["starting", "ready", "failed"]
    reason: str = Field("", max_length=400)
    northbound: str = Field("", max_length=200)
    daemons: int = Field(0, description="how many run")


class NetworkZoneOut(WireModel):
    """A part of the networks, with databases and a switch of its own."""

    number: int
    networks: int
    state: Literal["starting", "ready", "failed", "stopping"]
    reason: str = ""
    daemons: int | None = Field(None, description="how many run; null: not known")
