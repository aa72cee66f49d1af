"""What a claim would get on the cards of a pool."""

from __future__ import annotations

from dataclasses import replace

from gpupool.base.units import GIB
from gpupool.model.claim import Shape
from gpupool.model.isolation.claim_needs import ClaimNeeds, IsolationKind
from gpupool.model.isolation.mechanism_offer import NO_OFFERS
from gpupool.scheduling.mechanism_choice.pool_survey import (
    NO_MECHANISMS,
    describe_refusal,
    find_best_group,
    survey_cards,
)
from tests.support.offered_nodes import NODES

SHARE = Shape(300, 8 * GIB)
HARD = ClaimNeeds(IsolationKind.HARD)
BY_NAME = {card.name: card for card in NODES}


def test_cards_that_are_alike_share_one_answer() -> None:
    first = BY_NAME["ascend:0"]
    cards = [replace(first, name=f"ascend:{index}") for index in range(3)]
    (group,) = survey_cards(SHARE, HARD, cards)
    assert group.cards == ("ascend:0", "ascend:1", "ascend:2")


def test_other_owners_matter_only_where_a_mechanism_takes_one() -> None:
    plain = BY_NAME["ascend:0"]
    shared = BY_NAME["h200-r615:0"]
    for card, groups in ((plain, 1), (shared, 2)):
        cards = [card, replace(card, name="other", owners=("lab",))]
        assert len(survey_cards(SHARE, HARD, cards, "bank")) == groups


def test_the_first_group_that_serves_the_claim_now_is_the_best() -> None:
    groups = survey_cards(SHARE, HARD, NODES)
    best = find_best_group(groups)
    assert best is not None
    assert best.cards == ("h200-r615:0",)
    assert find_best_group(groups[1:]) is None


def test_a_refusal_has_the_rejected_rows_and_the_next_step() -> None:
    groups = survey_cards(SHARE, ClaimNeeds(IsolationKind.FAULT), [BY_NAME["mi300x:0"]])
    text = describe_refusal(SHARE, ClaimNeeds(IsolationKind.FAULT), groups)
    assert text.sentence.startswith(
        "no card gives --isolation fault to 0.30 GPU (30 % compute) + 8192 MiB: 1 × MI300X (whole: "
    )
    assert text.lines[:2] == (
        "no card gives --isolation fault to 0.30 GPU (30 % compute) + 8192 MiB",
        "1 × MI300X:",
    )
    assert "- fence: there is no fence for cards of amd" in text.lines
    assert all(line.strip("- :") in text.sentence for line in text.lines)
    assert text.hint.splitlines() == [
        "ask for  --gpu 1  (whole)",
        "gpupool mechanisms  shows what each card can do",
    ]


def test_a_refusal_names_the_switch_that_would_serve_the_claim() -> None:
    card = BY_NAME["h100-in-mig-mode:0"]
    soft = ClaimNeeds(IsolationKind.SOFT)
    hint = describe_refusal(SHARE, soft, survey_cards(SHARE, soft, [card])).hint
    assert "gpupool mode h100-in-mig-mode:0 plain" in hint


def test_a_refusal_says_where_an_agent_publishes_nothing() -> None:
    card = replace(BY_NAME["ascend:0"], offers=NO_OFFERS)
    sentence = describe_refusal(SHARE, HARD, survey_cards(SHARE, HARD, [card])).sentence
    assert NO_MECHANISMS in sentence
