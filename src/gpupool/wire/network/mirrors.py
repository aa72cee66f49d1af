"""Mirrors of networks: what a client asks for and gets, what agents make and report."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gpupool.wire.common import Name, WireModel

MirrorDirection = Literal["both", "in", "out"]


class MirrorIn(WireModel):
    """A copy of the packets of a running job for another one of its network."""

    name: Name = Field(description="also of the interface that the target gets; 15 characters")
    source: Name = Field(description="DNS name of the job whose packets are copied")
    target: Name = Field(description="DNS name of the job that gets them")
    direction: MirrorDirection = Field("both", description="`in`: towards the source")


class MirrorOut(WireModel):
    """A mirror, with what the switch was read to copy."""

    id: str
    name: str
    network: str
    source: str
    target: str
    direction: MirrorDirection
    state: Literal["set", "verified", "not enforced"] = Field(
        description="`verified`: the switch has counted copies"
    )
    reason: str = Field(description="why it is not enforced")
    packets: int = Field(0, description="that the switch has copied")
    bytes: int = 0
    created_ns: int


class MirrorWork(WireModel):
    """A mirror for an agent. `source` and `target` are the ids of ports."""

    key: str
    interface: str
    source: str
    target: str
    direction: MirrorDirection
    source_tunnel: str = Field(
        "", description="tunnel address of the source's machine; empty where both are on one"
    )
    target_tunnel: str = Field("", description="of the target's machine")
    tunnel_key: int = Field(0, description="number of its copies between the two machines")


class MirrorReading(WireModel):
    """What an agent read back of a mirror."""

    key: str
    part: Literal["whole", "source", "target"] = Field(
        "whole", description="which jobs of the mirror its machine has"
    )
    packets: int = 0
    bytes: int = 0
    reason: str = Field("", max_length=200)
