"""What a claim adds to the power and to the price of a pool, and that policies weigh it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gpupool.base.units import GIB
from gpupool.model.catalogue import CATALOGUE
from gpupool.model.claim import Shape
from gpupool.model.power import CARD_WATTS, PROCESSOR, UNKNOWN_CARD, card_watts
from gpupool.scheduling.feasible import Fit
from gpupool.scheduling.free import Free
from gpupool.scheduling.policies import POLICIES
from gpupool.scheduling.ranking import Ranking
from gpupool.scheduling.snapshot import Cards, Expected
from gpupool.scheduling.term_power import PowerTerm
from gpupool.scheduling.term_price import LABEL, MICRO, PriceTerm, prices_of
from tests.support.scheduling_builders import cards

SHARE = Shape(300, GIB)
WHOLE_CARDS = Shape(1000, None, 2)


def cost_of(term: PowerTerm | PriceTerm, free: Free, shape: Shape) -> list[int]:
    """On each node that takes the shape."""
    fit = Fit(shape, free)
    return term.cost(fit, np.flatnonzero(fit.roomy)).tolist()


def place(free: Free, shape: Shape, node: int, rows: list[int]) -> None:
    fit = Fit(shape, free)
    free.take(node, np.array(rows), shape.held_milli, fit.need[rows], shape.cpu_milli, shape.host_bytes)


def first_choice(policy: str, made: Cards, shape: Shape, expected: Expected | None = None) -> str:
    free = Free(made, np.arange(len(made.nodes)))
    rater = POLICIES[policy].start(free, expected or Expected(), 42)
    node = Ranking(shape, free, rater).best()
    assert node is not None
    return made.nodes[node]


# --- facts ------------------------------------------------------------------------------------


def test_every_model_of_the_catalogue_has_its_watts() -> None:
    assert set(CATALOGUE) == set(CARD_WATTS)
    assert all(0 < one.idle < one.full for one in CARD_WATTS.values())


def test_a_model_that_nobody_knows_has_the_assumed_watts() -> None:
    assert card_watts("Q7") == UNKNOWN_CARD
    assert card_watts("t4") == CARD_WATTS["T4"]


# --- power ------------------------------------------------------------------------------------


def test_a_share_on_a_used_card_adds_no_power() -> None:
    free = Free(cards("2x1xT4+1x1xH200"))
    place(free, SHARE, 0, [0])
    assert cost_of(PowerTerm(free), free, SHARE) == [0, 60, 630]


def test_whole_cards_add_what_each_of_them_draws_more() -> None:
    free = Free(cards("1x2xT4+1x4xL40S"))
    assert cost_of(PowerTerm(free), free, WHOLE_CARDS) == [120, 630]


def test_of_a_mixed_node_the_cards_that_add_least_count() -> None:
    free = Free(cards("mixed:H200,T4,T4"))
    assert cost_of(PowerTerm(free), free, WHOLE_CARDS) == [120]


def test_processors_add_power_by_the_package() -> None:
    free = Free(cards("1x1xT4", hosts=(96_000, 64 * GIB)))
    term, claim = PowerTerm(free), Shape(0, 0, 0, cpu_milli=20_000)
    assert cost_of(term, free, claim) == [PROCESSOR.swing]
    place(free, claim, 0, [])
    assert cost_of(term, free, Shape(0, 0, 0, cpu_milli=12_000)) == [0], "the package has room for 12 more"
    assert cost_of(term, free, Shape(0, 0, 0, cpu_milli=12_001)) == [PROCESSOR.swing]


def test_the_pool_draws_what_its_claims_added() -> None:
    free = Free(cards("2x2xT4", hosts=(64_000, 64 * GIB)))
    term, claim = PowerTerm(free), Shape(400, GIB, 2, cpu_milli=40_000)
    idle = term.of_pool()
    assert idle == 4 * 10 + 4 * PROCESSOR.idle
    added = cost_of(term, free, claim)[0]
    place(free, claim, 0, [0, 1])
    assert term.of_pool() == idle + added


def test_a_pool_without_cards_has_a_power() -> None:
    assert PowerTerm(Free(cards(""))).of_pool() == 0


# --- price ------------------------------------------------------------------------------------


def priced(*prices: str) -> Cards:
    labels = {f"node-{number}": {LABEL: price} for number, price in enumerate(prices, 1) if price}
    return cards(f"{len(prices)}x4xT4", labels=labels, hosts=(40_000, 64 * GIB))


def test_the_claim_that_opens_a_node_pays_all_of_it_others_their_part() -> None:
    free = Free(priced("8", "2"))
    place(free, SHARE, 0, [0])
    assert cost_of(PriceTerm(free), free, SHARE) == [8 * MICRO * 75 // 1000, 2 * MICRO]
    assert PriceTerm(free).of_pool() == 8 * MICRO


def test_the_part_of_a_node_is_that_of_its_processors_where_they_are_more() -> None:
    free = Free(priced("8"))
    place(free, SHARE, 0, [0])
    assert cost_of(PriceTerm(free), free, replace(SHARE, cpu_milli=20_000)) == [4 * MICRO]


@pytest.mark.parametrize("text", ["", "dear", "-1", "NaN", "Infinity", "1e99"])
def test_a_price_that_cannot_be_read_counts_as_the_mean_of_the_others(text: str) -> None:
    assert prices_of(({LABEL: "3"}, {LABEL: text}, {LABEL: "1"})).tolist() == [3 * MICRO, 2 * MICRO, MICRO]


def test_without_prices_the_policy_places_as_its_base() -> None:
    made = cards("4x4xT4+2x8xL40S")
    expected = Expected((SHARE, WHOLE_CARDS), (5.0, 1.0))
    for base in ("fgd", "default"):
        for shape in (SHARE, WHOLE_CARDS):
            assert first_choice(f"{base}+price", made, shape, expected) == first_choice(base, made, shape, expected)


# --- weighed ----------------------------------------------------------------------------------

EXPECTED = Expected((SHARE, WHOLE_CARDS), (5.0, 1.0))


@pytest.mark.parametrize("policy", ["power", "fgd+power", "default+power"])
@pytest.mark.parametrize("expected", [Expected(), EXPECTED])
def test_a_claim_for_any_card_lights_up_the_thriftiest(policy: str, expected: Expected) -> None:
    made = cards("1x4xH200+1x4xT4+1x4xL40S")
    assert first_choice(policy, made, WHOLE_CARDS, expected) == "node-2"


@pytest.mark.parametrize("policy", ["fgd+price", "default+price"])
@pytest.mark.parametrize("expected", [Expected(), EXPECTED])
def test_a_claim_for_any_node_opens_the_cheapest(policy: str, expected: Expected) -> None:
    assert first_choice(policy, priced("8", "9", "2"), WHOLE_CARDS, expected) == "node-3"


def test_where_all_adds_alike_the_base_decides() -> None:
    used = {"node-2/0": (600, 0), "node-2/1": (400, 0), "node-1/0": (100, 0)}
    made = cards("3x2xT4", used=used)
    assert first_choice("power", made, SHARE) == "node-2", "binpack takes the fullest of those that add nothing"
