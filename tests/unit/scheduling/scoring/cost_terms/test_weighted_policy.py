from __future__ import annotations

import numpy as np
import pytest

from gpupool.model.claim import Shape
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.scoring.ranking import NodeRanking
from gpupool.scheduling.scoring.registry import POLICIES
from gpupool.scheduling.snapshot.cards import CardTable
from gpupool.scheduling.snapshot.claims import ExpectedDemand
from tests.support.cost_builders import SHARE, WHOLE_CARDS, priced
from tests.support.scheduling_builders import cards


def first_choice(
    policy: str, made: CardTable, shape: Shape, expected: ExpectedDemand | None = None
) -> str:
    free = FreeCapacity(made, np.arange(len(made.nodes)))
    rater = POLICIES[policy].start_rater(free, expected or ExpectedDemand(), 42)
    node = NodeRanking(shape, free, rater).find_best()
    assert node is not None
    return made.nodes[node]


def test_without_prices_the_policy_places_as_its_base() -> None:
    made = cards("4x4xT4+2x8xL40S")
    expected = ExpectedDemand((SHARE, WHOLE_CARDS), (5.0, 1.0))
    for base in ("fgd", "default"):
        for shape in (SHARE, WHOLE_CARDS):
            assert first_choice(f"{base}+price", made, shape, expected) == first_choice(
                base, made, shape, expected
            )


EXPECTED = ExpectedDemand((SHARE, WHOLE_CARDS), (5.0, 1.0))


@pytest.mark.parametrize("policy", ["power", "fgd+power", "default+power"])
@pytest.mark.parametrize("expected", [ExpectedDemand(), EXPECTED])
def test_a_claim_for_any_card_lights_up_the_thriftiest(
    policy: str, expected: ExpectedDemand
) -> None:
    made = cards("1x4xH200+1x4xT4+1x4xL40S")
    assert first_choice(policy, made, WHOLE_CARDS, expected) == "node-2"


@pytest.mark.parametrize("policy", ["fgd+price", "default+price"])
@pytest.mark.parametrize("expected", [ExpectedDemand(), EXPECTED])
def test_a_claim_for_any_node_opens_the_cheapest(policy: str, expected: ExpectedDemand) -> None:
    assert first_choice(policy, priced("8", "9", "2"), WHOLE_CARDS, expected) == "node-3"


def test_where_all_adds_alike_the_base_decides() -> None:
    used = {"node-2/0": (600, 0), "node-2/1": (400, 0), "node-1/0": (100, 0)}
    made = cards("3x2xT4", used=used)
    assert first_choice("power", made, SHARE) == "node-2", (
        "binpack takes the fullest of those that add nothing"
    )
