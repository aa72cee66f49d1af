"""What the mechanisms of a node offer for one card, as its agent publishes it.

The scheduler reads offers and needs no name of a mechanism: a new mechanism is a new offer. Facts
only; must not know how a mechanism works.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

from gpupool.model.device import CardMode, ModeNeed, ModeOffer
from gpupool.model.enforcement import EnforcementLevels, read_levels
from gpupool.model.isolation.claim_needs import ClaimGoal
from gpupool.model.isolation.host_kind import HostKind

#: Of what enforces nothing.
NO_LEVELS = EnforcementLevels()


class SizeClass(StrEnum):
    """Which sizes a mechanism serves: any share, whole cards alone, or fixed profiles alone."""

    ANY = "any"
    WHOLE = "whole"
    PROFILES = "profiles"


class OfferAvailability(StrEnum):
    """Whether a card serves an offer now, after a switch of its mode, or never."""

    NOW = "now"
    AFTER_SWITCH = "after-switch"
    NEVER = "never"


@dataclass(frozen=True)
class OfferedProfile:
    """A profile that a card can be cut into."""

    name: str
    gpu_milli: int
    memory_bytes: int


@dataclass(frozen=True)
class MechanismOffer:
    """What one mechanism offers for one card.

    Attributes:
        name: the mechanism's.
        levels: what it enforces between the tenants of this card.
        why: of an offer that is never available the reason, else why the levels are not higher.
        mode: the mode that the card must be in.
        switch: what a switch to that mode needs; None where the card is in it.
        one_owner: all shares of the card must be one tenant's while it is used in this way.
        favours: the goals of claims that it suits best.
        sharing: the kinds of sharing that it serves; empty for all.
    """

    name: str
    levels: EnforcementLevels = NO_LEVELS
    hosts: tuple[HostKind, ...] = (HostKind.PROCESS,)
    sizes: SizeClass = SizeClass.ANY
    availability: OfferAvailability = OfferAvailability.NOW
    why: str = ""
    mode: CardMode = CardMode.PLAIN
    switch: ModeOffer | None = None
    profiles: tuple[OfferedProfile, ...] = ()
    one_owner: bool = False
    sharing: tuple[str, ...] = ()
    favours: tuple[ClaimGoal, ...] = ()


@dataclass(frozen=True)
class LayerOffer:
    """What a layer adds to a mechanism on one card.

    Attributes:
        levels: each dimension is at least that where the layer is added.
        mechanisms: names of those that it is added to; empty for all.
        absence: why it is not added on this card; empty where it is.
    """

    name: str
    levels: EnforcementLevels = NO_LEVELS
    mechanisms: tuple[str, ...] = ()
    absence: str = ""

    def serves(self, mechanism: str) -> bool:
        """Whether the layer goes with a mechanism, on a card that has it."""
        return not self.mechanisms or mechanism in self.mechanisms


@dataclass(frozen=True)
class CardOffers:
    """All offers of one card, in the order in which its agent tries them."""

    mechanisms: tuple[MechanismOffer, ...] = ()
    layers: tuple[LayerOffer, ...] = ()


#: Of a card whose agent publishes none.
NO_OFFERS = CardOffers()


def strengthen_levels(one: EnforcementLevels, other: EnforcementLevels) -> EnforcementLevels:
    """Return the stronger level of each dimension."""
    stronger = {}
    for field in fields(EnforcementLevels):
        pair = (getattr(one, field.name), getattr(other, field.name))
        stronger[field.name] = max(pair, key=lambda level: level.rank)
    return EnforcementLevels(**stronger)


def weaken_levels(one: EnforcementLevels, other: EnforcementLevels) -> EnforcementLevels:
    """Return the weaker level of each dimension."""
    weaker = {}
    for field in fields(EnforcementLevels):
        pair = (getattr(one, field.name), getattr(other, field.name))
        weaker[field.name] = min(pair, key=lambda level: level.rank)
    return EnforcementLevels(**weaker)


def list_missing_levels(levels: EnforcementLevels, required: EnforcementLevels) -> list[str]:
    """List the dimensions in which `levels` are weaker than `required`."""
    missing = []
    for field in fields(EnforcementLevels):
        if getattr(levels, field.name).rank < getattr(required, field.name).rank:
            missing.append(field.name)
    return missing


def write_offers(offers: CardOffers) -> dict[str, Any]:
    """Return the offers ready for JSON, as an agent publishes them; defaults are left out."""
    mechanisms = [_write_mechanism(one) for one in offers.mechanisms]
    layers = [_write_layer(one) for one in offers.layers]
    return {"mechanisms": mechanisms, "layers": layers}


def read_offers(document: Mapping[str, Any] | None) -> CardOffers:
    """Read what `write_offers` made; None is a card whose agent publishes none.

    Unknown keys are ignored, since a newer agent may send some. Raises ValueError for an unknown
    value.
    """
    if not document:
        return NO_OFFERS
    mechanisms = tuple(_read_mechanism(one) for one in document.get("mechanisms", ()))
    layers = tuple(_read_layer(one) for one in document.get("layers", ()))
    return CardOffers(mechanisms, layers)


def _write_mechanism(offer: MechanismOffer) -> dict[str, Any]:
    document: dict[str, Any] = {
        "name": offer.name,
        "levels": offer.levels.write(),
        "hosts": [str(host) for host in offer.hosts],
        "sizes": str(offer.sizes),
        "availability": str(offer.availability),
        "why": offer.why,
        "mode": str(offer.mode),
    }
    if offer.switch is not None:
        document["switch"] = write_mode_offer(offer.switch)
    if offer.profiles:
        document["profiles"] = [[p.name, p.gpu_milli, p.memory_bytes] for p in offer.profiles]
    if offer.one_owner:
        document["one_owner"] = True
    if offer.sharing:
        document["sharing"] = list(offer.sharing)
    if offer.favours:
        document["favours"] = [str(goal) for goal in offer.favours]
    return document


def _read_mechanism(document: Mapping[str, Any]) -> MechanismOffer:
    switch = document.get("switch")
    return MechanismOffer(
        document["name"],
        read_levels(document["levels"]),
        tuple(HostKind(host) for host in document["hosts"]),
        SizeClass(document["sizes"]),
        OfferAvailability(document["availability"]),
        document["why"],
        CardMode(document["mode"]),
        None if switch is None else read_mode_offer(switch),
        tuple(OfferedProfile(*one) for one in document.get("profiles", ())),
        bool(document.get("one_owner", False)),
        tuple(document.get("sharing", ())),
        tuple(ClaimGoal(goal) for goal in document.get("favours", ())),
    )


def _write_layer(offer: LayerOffer) -> dict[str, Any]:
    return {
        "name": offer.name,
        "levels": offer.levels.write(),
        "mechanisms": list(offer.mechanisms),
        "absence": offer.absence,
    }


def _read_layer(document: Mapping[str, Any]) -> LayerOffer:
    return LayerOffer(
        document["name"],
        read_levels(document["levels"]),
        tuple(document["mechanisms"]),
        document["absence"],
    )


def write_mode_offer(offer: ModeOffer) -> dict[str, Any]:
    """Return a mode's offer ready for JSON."""
    return {
        "mode": str(offer.mode),
        "needs": str(offer.needs),
        "seconds": offer.seconds,
        "blocked_by": offer.blocked_by,
    }


def read_mode_offer(document: Mapping[str, Any]) -> ModeOffer:
    """Read what `write_mode_offer` made."""
    return ModeOffer(
        CardMode(document["mode"]),
        ModeNeed(document["needs"]),
        document["seconds"],
        document["blocked_by"],
    )
