"""The normal form as the scheduler reads it: one shape per container that asks, and what a shape cannot say yet."""

from __future__ import annotations

from dataclasses import dataclass

from gpupool.base.units import MIB, WHOLE, format_percent
from gpupool.dialects.contract import NO_HINTS, Ask, ContainerClaim, Hints
from gpupool.model.claim import ANYWHERE, CardSelector, Shape, Sharing


@dataclass(frozen=True)
class Shaped:
    """`left_out` are sentences: promises that the scheduler does not make. Whoever must keep them refuses."""

    shape: Shape
    left_out: tuple[str, ...] = ()


def shape_of(claim: ContainerClaim, hints: Hints = NO_HINTS, card_memory: int | None = None) -> Shaped:
    """The shape of one container.

    A part of a card's memory stays a part, which the placement resolves on the card it chooses; `card_memory` (bytes)
    resolves it here, for whoever knows the nodes.
    """
    ask = claim.ask
    milli = WHOLE if ask.gpu_milli is None else ask.gpu_milli
    memory, part = ask.memory_bytes, ask.memory_milli
    if ask.gpu_milli is None and memory is None and part is not None:
        milli, part = part, None  # of best effort this holds no compute, and says how much memory
    if part is not None and card_memory is not None:
        memory, part = card_memory * part // WHOLE // MIB * MIB, None
    within = hints.within if hints.within is not None and hints.gang is None else None
    select = ask.select
    shape = Shape(
        milli,
        memory,
        ask.count,
        "|".join(select.models) or None,
        select.labels,
        ask.sharing or Sharing.FIXED,
        within=within or ANYWHERE,
        profile=ask.profile,
        memory_milli=part,
        selector=CardSelector(ask.vendor, select.not_models, select.uuids, select.not_uuids),
    )
    return Shaped(shape, _left_out(ask))


def _left_out(ask: Ask) -> tuple[str, ...]:
    told = []
    if ask.cap_milli is not None:
        told.append(f"a cap of {format_percent(ask.cap_milli)} %: a burst share may use all that is idle")
    if ask.urgency is not None:
        told.append(f"{ask.urgency} precedence beside the tenants of one card")
    return tuple(told)
