"""Which mechanism a claim gets on a card, and why others are rejected."""

from __future__ import annotations

from dataclasses import replace

from gpupool.base.units import GIB, WHOLE
from gpupool.model.claim import Shape
from gpupool.model.isolation.claim_needs import ANY_NEEDS, ClaimGoal, ClaimNeeds, IsolationKind
from gpupool.model.isolation.host_kind import HostKind
from gpupool.model.isolation.mechanism_offer import NO_OFFERS
from gpupool.scheduling.mechanism_choice.choice import (
    MechanismChoice,
    OfferedCard,
    can_serve,
    choose_mechanisms,
)
from tests.support.offered_nodes import NODES

SHARE = Shape(300, 8 * GIB)
HARD = ClaimNeeds(IsolationKind.HARD)
CARDS = {card.name.partition(":")[0]: card for card in NODES}


def names(choice: MechanismChoice) -> list[str]:
    return [option.mechanism for option in choice.options]


def reason(choice: MechanismChoice, mechanism: str) -> str:
    (row,) = (row for row in choice.rejected if row.mechanism == mechanism)
    return row.reason


def test_a_memory_limit_that_must_hold_gets_the_fence_with_its_layer() -> None:
    choice = choose_mechanisms(SHARE, HARD, CARDS["h200-r615"])
    assert choice.now is not None
    assert (choice.now.mechanism, choice.now.layers) == ("fence", ("memgroup",))
    assert choice.now.switch_seconds == 0
    assert "memgroup makes memory hard" in choice.now.why


def test_a_rejected_level_names_the_layer_that_would_help_and_why_it_is_absent() -> None:
    choice = choose_mechanisms(SHARE, HARD, CARDS["h200-cgroup-v1"])
    assert choice.now is None
    assert reason(choice, "fence") == (
        "memory is soft, hard is asked; memgroup would make memory hard, "
        "but: cgroup v1 here, dmem needs v2"
    )


def test_one_owner_mechanisms_are_for_the_owner_of_the_card_alone() -> None:
    card = replace(CARDS["h200-r615"], owners=("lab",))
    throughput = ClaimNeeds(goal=ClaimGoal.THROUGHPUT)
    assert names(choose_mechanisms(SHARE, throughput, card, "lab"))[0] == "mps"
    choice = choose_mechanisms(SHARE, throughput, card, "shop")
    assert names(choice)[0] == "fence"
    assert reason(choice, "mps") == "one owner at a time: another tenant has shares of this card"


def test_what_needs_no_switch_goes_before_what_isolates_more() -> None:
    choice = choose_mechanisms(Shape(WHOLE), ANY_NEEDS, CARDS["h100-in-mig-mode"])
    assert choice.now is None
    assert names(choice) == ["whole", "fence", "share"]
    assert {option.switch_seconds for option in choice.options} == {5.0}


def test_a_switch_of_unknown_length_goes_behind_known_ones() -> None:
    card = CARDS["l40s-vgpu"]
    faster = CARDS["h100-in-mig-mode"].offers.mechanisms[1]
    both = replace(
        card, offers=replace(card.offers, mechanisms=(card.offers.mechanisms[0], faster))
    )
    assert names(choose_mechanisms(Shape(WHOLE), ANY_NEEDS, both)) == ["fence", "whole"]


def test_a_size_that_an_offer_does_not_serve_gets_advice_if_its_levels_suffice() -> None:
    fault = ClaimNeeds(IsolationKind.FAULT)
    choice = choose_mechanisms(SHARE, fault, CARDS["h100-in-mig-mode"])
    advice = {row.mechanism: row.advice for row in choice.rejected}
    assert advice == {"whole": "", "fence": "", "mig": "--profile 3g.40gb", "share": ""}


def test_a_card_serves_a_claim_only_with_an_offer_that_needs_no_switch() -> None:
    card = CARDS["h100-in-mig-mode"]
    profile = Shape(142, profile="1g.10gb")
    assert can_serve(profile, HARD, card.memory_bytes, card.offers)
    assert not can_serve(Shape(WHOLE), HARD, card.memory_bytes, card.offers)
    assert not can_serve(profile, HARD, card.memory_bytes, NO_OFFERS)
    vm = ClaimNeeds(host=HostKind.VM)
    assert not can_serve(profile, vm, card.memory_bytes, card.offers)


def test_the_same_card_gives_the_same_choice() -> None:
    card: OfferedCard = CARDS["h200-r615"]
    assert choose_mechanisms(SHARE, HARD, card) == choose_mechanisms(SHARE, HARD, replace(card))
