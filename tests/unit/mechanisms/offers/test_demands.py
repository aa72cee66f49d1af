"""A job starts only if what was prepared isolates it as its claim demands."""

from __future__ import annotations

from dataclasses import replace

from gpupool.mechanisms.offers.demands import (
    PreparedCard,
    explain_unmet_demand,
    find_reached_levels,
)
from gpupool.mechanisms.share import CountedShare
from gpupool.mechanisms.whole import WholeCards
from gpupool.model.enforcement import EnforcementLevels, FenceLevel, spread_level
from gpupool.model.isolation.claim_needs import ANY_NEEDS, ClaimNeeds, IsolationKind
from gpupool.model.isolation.host_facts import HostFacts
from gpupool.probes.simulated import parse_sim

HOST = HostFacts(root=True, own_pool=False, cgroups="v2")
CARD = replace(parse_sim("1xH200")[0].devices[0], simulated=False, device_paths=("/dev/nvidia0",))
HARD = ClaimNeeds(IsolationKind.HARD)
FAULT = ClaimNeeds(IsolationKind.FAULT)
NOTHING = spread_level(FenceLevel.NONE)


def test_a_share_whose_layer_failed_is_weaker_than_its_claim_demands() -> None:
    card = PreparedCard(CountedShare(), CARD, HOST)
    layered = EnforcementLevels(FenceLevel.HARD, FenceLevel.SOFT)
    assert explain_unmet_demand(HARD, find_reached_levels(card, layered)) == ""
    assert explain_unmet_demand(HARD, find_reached_levels(card, spread_level(FenceLevel.SOFT))) == (
        "memory is soft, hard is asked"
    )
    assert (
        explain_unmet_demand(FAULT, find_reached_levels(card, layered))
        == "fault is none, hard is asked"
    )


def test_a_claim_that_demands_nothing_starts_with_any_level() -> None:
    card = PreparedCard(CountedShare(), CARD, HOST)
    assert explain_unmet_demand(ANY_NEEDS, find_reached_levels(card, NOTHING)) == ""


def test_a_whole_card_is_as_good_as_its_device_node_is_closed() -> None:
    closed = PreparedCard(WholeCards(), CARD, HOST)
    assert explain_unmet_demand(FAULT, find_reached_levels(closed, NOTHING)) == ""
    opened = replace(closed, host=replace(HOST, cgroups="none"))
    assert explain_unmet_demand(HARD, find_reached_levels(opened, NOTHING)) == (
        "memory is advisory, hard is asked; compute is advisory, soft is asked"
    )
