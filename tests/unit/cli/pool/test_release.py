"""`gpupool release`: cards are taken back, at once or when their last share is."""

from __future__ import annotations

from tests.unit.cli.golden import AnswerWith, TypedLine
from tests.unit.cli.sample import card
from tests.unit.client.scripted_pool import ScriptedPool


def test_release_says_how_many_shares_a_draining_card_waits_for(
    pool: ScriptedPool, answer_with: AnswerWith, type_line: TypedLine
) -> None:
    cards = [card(0, state="draining", shares=2), card(1, state="observed")]
    answer_with("POST", "devices/release", cards)
    assert type_line("release 0,1 --drain")[1] == (
        "node-1:0 (H200) draining, 2 shares still on it\nnode-1:1 (H200) observed\n"
    )
    assert pool.requests[-1].json == {"devices": ["0", "1"], "drain": True}


def test_release_all_is_of_adopted_cards_and_says_when_there_is_none(
    pool: ScriptedPool, answer_with: AnswerWith, type_line: TypedLine
) -> None:
    answer_with("GET", "devices", {"items": [], "next": None})
    assert type_line("release all") == (0, "no card is adopted\n", "")
    assert "state=adopted" in pool.requests[0].target
    assert len(pool.requests) == 1
