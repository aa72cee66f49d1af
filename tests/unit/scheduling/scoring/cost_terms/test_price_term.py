"""What a claim adds to the power and to the price of a pool, and that policies weigh it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.scoring.cost_terms.price_term import LABEL, MICRO, PriceTerm, read_prices
from tests.support.cost_builders import SHARE, cost_of, place, priced

# --- facts ------------------------------------------------------------------------------------


# --- power ------------------------------------------------------------------------------------


# --- price ------------------------------------------------------------------------------------


def test_the_claim_that_opens_a_node_pays_all_of_it_others_their_part() -> None:
    free = FreeCapacity(priced("8", "2"))
    place(free, SHARE, 0, [0])
    assert cost_of(PriceTerm(free), free, SHARE) == [8 * MICRO * 75 // 1000, 2 * MICRO]
    assert PriceTerm(free).compute_pool_price() == 8 * MICRO


def test_the_part_of_a_node_is_that_of_its_processors_where_they_are_more() -> None:
    free = FreeCapacity(priced("8"))
    place(free, SHARE, 0, [0])
    assert cost_of(PriceTerm(free), free, replace(SHARE, cpu_milli=20_000)) == [4 * MICRO]


@pytest.mark.parametrize("text", ["", "dear", "-1", "NaN", "Infinity", "1e99"])
def test_a_price_that_cannot_be_read_counts_as_the_mean_of_the_others(text: str) -> None:
    assert read_prices(({LABEL: "3"}, {LABEL: text}, {LABEL: "1"})).tolist() == [
        3 * MICRO,
        2 * MICRO,
        MICRO,
    ]


# --- weighed ----------------------------------------------------------------------------------
