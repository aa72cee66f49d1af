"""Whether the size of a claim is one that an offer serves, and what it takes beyond what is asked."""

from __future__ import annotations

from dataclasses import dataclass

from gpupool.base.units import WHOLE, format_mib, format_share
from gpupool.model.claim import Shape, SharingKind
from gpupool.model.isolation.mechanism_offer import MechanismOffer, OfferedProfile, SizeClass


@dataclass(frozen=True)
class SizeFit:
    """How an offer serves the size of a claim on one card.

    Attributes:
        problem: why it does not; empty if it does.
        advice: options with which the offer would serve the claim; empty where none would.
        spare_milli: compute that is taken beyond what is asked.
        spare_bytes: memory that is taken beyond what is asked.
    """

    problem: str = ""
    advice: str = ""
    spare_milli: int = 0
    spare_bytes: int = 0


def fit_size(offer: MechanismOffer, shape: Shape, card_bytes: int) -> SizeFit:
    """Return how an offer serves the size of a claim on a card with that memory."""
    if shape.profile is not None:
        return _fit_profile(offer, shape.profile)
    asked = shape.memory_on(card_bytes)
    if asked > card_bytes:
        return SizeFit(f"the card has {format_mib(card_bytes)}, {format_mib(asked)} is asked")
    if offer.sizes is SizeClass.ANY:
        return SizeFit()
    if offer.sizes is SizeClass.PROFILES:
        return _find_profile(offer, shape, asked)
    if is_whole_card(shape, card_bytes):
        return SizeFit()
    advice = "--gpu 1" if shape.sharing is SharingKind.FIXED else "--gpu 1 --sharing fixed"
    return SizeFit(
        f"it serves whole cards alone; {format_amounts(shape, asked)} of "
        f"{format_amounts(Shape(WHOLE), card_bytes)} is asked",
        advice,
    )


def is_whole_card(shape: Shape, card_bytes: int) -> bool:
    """Return whether a claim takes all of a card; memory counts in whole MiB."""
    return shape.is_whole and shape.memory_on(card_bytes) >> 20 == card_bytes >> 20


def format_amounts(shape: Shape, memory_bytes: int) -> str:
    """Return both numbers of a share on a card: `0.30 GPU (30 % compute) + 8192 MiB`."""
    return format_share(shape.gpu_milli, memory_bytes, unpromised=shape.sharing.unpromised_text)


def _fit_profile(offer: MechanismOffer, name: str) -> SizeFit:
    known = [profile.name for profile in offer.profiles]
    if offer.sizes is not SizeClass.PROFILES:
        return SizeFit(f"it makes no partitions; {name} is asked")
    if name in known:
        return SizeFit()
    return SizeFit(f"no profile {name}; it has {', '.join(known) or 'none'}")


def _find_profile(offer: MechanismOffer, shape: Shape, asked: int) -> SizeFit:
    """Reject a share, since only profiles are served, and name the smallest that holds it."""
    fitting = list[OfferedProfile]()
    for profile in offer.profiles:
        if profile.gpu_milli >= shape.held_milli and profile.memory_bytes >= asked:
            fitting.append(profile)
    amounts = format_amounts(shape, asked)
    if not fitting:
        return SizeFit(f"it serves profiles alone, and none holds {amounts}")
    least = min(fitting, key=lambda one: (one.memory_bytes, one.gpu_milli, one.name))
    partition = format_share(least.gpu_milli, least.memory_bytes, profile=least.name)
    return SizeFit(
        f"it serves profiles alone; the smallest for {amounts} is {partition}",
        f"--profile {least.name}",
        least.gpu_milli - shape.held_milli,
        least.memory_bytes - asked,
    )
