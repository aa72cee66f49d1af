"""Offers of a card follow from what its agent reports, and serve claims of containers."""

from __future__ import annotations

from gpupool.base.units import GIB
from gpupool.kubernetes.resources.card_offers import build_card_offers
from gpupool.kubernetes.resources.gpu_node_status import ShareIsolation
from gpupool.model.claim import Shape
from gpupool.model.enforcement import FenceLevel
from gpupool.model.isolation.claim_needs import ClaimNeeds, IsolationKind
from gpupool.scheduling.mechanism_choice.choice import can_serve

PART = Shape(300, 8 * GIB)
WHOLE = Shape(1000)


def serves(share: ShareIsolation, shape: Shape, *, simulated: bool = False) -> list[str]:
    """Names of the isolations that a card of 48 GiB serves."""
    offers = build_card_offers(share, simulated=simulated)
    found = list[str]()
    for kind in IsolationKind:
        if can_serve(shape, ClaimNeeds(kind), 48 * GIB, offers):
            found.append(kind)
    return found


def test_a_share_is_hard_where_the_driver_limits_it() -> None:
    assert serves(ShareIsolation(FenceLevel.SOFT), PART) == ["none", "soft", "hard"]
    assert serves(ShareIsolation(FenceLevel.SOFT, "older"), PART) == ["none", "soft"]
    assert serves(ShareIsolation(FenceLevel.ADVISORY), PART) == ["none"]


def test_a_whole_card_isolates_all_if_it_is_real() -> None:
    share = ShareIsolation(FenceLevel.ADVISORY, "older")
    assert serves(share, WHOLE) == ["none", "soft", "hard", "fault"]
    assert serves(share, WHOLE, simulated=True) == ["none", "soft"]


def test_cards_that_are_alike_share_one_object() -> None:
    one = build_card_offers(ShareIsolation(FenceLevel.SOFT), simulated=True)
    assert build_card_offers(ShareIsolation(FenceLevel.SOFT), simulated=True) is one
