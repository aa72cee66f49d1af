"""Chooses mechanisms for a claim on one card: the options, the best first, and rejected offers.

An option is never weaker than what is asked. Among equal ones the least disturbance goes first,
then the goal of the claim, then the density, then the order in which the agent tries them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from gpupool.model.claim import NAMED_KINDS, Shape
from gpupool.model.device import ModeNeed, ModeOffer
from gpupool.model.enforcement import EnforcementLevels
from gpupool.model.isolation.claim_needs import ClaimGoal, ClaimNeeds
from gpupool.model.isolation.host_kind import HostKind
from gpupool.model.isolation.mechanism_offer import (
    CardOffers,
    LayerOffer,
    MechanismOffer,
    OfferAvailability,
    SizeClass,
    list_missing_levels,
    strengthen_levels,
)
from gpupool.scheduling.mechanism_choice import sentences
from gpupool.scheduling.mechanism_choice.sizes import SizeFit, fit_size

_NEEDS = tuple(ModeNeed)


@dataclass(frozen=True)
class OfferedCard:
    """A card as the choice sees it.

    Attributes:
        name: node and index, for people.
        owners: tenants that have shares of it now.
    """

    name: str
    model: str
    memory_bytes: int
    offers: CardOffers
    owners: tuple[str, ...] = ()


@dataclass(frozen=True)
class MechanismOption:
    """A mechanism that serves the claim, with the layers that its agent adds.

    Attributes:
        switch: what a switch of the card needs first; None where it is served now.
        why: what is enforced and what it costs, for people.
        sizes: which sizes the mechanism serves on this card.
    """

    mechanism: str
    layers: tuple[str, ...]
    levels: EnforcementLevels
    switch: ModeOffer | None
    why: str
    sizes: SizeClass = SizeClass.ANY

    @property
    def switch_seconds(self) -> float | None:
        """Seconds of the switch: 0 where none is needed, None where it is unknown."""
        return 0.0 if self.switch is None else self.switch.seconds


@dataclass(frozen=True)
class MechanismRejection:
    """A mechanism that does not serve the claim on this card.

    Attributes:
        reason: why, with the numbers.
        advice: options with which it would serve the claim; empty where none would.
    """

    mechanism: str
    reason: str
    advice: str = ""


@dataclass(frozen=True)
class MechanismChoice:
    """The options of one card, the best first, and the rejected offers in the agent's order."""

    options: tuple[MechanismOption, ...]
    rejected: tuple[MechanismRejection, ...] = field(default=())

    @property
    def now(self) -> MechanismOption | None:
        """The best option that needs no switch of the card; None where there is none."""
        first = self.options[0] if self.options else None
        return first if first is not None and first.switch is None else None


_Key = tuple[int, float, int, int, int, int, int]


def choose_mechanisms(
    shape: Shape, needs: ClaimNeeds, card: OfferedCard, tenant: str = ""
) -> MechanismChoice:
    """Return the options of a card for a claim, and what was rejected.

    Args:
        shape: what the claim asks for.
        needs: what it demands of the mechanism.
        card: the card with its offers.
        tenant: the claim's tenant, for mechanisms that serve one owner at a time.
    """
    ranked = list[tuple[_Key, MechanismOption]]()
    rejected = list[MechanismRejection]()
    for position, offer in enumerate(card.offers.mechanisms):
        layers = list_added_layers(offer, card.offers.layers)
        size = fit_size(offer, shape, card.memory_bytes)
        levels = combine_levels(offer, layers)
        problem = _find_problem(offer, shape, needs, card, tenant)
        problem = problem or size.problem
        missing = list_missing_levels(levels, needs.minimum)
        if problem or missing:
            is_size_alone = problem == size.problem and not missing
            is_now = offer.availability is OfferAvailability.NOW
            advice = size.advice if is_size_alone and is_now else ""
            reason = problem or sentences.describe_missing_levels(
                levels, needs, missing, _list_absent_layers(offer, card.offers.layers)
            )
            rejected.append(MechanismRejection(offer.name, reason, advice))
            continue
        option = MechanismOption(
            offer.name,
            tuple(layer.name for layer in layers),
            levels,
            offer.switch if offer.availability is OfferAvailability.AFTER_SWITCH else None,
            sentences.describe_option(offer, layers, levels),
            offer.sizes,
        )
        ranked.append((_rank_option(offer, option, size, needs, position), option))
    ranked.sort(key=lambda pair: pair[0])
    return MechanismChoice(tuple(option for _, option in ranked), tuple(rejected))


