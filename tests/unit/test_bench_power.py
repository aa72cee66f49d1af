"""What a pool draws and costs: read from the pool as it is, and less where a policy weighs it."""

from __future__ import annotations

import pytest

from bench.placement_lists import cluster_like_openb, list_like_openb
from bench.power_life import PER_CARD_HOUR, filling, living, with_prices
from gpupool.scheduling.scoring.cost_terms.price_term import read_prices
from gpupool.scheduling.scoring.registry import POLICIES

CARDS = with_prices(cluster_like_openb(40))
PODS = list_like_openb(400, seed=5)
LEVELS = (20, 50)


def test_a_node_costs_what_its_cards_cost() -> None:
    model = CARDS.models[CARDS.model[0]]
    cards = int((CARDS.node == 0).sum())
    assert read_prices(CARDS.node_labels)[0] == round(PER_CARD_HOUR[model] * cards * 1_000_000)


@pytest.mark.parametrize("policy", ["fgd+power", "default+power"])
def test_power_is_saved_while_a_pool_fills(policy: str) -> None:
    ours, base = (filling(CARDS, PODS, name, 42, LEVELS) for name in (policy, policy.split("+")[0]))
    assert list(ours) == list(LEVELS)
    for level in LEVELS:
        assert ours[level].watts < base[level].watts
        assert ours[level].allocation_pct == pytest.approx(base[level].allocation_pct, abs=1.0)


@pytest.mark.parametrize("policy", ["fgd+price", "default+price"])
def test_money_is_saved_where_claims_come_and_go(policy: str) -> None:
    ours, base = (living(CARDS, PODS, name, 0.4, 1) for name in (policy, policy.split("+")[0]))
    assert ours.price_per_hour < base.price_per_hour


def test_every_policy_of_the_bench_is_registered() -> None:
    from bench.figures import power

    assert {power.PEER, *power.POLICIES} <= set(POLICIES)
