"""What a cluster's meter tells of one node: its cards, what is held of them, and what was."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gpupool.wire.common import BIG, Name, WireModel


class ClusterSeat(WireModel):
    uuid: str = Field(min_length=1, max_length=64)
    # Thousandths of one card: a seat is on one card.
    gpu_milli: int = Field(
        ge=0, le=1000, description="what is held: 0 for shares without a promise"
    )
    memory_bytes: int = Field(ge=0, le=BIG)


class ClusterHeld(WireModel):
    """Seats of one container since an instant of the node's ledger; pod, container and instant name
    them."""

    # Names of Kubernetes' objects have 253 characters at most (RFC 1123).
    uid: str = Field(min_length=1, max_length=253)
    namespace: Name
    pod: str = Field(
        max_length=253, description="empty: a member of a gang that does not exist yet"
    )
    container: Name
    tenant: Name
    account: str = Field(
        "", max_length=253, description="the pod's service account; empty: unknown"
    )
    seats: list[ClusterSeat] = Field(min_length=1, max_length=128)
    held_ns: int = Field(ge=1, le=BIG)
    gpu_milliseconds: int | None = Field(
        None,
        ge=0,
        le=BIG,
        description="GPU time that the container used since it began; null: not counted",
    )
    borrowed_milliseconds: int | None = Field(
        None, ge=0, le=BIG, description="of the GPU time, what was beyond the promise"
    )
    denied_milliseconds: int | None = Field(
        None, ge=0, le=BIG, description="promised time lost while it waited for a card"
    )


class ClusterEnded(ClusterHeld):
    ended_ns: int = Field(ge=1, le=BIG)


class ClusterCard(WireModel):
    uuid: str = Field(min_length=1, max_length=64)
    index: int = Field(ge=0, le=100_000)
    model: str = Field(min_length=1, max_length=63)
    product: str = Field("", max_length=128)
    memory_bytes: int = Field(ge=1, le=BIG)
    simulated: bool = False
    health: Literal["ok", "warning", "failed", "unknown"] = "unknown"
    health_reason: str = Field("", max_length=200)


class ClusterVersion(WireModel):
    """Which ledger of a node. Of two the later born is newer, then that of the higher
    generation."""

    born_ns: int = Field(ge=0, le=BIG)
    generation: int = Field(ge=0, le=BIG)


class ClusterNodeIn(WireModel):
    """A node's ledger as it is."""

    born_ns: int = Field(
        ge=0, le=BIG, description="when this ledger was made: a node that comes again has a new one"
    )
    generation: int = Field(ge=0, le=BIG)
    ready: bool = Field(True, description="whether its agent answers")
    managed: bool = Field(True, description="whether the cluster hands its cards out")
    cards: list[ClusterCard] = Field(max_length=1024)
    held: list[ClusterHeld] = Field(default_factory=list, max_length=4096)
    ended: list[ClusterEnded] = Field(default_factory=list, max_length=4096)
    whole: bool = Field(
        True, description="false: more ended than is said here, and what is not named goes on"
    )
    instead_of: ClusterVersion | None = Field(
        None,
        description="taken in though older, while just this is known: the cluster was put back to an older copy",
    )


class ClusterNodeOut(WireModel):
    node: str
    applied: bool = Field(description="false: something newer is known, nothing was changed")
    known: ClusterVersion | None = Field(
        None, description="what is newer, where nothing was changed"
    )
    opened: int = 0
    closed: int = 0
