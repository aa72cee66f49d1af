"""`gpupool verify`: the card that it chooses, wholly free or refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpupool.base.errors import NotFound, RequestRejection
from gpupool.cli.proof.verify import _choose_card, _list_other_cards
from gpupool.terminal.context import CommandContext
from tests.unit.cli.golden import AnswerWith
from tests.unit.cli.sample import card


@pytest.fixture
def context(tmp_path: Path, answer_with: AnswerWith) -> CommandContext:
    rows: list[dict[str, Any]] = [
        card(0, shares=1),
        card(1, state="observed"),
        card(2, health="failed"),
        card(3),
        card(4),
    ]
    answer_with("GET", "devices", {"items": rows, "next": None})
    return CommandContext(str(tmp_path))


@pytest.mark.parametrize(("named", "chosen"), [(None, 3), ("node-1:4", 4), ("GPU-4", 4), ("4", 4)])
def test_verify_takes_the_first_wholly_free_card_or_the_named_one(
    named: str | None, chosen: int, context: CommandContext
) -> None:
    assert _choose_card(context, named)["index"] == chosen


@pytest.mark.parametrize(
    ("named", "why"),
    [
        ("0", "node-1:0 is not free: 1 shares are on it"),
        ("1", "node-1:1 is not free: it is observed, ok"),
        ("2", "node-1:2 is not free: it is adopted, failed"),
    ],
)
def test_verify_of_a_card_that_is_not_free_says_why(
    named: str, why: str, context: CommandContext
) -> None:
    with pytest.raises(RequestRejection, match=why):
        _choose_card(context, named)


def test_verify_of_no_card_or_none_that_is_free_is_refused(
    context: CommandContext, answer_with: AnswerWith
) -> None:
    with pytest.raises(NotFound, match="no card is named '9'"):
        _choose_card(context, "9")
    answer_with("GET", "devices", {"items": [card(0, shares=1)], "next": None})
    with pytest.raises(RequestRejection, match="none of 1 cards is wholly free"):
        _choose_card(context, None)


def test_other_cards_are_adopted_ones_beside_the_chosen(context: CommandContext) -> None:
    names = [one["name"] for one in _list_other_cards(context, card(3))]
    assert names == ["node-1:0", "node-1:2", "node-1:4"]
