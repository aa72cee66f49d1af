"""Sentences of the choice: words and numbers for people, no decisions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields

from gpupool.model.device import ModeNeed, ModeOffer
from gpupool.model.enforcement import EnforcementLevels
from gpupool.model.isolation.claim_needs import ClaimNeeds
from gpupool.model.isolation.host_kind import HostKind
from gpupool.model.isolation.mechanism_offer import LayerOffer, MechanismOffer, OfferAvailability

_NEED_WORDS = {
    ModeNeed.NOTHING: "needs nothing",
    ModeNeed.IDLE_CARD: "needs the card idle",
    ModeNeed.IDLE_BOARD: "needs all cards of its board idle",
    ModeNeed.RESET: "resets the card",
    ModeNeed.RELOAD: "reloads the driver",
    ModeNeed.REBOOT: "reboots the node",
}
_HOST_WORDS = {
    HostKind.PROCESS: "processes",
    HostKind.CONTAINER: "containers",
    HostKind.VM: "VMs",
}


def format_levels(levels: EnforcementLevels) -> str:
    """Return `memory hard, compute soft, bandwidth none, fault none`."""
    return ", ".join(f"{one.name} {getattr(levels, one.name)}" for one in fields(levels))


def format_hosts(hosts: Iterable[HostKind]) -> str:
    """Return `processes and containers`."""
    return " and ".join(_HOST_WORDS[host] for host in hosts) or "nothing"


def format_switch(switch: ModeOffer) -> str:
    """Return `a switch to mig (resets the card, 30 s)`."""
    lasts = "of unknown length" if switch.seconds is None else f"{switch.seconds:g} s"
    return f"a switch to {switch.mode} ({_NEED_WORDS[switch.needs]}, {lasts})"


def describe_option(
    offer: MechanismOffer, layers: Sequence[LayerOffer], levels: EnforcementLevels
) -> str:
    """Describe what is enforced, by what, and when it is there."""
    when = "now"
    if offer.availability is OfferAvailability.AFTER_SWITCH and offer.switch is not None:
        when = f"after {format_switch(offer.switch)}"
    parts = [f"{format_levels(levels)}; {when}"]
    for layer in layers:
        raised = _list_raised(offer.levels, layer.levels)
        if raised:
            parts.append(f"{layer.name} makes {', '.join(raised)}")
    if offer.one_owner:
        parts.append("the card is one tenant's alone meanwhile")
    if offer.why:
        parts.append(offer.why)
    return "; ".join(parts)


def describe_missing_levels(
    levels: EnforcementLevels,
    needs: ClaimNeeds,
    missing: Sequence[str],
    absent: Sequence[LayerOffer],
) -> str:
    """Describe in which dimensions an offer is weaker than what is asked, and what would help."""
    words = list[str]()
    for name in missing:
        words.append(f"{name} is {getattr(levels, name)}, {getattr(needs.minimum, name)} is asked")
    for layer in absent:
        raised = _list_raised(levels, layer.levels, missing)
        if raised:
            words.append(f"{layer.name} would make {', '.join(raised)}, but: {layer.absence}")
    return "; ".join(words)


def _list_raised(
    levels: EnforcementLevels, raised: EnforcementLevels, names: Sequence[str] | None = None
) -> list[str]:
    words = []
    for one in fields(EnforcementLevels):
        is_counted = names is None or one.name in names
        if is_counted and getattr(raised, one.name).rank > getattr(levels, one.name).rank:
            words.append(f"{one.name} {getattr(raised, one.name)}")
    return words
