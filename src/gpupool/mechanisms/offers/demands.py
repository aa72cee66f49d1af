"""Whether an allocation that is prepared isolates its job as the claim demands.

The scheduler placed the claim by offers. What was prepared may be weaker: a driver was replaced, or
refused a limit. Then the job must not start.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpupool.mechanisms.contract import Mechanism
from gpupool.mechanisms.offers.card_offers import describe_mechanism
from gpupool.model.device import Device
from gpupool.model.enforcement import EnforcementLevels
from gpupool.model.isolation.claim_needs import ClaimNeeds
from gpupool.model.isolation.host_facts import HostFacts
from gpupool.model.isolation.mechanism_offer import (
    OfferAvailability,
    SizeClass,
    list_missing_levels,
    strengthen_levels,
)


@dataclass(frozen=True)
class PreparedCard:
    """A card of an allocation, and what prepared it."""

    mechanism: Mechanism
    device: Device
    host: HostFacts


def find_reached_levels(card: PreparedCard, reported: EnforcementLevels) -> EnforcementLevels:
    """Return what holds on a card of an allocation.

    A mechanism of whole cards reports that there is nothing to limit: what holds is that no other
    tenant reaches the card, which its offer says.

    Args:
        card: the card and its mechanism.
        reported: what the mechanism and its layers report of the allocation.
    """
    levels = reported
    for offer in describe_mechanism(card.mechanism, card.device, card.host):
        if offer.sizes is SizeClass.WHOLE and offer.availability is OfferAvailability.NOW:
            levels = strengthen_levels(levels, offer.levels)
    return levels


def explain_unmet_demand(needs: ClaimNeeds, reached: EnforcementLevels) -> str:
    """Return in which dimensions an allocation is weaker than its claim demands; empty if in none.

    Args:
        needs: what the claim demands.
        reached: what holds on a card of the allocation.
    """
    words = []
    for name in list_missing_levels(reached, needs.minimum):
        words.append(f"{name} is {getattr(reached, name)}, {getattr(needs.minimum, name)} is asked")
    return "; ".join(words)
