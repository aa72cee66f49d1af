"""What the caller's tenant may have of the pool by the quotas, in the words of `gpus`, `whoami` and `quota`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpupool.base.units import format_gpu
from gpupool.cli.context import Context

Room = Mapping[str, Any]


def own_room(context: Context) -> Room | None:
    """What quotas leave the caller's tenant; None where the server does not say."""
    room: Room | None = context.api.request("GET", "capacity").get("yours")
    return room


def facts(room: Room | None) -> list[tuple[str, object]]:
    """`may take now  0.00 GPU; 2.00 with --preemptible`; nothing where no quota limits the tenant."""
    if room is None or room["firm_milli"] is None:
        return []
    return [("may take now", sentence(room))]


def sentence(room: Room) -> str:
    firm, soft = room["firm_milli"], room["preemptible_milli"]
    more = "" if soft == firm else f"; {_gpu(soft)} with --preemptible, until others need what they are guaranteed"
    if firm == 0 and room["most_firm_milli"] == 0:
        never = "nothing: all is guaranteed to others"
        return never + (more or "; an admin can guarantee this tenant a part: gpupool quota")
    return _gpu(firm) + more


def at_most(milli: int, size: int, room: Room | None) -> tuple[int, int] | str:
    """The largest share of a card for this caller, or words where the quotas leave it none."""
    if room is None:
        return milli, size
    firm = _least(milli, room["firm_milli"]), _least(size, room["firm_bytes"])
    if milli == 0 or min(firm) > 0:
        return firm
    soft = _least(milli, room["preemptible_milli"]), _least(size, room["preemptible_bytes"])
    return "--preemptible only" if min(soft) > 0 else "nothing by quota"


def _least(amount: int, limit: int | None) -> int:
    return amount if limit is None else max(0, min(amount, limit))


def _gpu(milli: int | None) -> str:
    return "what is free" if milli is None else f"{format_gpu(milli)} GPU"
