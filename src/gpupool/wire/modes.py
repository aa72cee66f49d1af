"""Switches of cards to other modes: what an admin asks for, what an agent does and reports."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gpupool.wire.common import WireModel

#: The words of `model.device.CardMode`.
CardModeWord = Literal[
    "plain",
    "mig",
    "mps",
    "passthrough",
    "sriov",
    "vgpu",
    "dpx",
    "tpx",
    "qpx",
    "cpx",
    "nps2",
    "nps4",
    "nps8",
]


class ModeIn(WireModel):
    """A mode that a card is to be switched to."""

    mode: CardModeWord
    dry_run: bool = Field(False, description="say what would be done, and do nothing")


class CardWish(WireModel):
    """A card that is to be switched with others."""

    device: str = Field(min_length=1, max_length=128, description="node:index, or uuid")
    expected: CardModeWord | None = Field(
        None,
        description="the mode that a plan found it in; the request is refused if it has another",
    )


class ModesIn(WireModel):
    """A mode that several cards are to be switched to: all of them, or none."""

    mode: CardModeWord
    cards: list[CardWish] = Field(min_length=1, max_length=1024)
    dry_run: bool = Field(False, description="say what would be done, and do nothing")


class ModeSwitchOut(WireModel):
    """A switch of a card to another mode: what is to be done, and how far it is."""

    device: str
    mode: str = Field(description="the mode that the card is in now")
    wanted: str
    steps: list[str] = Field(description="in their order; empty where the card is in the mode")
    blocked_by: list[str] = Field(description="why it cannot be switched; empty when it can")
    needs: str = Field("nothing", description="nothing, idle-card, idle-board, reset, reload, …")
    seconds: float | None = Field(None, description="once the card is free; null: unknown")
    state: Literal["planned", "draining", "switching", "done"]
    reason: str = Field("", description="what its agent waits for")


class ModeWork(WireModel):
    """A card without shares that its agent has to switch to a mode."""

    uuid: str
    mode: CardModeWord


class ModeReport(WireModel):
    """What an agent says of a switch. `done` comes after the card was registered in that mode;
    `failed` says in `reason` why, and the card is as it was."""

    uuid: str = Field(max_length=64)
    mode: CardModeWord
    state: Literal["switching", "done", "failed"]
    reason: str = Field("", max_length=400)
