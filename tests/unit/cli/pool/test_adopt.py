"""`gpupool adopt`: cards by name in one request, or every observed one."""

from __future__ import annotations

import pytest

from tests.unit.cli.golden import AnswerWith, TypedLine
from tests.unit.cli.sample import card
from tests.unit.client.scripted_pool import ScriptedPool


def test_adopt_sends_all_names_in_one_request(
    pool: ScriptedPool, answer_with: AnswerWith, type_line: TypedLine
) -> None:
    answer_with("POST", "devices/adopt", [card(0), card(1)])
    code, out, _ = type_line("adopt 0,1 node-1:3")
    assert (code, out) == (0, "node-1:0 (H200) adopted\nnode-1:1 (H200) adopted\n")
    assert [one.json for one in pool.requests] == [{"devices": ["0", "1", "node-1:3"]}]


def test_adopt_all_takes_every_observed_card(
    pool: ScriptedPool, answer_with: AnswerWith, type_line: TypedLine
) -> None:
    answer_with("POST", "devices/adopt", [card(2)])
    answer_with("GET", "devices", {"items": [card(2, state="observed")], "next": None})
    assert type_line("adopt all")[0] == 0
    assert "state=observed" in pool.requests[0].target
    assert pool.requests[1].json == {"devices": ["node-1:2"]}


def test_adopt_all_without_an_observed_card_changes_nothing(
    pool: ScriptedPool, answer_with: AnswerWith, type_line: TypedLine
) -> None:
    answer_with("GET", "devices", {"items": [], "next": None})
    assert type_line("adopt all") == (0, "no card is left to adopt\n", "")
    assert [one.method for one in pool.requests] == ["GET"]


@pytest.mark.parametrize("cards", ["all,0", "0 all", ","])
def test_adopt_of_all_beside_names_is_refused(
    cards: str, pool: ScriptedPool, type_line: TypedLine
) -> None:
    code, _, err = type_line(f"adopt {cards}")
    assert (code, err.splitlines()[0]) == (2, "gpupool: GP-1005: name cards, or `all` alone")
    assert pool.requests == []
