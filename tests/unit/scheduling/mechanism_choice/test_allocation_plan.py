"""The mechanisms that serve all cards of an allocation, the best first."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpupool.base.units import GIB, WHOLE
from gpupool.model.claim import Shape
from gpupool.model.enforcement import FenceLevel
from gpupool.model.isolation.claim_needs import ClaimGoal, ClaimNeeds, IsolationKind
from gpupool.model.isolation.mechanism_offer import CardOffers, list_missing_levels
from gpupool.scheduling.mechanism_choice.allocation_plan import plan_allocation
from tests.support.offered_nodes import NODES, list_claims

SHARE = Shape(300, 8 * GIB)
BY_NAME = {card.name: card for card in NODES}
NEW = BY_NAME["h200-r615:0"]
OLD = BY_NAME["h200-cgroup-v1:0"]


@pytest.mark.parametrize(
    ("goal", "first"),
    [
        (ClaimGoal.LATENCY, "fence"),
        (ClaimGoal.THROUGHPUT, "mps"),
        (ClaimGoal.DENSITY, "mps"),
    ],
)
def test_the_goal_of_a_claim_orders_the_plan(goal: ClaimGoal, first: str) -> None:
    plan = plan_allocation(SHARE, ClaimNeeds(goal=goal), [NEW])
    assert plan[0].mechanism == first
    assert {option.mechanism for option in plan} == {"fence", "mps", "share"}


def test_no_option_of_a_plan_is_weaker_than_demanded() -> None:
    planned = 0
    for _, shape, needs in list_claims():
        for card in NODES:
            for option in plan_allocation(shape, needs, [card, card]):
                assert not list_missing_levels(option.levels, needs.minimum)
                assert option.switch is None
                planned += 1
    assert planned > 150


def test_a_mechanism_that_one_card_lacks_is_not_planned() -> None:
    whole = Shape(WHOLE, count=2)
    amd = BY_NAME["mi300x:0"]
    plan = plan_allocation(whole, ClaimNeeds(), [NEW, amd])
    assert [option.mechanism for option in plan] == ["whole", "share"]


def test_a_plan_promises_the_weakest_level_of_its_cards() -> None:
    soft = ClaimNeeds(IsolationKind.SOFT)
    (first, *_) = plan_allocation(SHARE, soft, [NEW, replace(OLD, owners=())])
    assert (first.mechanism, first.layers) == ("fence", ())
    assert first.levels.memory is FenceLevel.SOFT


def test_other_tenants_on_a_card_exclude_a_mechanism_of_one_owner() -> None:
    dense = ClaimNeeds(goal=ClaimGoal.DENSITY)
    shared = replace(NEW, owners=("lab",))
    assert plan_allocation(SHARE, dense, [shared], "lab")[0].mechanism == "mps"
    assert plan_allocation(SHARE, dense, [shared], "bank")[0].mechanism == "fence"


def test_cards_without_offers_have_no_plan() -> None:
    assert plan_allocation(SHARE, ClaimNeeds(), [replace(NEW, offers=CardOffers())]) == ()
    assert plan_allocation(SHARE, ClaimNeeds(), []) == ()
