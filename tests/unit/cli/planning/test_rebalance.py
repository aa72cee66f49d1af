"""`gpupool rebalance`: what is asked, and how even the load would be."""

from __future__ import annotations

import pytest

from gpupool.cli.planning.rebalance import format_plan
from tests.unit.cli.golden import GoldenLine, TypedLine
from tests.unit.cli.sample import rebalance_plan
from tests.unit.client.scripted_pool import ScriptedPool


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("rebalance", "rebalance"),
        ("rebalance-apply", "rebalance --apply --yes"),
    ],
)
def test_rebalance_prints_the_recorded_output(
    name: str, line: str, golden_line: GoldenLine
) -> None:
    golden_line(name, line)


def test_rebalance_sends_percent_of_a_card_as_thousandths(
    pool: ScriptedPool, type_line: TypedLine
) -> None:
    type_line("rebalance --step 20 --use-free-cards")
    asked = pool.requests[-1].json
    assert (asked["step_milli"], asked["use_free_cards"]) == (200, True)
    type_line("rebalance")
    asked = pool.requests[-1].json
    assert (asked["step_milli"], asked["use_free_cards"]) == (100, False)


def test_rebalance_names_loaded_cards_only_where_their_number_changes() -> None:
    plan = rebalance_plan().model_dump(mode="json")
    assert "cards with shares" not in format_plan(plan)
    plan["after"]["cards"] = 5
    assert "to do again: cards with shares 4 -> 5; highest load" in format_plan(plan)


def test_rebalance_without_moves_says_how_many_shares_may_move() -> None:
    plan = {**rebalance_plan().model_dump(mode="json"), "moves": [], "movable": 5}
    assert format_plan(plan).startswith("nothing to gain: 5 shares with --preemptible may be moved")