def can_serve(shape: Shape, needs: ClaimNeeds, memory_bytes: int, offers: CardOffers) -> bool:
    """Return whether a card serves a claim without a switch, whatever is on the card now."""
    for offer in offers.mechanisms:
        if offer.availability is not OfferAvailability.NOW or _find_kind_problem(
            offer, shape, needs
        ):
            continue
        levels = combine_levels(offer, list_added_layers(offer, offers.layers))
        if list_missing_levels(levels, needs.minimum):
            continue
        if not fit_size(offer, shape, memory_bytes).problem:
            return True
    return False


def list_added_layers(
    offer: MechanismOffer, layers: Iterable[LayerOffer]
) -> tuple[LayerOffer, ...]:
    """Return the layers that the agent adds to a mechanism, in their order."""
    return tuple(layer for layer in layers if layer.serves(offer.name) and not layer.absence)


def combine_levels(offer: MechanismOffer, layers: Iterable[LayerOffer]) -> EnforcementLevels:
    """Return what a mechanism enforces together with its layers."""
    levels = offer.levels
    for layer in layers:
        levels = strengthen_levels(levels, layer.levels)
    return levels


def _list_absent_layers(
    offer: MechanismOffer, layers: Iterable[LayerOffer]
) -> tuple[LayerOffer, ...]:
    return tuple(layer for layer in layers if layer.serves(offer.name) and layer.absence)


def _find_problem(
    offer: MechanismOffer, shape: Shape, needs: ClaimNeeds, card: OfferedCard, tenant: str
) -> str:
    """Return why the offer cannot serve the claim, apart from size and levels; empty if it can."""
    if offer.availability is OfferAvailability.NEVER:
        return offer.why or "not available on this card"
    problem = _find_kind_problem(offer, shape, needs)
    if problem:
        return problem
    others = sorted(owner for owner in card.owners if owner != tenant)
    if offer.one_owner and others:
        # Not by name: a tenant must not learn which others there are.
        several = f"{len(others)} other tenants have" if len(others) > 1 else "another tenant has"
        return f"one owner at a time: {several} shares of this card"
    return ""


def _find_kind_problem(offer: MechanismOffer, shape: Shape, needs: ClaimNeeds) -> str:
    host = needs.host or HostKind.PROCESS
    if host not in offer.hosts:
        return f"it serves {sentences.format_hosts(offer.hosts)}, no {host}"
    if offer.sharing and str(shape.sharing) not in offer.sharing:
        return f"it serves {' and '.join(offer.sharing)} shares; {shape.sharing} is asked"
    if not offer.sharing and shape.sharing in NAMED_KINDS:
        return f"it does not serve {shape.sharing} shares"
    return ""


def _rank_option(
    offer: MechanismOffer,
    option: MechanismOption,
    size: SizeFit,
    needs: ClaimNeeds,
    position: int,
) -> _Key:
    """Return the order of an option: the lowest goes first."""
    disturbance = 0
    seconds = 0.0
    if option.switch is not None:
        disturbance = 1 + _NEEDS.index(option.switch.needs)
        # A switch of unknown length goes behind those that are known.
        seconds = float("inf") if option.switch.seconds is None else option.switch.seconds
    favoured = 0 if needs.goal is not None and needs.goal in offer.favours else 1
    steadiness = 0
    if needs.goal is ClaimGoal.LATENCY:
        steadiness = -(option.levels.compute.rank + option.levels.bandwidth.rank)
    return (
        disturbance,
        seconds,
        favoured,
        steadiness,
        size.spare_milli,
        size.spare_bytes,
        position,
    )
