"""What a mechanism or a layer does at best, on any card: for offers and for the reference page.

A mechanism that has an attribute `summary` says it itself; of any other one only the name and its
one level are known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gpupool.mechanisms.contract import Layer, Mechanism
from gpupool.model.device import Device
from gpupool.model.enforcement import EnforcementLevels, spread_level
from gpupool.model.isolation.claim_needs import ClaimGoal
from gpupool.model.isolation.host_facts import HostFacts
from gpupool.model.isolation.host_kind import HostKind
from gpupool.model.isolation.mechanism_offer import SizeClass

#: Stands where nothing is recorded of how a mechanism was tested.
UNTESTED = "not recorded"


@dataclass(frozen=True)
class ReachedLevels:
    """What is enforced on one card, and why it is not more."""

    levels: EnforcementLevels
    why: str = ""


@dataclass(frozen=True)
class MechanismSummary:
    """What a mechanism or layer does at best.

    Attributes:
        levels: what it enforces on a card and node that allow the most; of a layer what it makes of
            the levels of a mechanism.
        sizes: which sizes it serves; None where it depends on the card.
        cards: which cards it serves, for people.
        tested: how it was tested, for people.
        one_owner: all shares of a card must be one tenant's.
        favours: goals that it suits best.
        sharing: the words of sharing that it serves; empty where its refusals say that.
        mechanisms: of a layer, the mechanisms that it is added to; empty for all.
        find_levels: returns what is enforced on one card of one node; None: `levels` everywhere.
    """

    levels: EnforcementLevels
    hosts: tuple[HostKind, ...] = (HostKind.PROCESS,)
    sizes: SizeClass | None = None
    cards: str = ""
    tested: str = UNTESTED
    one_owner: bool = False
    favours: tuple[ClaimGoal, ...] = ()
    mechanisms: tuple[str, ...] = ()
    sharing: tuple[str, ...] = ()
    find_levels: Callable[[Device, HostFacts], ReachedLevels] | None = None

    def find_reached(self, device: Device, host: HostFacts) -> ReachedLevels:
        """Return what is enforced on a card of a node."""
        if self.find_levels is None:
            return ReachedLevels(self.levels)
        return self.find_levels(device, host)


def summarize_mechanism(mechanism: Mechanism) -> MechanismSummary:
    """Return what a mechanism says of itself, or what follows from its one level."""
    summary = getattr(mechanism, "summary", None)
    if isinstance(summary, MechanismSummary):
        return summary
    tested = str(getattr(mechanism, "tested", UNTESTED))
    return MechanismSummary(spread_level(mechanism.fence_level()), tested=tested)


def summarize_layer(layer: Layer) -> MechanismSummary:
    """Return what a layer says of itself; one that says nothing raises no level."""
    summary = getattr(layer, "summary", None)
    if isinstance(summary, MechanismSummary):
        return summary
    return MechanismSummary(
        EnforcementLevels(), tuple(HostKind), tested=str(getattr(layer, "tested", UNTESTED))
    )
