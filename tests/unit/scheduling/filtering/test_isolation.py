"""Cards are feasible only where their offers isolate a claim as it demands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gpupool.base.units import GIB
from gpupool.model.claim import RejectionReason, Shape
from gpupool.model.isolation.claim_needs import ClaimGoal, ClaimNeeds, IsolationKind
from gpupool.model.isolation.mechanism_offer import CardOffers
from gpupool.model.quota import Quota, ResourceAmount
from gpupool.scheduling.admission.claim import judge_claim
from gpupool.scheduling.filtering.feasibility import CODE, FITS, ClaimFit
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.filtering.isolation import find_serving_cards, list_offered_cards
from gpupool.scheduling.snapshot.cards import CardTable
from gpupool.scheduling.snapshot.snapshot import TenantView
from gpupool.scheduling.workspace.pool_identity import is_same_pool
from tests.support.offered_nodes import NODES
from tests.support.scheduling_builders import cards

OFFERS = {card.name: card.offers for card in NODES}
HARD = Shape(300, 8 * GIB, needs=ClaimNeeds(IsolationKind.HARD))


def pool(offers: Mapping[int, CardOffers]) -> CardTable:
    return replace(cards("3x1xH200"), offers=offers)


def two_of_three() -> CardTable:
    return pool({0: OFFERS["h200-cgroup-v1:0"], 1: OFFERS["h200-r615:0"]})


def test_only_cards_whose_offers_reach_the_demand_are_feasible() -> None:
    fit = ClaimFit(HARD, FreeCapacity(two_of_three()))
    refused = CODE[RejectionReason.ISOLATION]
    assert fit.why.tolist() == [refused, FITS, refused]
    assert fit.roomy.tolist() == [False, True, False]


def test_a_claim_that_demands_nothing_fits_everywhere_also_with_a_goal() -> None:
    for needs in (ClaimNeeds(), ClaimNeeds(IsolationKind.NONE, ClaimGoal.DENSITY)):
        fit = ClaimFit(replace(HARD, needs=needs), FreeCapacity(two_of_three()))
        assert fit.why.tolist() == [FITS, FITS, FITS]


def test_a_demand_that_no_card_meets_is_refused_for_ever_with_the_rows() -> None:
    table = pool({0: OFFERS["h200-cgroup-v1:0"], 1: OFFERS["h200-cgroup-v1:0"]})
    tenant = TenantView(Quota(), ResourceAmount(0, 0))
    refusal = judge_claim(HARD, tenant, table, tenant_name="t")
    assert refusal is not None
    assert not refusal.fits_ever
    assert refusal.dominant is RejectionReason.ISOLATION
    assert refusal.cards == {RejectionReason.ISOLATION: 3}
    assert "2 × H200 (whole: " in refusal.sentence
    assert "cgroup v1 here, dmem needs v2" in refusal.sentence
    assert "1 × H200 (their node does not say what isolates its claims)" in refusal.sentence
    assert refusal.hint.startswith("ask for  --gpu 1  (whole)")


def test_cards_are_listed_with_their_offers_and_owners() -> None:
    listed = list_offered_cards(two_of_three(), [1, 2], {1: ("lab",)})
    assert [card.name for card in listed] == ["node-2/0", "node-3/0"]
    assert listed[0].offers is OFFERS["h200-r615:0"]
    assert listed[0].owners == ("lab",)
    assert listed[1].offers.mechanisms == ()


def test_other_offers_make_another_pool() -> None:
    table = two_of_three()
    assert is_same_pool(table, replace(table, offers=dict(table.offers)))
    assert not is_same_pool(table, pool({}))
    assert find_serving_cards(HARD, pool({})).tolist() == [False, False, False]
