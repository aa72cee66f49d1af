"""What the caller's tenant may have by the quotas, in the words of `gpus`, `whoami` and `quota`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpupool.base.units import format_gpu
from gpupool.terminal.context import CommandContext

Room = Mapping[str, Any]


def fetch_room(context: CommandContext) -> Room | None:
    """Fetch what quotas leave the caller's tenant; None where the server does not say."""
    room: Room | None = context.api.request("GET", "capacity").get("yours")
    return room


def list_facts(room: Room | None) -> list[tuple[str, object]]:
    """List `may take now  0.00 GPU; 2.00 with --preemptible`; nothing without a limiting quota."""
    if room is None or room["firm_milli"] is None:
        return []
    return [("may take now", describe_room(room))]


def describe_room(room: Room) -> str:
    """Describe what the tenant may take now, and what more with --preemptible."""
    firm = room["firm_milli"]
    soft = room["preemptible_milli"]
    more = (
        ""
        if soft == firm
        else f"; {_describe_gpu(soft)} with --preemptible, until others need what they are guaranteed"
    )
    if firm == 0 and room["most_firm_milli"] == 0:
        never = "nothing: all is guaranteed to others"
        return never + (more or "; an admin can guarantee this tenant a part: gpupool quota")
    return _describe_gpu(firm) + more


def cap_share(milli: int, size: int, room: Room | None) -> tuple[int, int] | str:
    """Return the largest share of a card for this caller, or words where quotas leave it none."""
    if room is None:
        return milli, size
    firm = _cap_amount(milli, room["firm_milli"]), _cap_amount(size, room["firm_bytes"])
    if milli == 0 or min(firm) > 0:
        return firm
    soft = (
        _cap_amount(milli, room["preemptible_milli"]),
        _cap_amount(size, room["preemptible_bytes"]),
    )
    return "--preemptible only" if min(soft) > 0 else "nothing by quota"


def _cap_amount(amount: int, limit: int | None) -> int:
    return amount if limit is None else max(0, min(amount, limit))


def _describe_gpu(milli: int | None) -> str:
    return "what is free" if milli is None else f"{format_gpu(milli)} GPU"
