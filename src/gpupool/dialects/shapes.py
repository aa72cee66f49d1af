"""The normal form as the scheduler reads it: one shape per container that asks, and what a shape cannot say yet."""

from __future__ import annotations

from dataclasses import dataclass

from gpupool.base.errors import FactMissing
from gpupool.base.units import MIB, WHOLE, format_percent
from gpupool.dialects.contract import NO_HINTS, NVIDIA, Ask, ContainerClaim, Hints
from gpupool.model.catalogue import CATALOGUE
from gpupool.model.claim import ANYWHERE, Shape, Sharing


@dataclass(frozen=True)
class Shaped:
    """`left_out` are sentences: promises that the scheduler does not make. Whoever must keep them refuses."""

    shape: Shape
    left_out: tuple[str, ...] = ()


def shape_of(claim: ContainerClaim, hints: Hints = NO_HINTS, card_memory: int | None = None) -> Shaped:
    """The shape of one container. `card_memory` (bytes) resolves parts of a card's memory.

    Raises FactMissing where such a part cannot be resolved: neither `card_memory` nor the model tells the size.
    """
    ask = claim.ask
    memory, why = _memory(ask, card_memory)
    milli = WHOLE if ask.gpu_milli is None else ask.gpu_milli
    if ask.gpu_milli is None and memory is None and ask.memory_milli is not None:
        milli = ask.memory_milli  # of best effort this holds no compute, and says how much memory
    within = hints.within if hints.within is not None and hints.gang is None else None
    shape = Shape(
        milli,
        memory,
        ask.count,
        "|".join(ask.select.models) or None,
        ask.select.labels,
        ask.sharing or Sharing.FIXED,
        within=within or ANYWHERE,
        profile=ask.profile,
    )
    return Shaped(shape, (*why, *_left_out(ask)))


def _memory(ask: Ask, card_memory: int | None) -> tuple[int | None, tuple[str, ...]]:
    if ask.memory_milli is None or (ask.gpu_milli is None and ask.memory_bytes is None):
        return ask.memory_bytes, ()
    size, why = (card_memory, ()) if card_memory else _of_model(ask)
    if size is None:
        raise FactMissing(
            f"{format_percent(ask.memory_milli)} % of a card's memory beside another part of its compute:"
            " how many bytes is known when the card is",
            hint="say the size in a file of facts: `card_memory: 80GiB`, or select one model",
            fact="card_memory",
        )
    return size * ask.memory_milli // WHOLE // MIB * MIB, why


def _of_model(ask: Ask) -> tuple[int | None, tuple[str, ...]]:
    """The smallest memory among the selected models: what fits there fits on all of them."""
    sizes = [CATALOGUE[name].memory_mib for name in ask.select.models if name in CATALOGUE]
    if not sizes or len(sizes) < len(ask.select.models):
        return None, ()
    told = (
        ()
        if len(set(sizes)) == 1
        else (f"parts of the memory are counted on the smallest of these models: {min(sizes)} MiB",)
    )
    return min(sizes) * MIB, told


def _left_out(ask: Ask) -> tuple[str, ...]:
    select, told = ask.select, []
    if ask.cap_milli is not None:
        told.append(f"a cap of {format_percent(ask.cap_milli)} %: a burst share may use all that is idle")
    if select.uuids or select.not_uuids:
        told.append("single cards by UUID: a claim chooses by model and label")
    if select.not_models:
        told.append(f"no card of {', '.join(select.not_models)}: a claim names the models it wants")
    if ask.urgency is not None:
        told.append(f"{ask.urgency} precedence beside the tenants of one card")
    if ask.vendor != NVIDIA:
        told.append(f"cards of {ask.vendor}: select them by model")
    return tuple(told)
