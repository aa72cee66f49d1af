"""Defragmentation and rebalancing: what to ask for, the plan with its price and gain, and which
moves to make."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gpupool.wire.common import BIG, WireModel

MOST_MOVES = 10_000


class MoveLimits(WireModel):
    """How far a plan may go; null is no limit."""

    max_moves: int | None = Field(None, ge=0, le=MOST_MOVES)
    max_lost_seconds: int | None = Field(None, ge=0, le=10**9)
    max_moves_per_tenant: int | None = Field(None, ge=0, le=MOST_MOVES)


class DefragIn(MoveLimits):
    cards: int | None = Field(
        None, ge=1, le=1024, description="whole cards wanted together on one node; null: all of it"
    )
    blocks: int | None = Field(
        None, ge=1, le=100_000, description="how many more of them; null: as many as can be had"
    )
    seconds: float = Field(5.0, ge=0, le=60, description="for the solver; 0: the greedy plan only")


class RebalanceIn(MoveLimits):
    step_milli: int = Field(
        100, ge=0, le=1000, description="a move brings two cards nearer together by more than this"
    )
    use_free_cards: bool = Field(False, description="also move shares to unused cards")


class MoveOut(WireModel):
    job: str
    name: str
    tenant: str
    from_node: str
    from_devices: list[str] = Field(description="the cards it leaves, by node and index")
    node: str
    devices: list[str] = Field(description="its new cards, by node and index, one per seat")
    cards: list[str] = Field(description="uuids of its new cards, in the same order")
    generations: list[int] = Field(
        description="of its new cards, as the plan has read them: what a move names"
    )
    lost_seconds: int


class ReservedOut(WireModel):
    """What reservations hold, now or later, of what is free now: no move takes it, and it is not
    counted as free."""

    cards: int = Field(description="cards of which a reservation holds something")
    gpu_milli: int
    memory_bytes: int


class DefragOut(WireModel):
    """Moves, what they cost and what they bring; pairs are before and after."""

    moves: list[MoveOut]
    lost_seconds: int
    whole_cards: tuple[int, int]
    whole_nodes: tuple[int, int]
    blocks: tuple[int, int] = Field(description="blocks of the cards that were asked for")
    by: str = Field(
        description="who chose: greedy, cp-sat, or cp-sat with proof that nothing is better"
    )
    movable: int = Field(description="jobs that may be moved at all")
    reserved: ReservedOut


class SpreadOut(WireModel):
    """How the load lies on the cards that shares are on: what is held of them, of best effort what
    was asked for."""

    cards: int
    highest_milli: int
    mean_milli: int
    jain: float = Field(
        description="Jain's index: 1 when all carry the same; over the cards that shares are on after"
    )


class RebalanceOut(WireModel):
    """Moves, what they cost and what they bring."""

    moves: list[MoveOut]
    lost_seconds: int
    before: SpreadOut
    after: SpreadOut
    movable: int = Field(description="shares that may be moved at all")
    reserved: ReservedOut


class MoveIn(WireModel):
    job: str = Field(max_length=16)
    cards: list[Annotated[str, Field(max_length=64)]] = Field(min_length=1, max_length=1024)
    generations: list[Annotated[int, Field(ge=0, le=BIG)]] = Field(
        min_length=1,
        max_length=1024,
        description="of the cards, from the plan: one that has changed since is refused",
    )


class MovesIn(WireModel):
    moves: list[MoveIn] = Field(min_length=1, max_length=MOST_MOVES)


class MovesOut(WireModel):
    """`moving` are told to leave; `ended` had ended or were leaving already."""

    moving: list[str]
    ended: list[str]
