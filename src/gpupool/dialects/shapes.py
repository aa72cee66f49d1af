"""Translates the normal form into shapes of the scheduler: one per container that asks for cards."""

from __future__ import annotations

from dataclasses import dataclass

from gpupool.base.units import MIB, WHOLE, format_percent
from gpupool.dialects.contract import NO_HINTS, ContainerAsk, ContainerClaim, PodHints
from gpupool.model.claim import ANYWHERE, CardSelector, Shape, SharingKind
from gpupool.model.isolation.claim_needs import ANY_NEEDS


@dataclass(frozen=True)
class TranslatedShape:
    """A shape, and in `left_out` one sentence for each promise that the scheduler does not make.

    A caller that must keep such a promise rejects the pod.
    """

    shape: Shape
    left_out: tuple[str, ...] = ()


def translate_shape(
    claim: ContainerClaim, hints: PodHints = NO_HINTS, card_memory: int | None = None
) -> TranslatedShape:
    """Translate the claim of one container.

    Args:
        claim: The completed claim.
        hints: What is said of the whole pod.
        card_memory: Bytes of a card, where the caller knows the nodes. Without it a part of a
            card's memory stays a part, which the placement resolves on the card that it chooses.
    """
    ask = claim.ask
    milli = WHOLE if ask.gpu_milli is None else ask.gpu_milli
    # Of a partition each card says how much memory it has; boards differ a little.
    memory = None if ask.profile is not None else ask.memory_bytes
    part = ask.memory_milli
    if ask.gpu_milli is None and memory is None and part is not None:
        # Best effort holds no compute, so `gpu_milli` is free to carry the part of the memory.
        milli, part = part, None  # of best effort this holds no compute, and says how much memory
    if part is not None and card_memory is not None:
        memory, part = card_memory * part // WHOLE // MIB * MIB, None
    # The topology of a gang is a rule for its members together, not for the cards of one member.
    within = hints.within if hints.within is not None and hints.gang is None else None
    select = ask.select
    shape = Shape(
        milli,
        memory,
        ask.count,
        "|".join(select.models) or None,
        select.labels,
        ask.sharing or SharingKind.FIXED,
        within=within or ANYWHERE,
        profile=ask.profile,
        memory_milli=part,
        needs=hints.needs or ANY_NEEDS,
        selector=CardSelector(ask.vendor, select.not_models, select.uuids, select.not_uuids),
        names_sharing=ask.names_sharing is not False,
    )
    return TranslatedShape(shape, _list_left_out(ask))


def _list_left_out(ask: ContainerAsk) -> tuple[str, ...]:
    told = []
    if ask.cap_milli is not None:
        told.append(
            f"a cap of {format_percent(ask.cap_milli)} %: a burst share may use all that is idle"
        )
    if ask.urgency is not None:
        told.append(f"{ask.urgency} precedence beside the tenants of one card")
    return tuple(told)
