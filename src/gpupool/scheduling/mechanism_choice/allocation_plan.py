"""Which mechanisms serve all cards of an allocation now, the best first.

The agent takes the first one that its node does not refuse, so the order is the choice.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpupool.model.claim import Shape
from gpupool.model.isolation.claim_needs import ClaimNeeds
from gpupool.model.isolation.mechanism_offer import weaken_levels
from gpupool.scheduling.mechanism_choice.choice import (
    MechanismOption,
    OfferedCard,
    choose_mechanisms,
)


def plan_allocation(
    shape: Shape, needs: ClaimNeeds, cards: Sequence[OfferedCard], tenant: str = ""
) -> tuple[MechanismOption, ...]:
    """Return the options that every card of an allocation has without a switch of its mode.

    The order is that of the first card. An option has the layers that all cards add, and the
    weakest level of each dimension.

    Args:
        shape: what the claim asks for.
        needs: what it demands of the mechanism.
        cards: the cards of the allocation, with the other owners of each.
        tenant: the claim's tenant.
    """
    if not cards:
        return ()
    by_card = [_list_options_now(shape, needs, card, tenant) for card in cards]
    planned = list[MechanismOption]()
    for name, option in by_card[0].items():
        others = [options.get(name) for options in by_card[1:]]
        joined = _join_options(option, others)
        if joined is not None:
            planned.append(joined)
    return tuple(planned)


def _list_options_now(
    shape: Shape, needs: ClaimNeeds, card: OfferedCard, tenant: str
) -> dict[str, MechanismOption]:
    found = dict[str, MechanismOption]()
    for option in choose_mechanisms(shape, needs, card, tenant).options:
        if option.switch is None:
            found.setdefault(option.mechanism, option)
    return found


def _join_options(
    option: MechanismOption, others: Sequence[MechanismOption | None]
) -> MechanismOption | None:
    """Return what one mechanism does on all cards; None where a card does not have it."""
    layers = option.layers
    levels = option.levels
    for other in others:
        if other is None:
            return None
        layers = tuple(layer for layer in layers if layer in other.layers)
        levels = weaken_levels(levels, other.levels)
    return MechanismOption(option.mechanism, layers, levels, None, option.why, option.sizes)
