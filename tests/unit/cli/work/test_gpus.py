"""`gpupool gpus`: cards, what fits on each, and what is free beside them."""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.cli.work.gpus import (
    describe_fits,
    describe_fragments,
    describe_health,
    describe_kept,
    describe_largest,
    describe_mps_room,
    format_title,
)
from tests.unit.cli.golden import AnswerWith, GoldenLine, TypedLine
from tests.unit.cli.sample import card
from tests.unit.client.scripted_pool import ScriptedPool


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("gpus", "gpus"),
        ("gpus-wide", "gpus -o wide"),
    ],
)
def test_gpus_prints_the_recorded_output(name: str, line: str, golden_line: GoldenLine) -> None:
    golden_line(name, line)


@pytest.mark.parametrize(
    ("room", "kept"),
    [
        ({"kept_milli": 500, "kept_bytes": 8 << 30}, "0.50 GPU (50 %) + 8192 MiB"),
        ({"kept_milli": 0, "kept_bytes": 8 << 30}, "8192 MiB"),
        ({"kept_milli": 0, "kept_bytes": 0}, "0 MiB"),
        ({}, None),
    ],
)
def test_what_a_card_keeps_names_compute_only_where_it_is_kept(
    room: dict[str, int], kept: str | None
) -> None:
    assert describe_kept(room) == kept


@pytest.mark.parametrize(
    ("changes", "largest"),
    [
        ({}, "1.00 GPU (100 %) + 143771 MiB"),
        ({"state": "observed"}, None),
        ({"cluster": "prod"}, None),
        ({"mix": "7x1g", "fits": {"1g": 2, "2g": 1, "7g": 0}}, "2g"),
        ({"mix": "7x1g", "fits": {"1g": 0}}, "no partition"),
        ({"mps_owner": "another tenant"}, "MPS of another tenant alone"),
    ],
)
def test_largest_placeable_is_of_adopted_cards_and_of_profiles_where_cut(
    changes: dict[str, Any], largest: str | None
) -> None:
    assert describe_largest({**card(), **changes}) == largest


def test_fitting_profiles_are_counted_and_full_ones_left_out() -> None:
    assert describe_fits({"fits": {"1g.18gb": 7, "3g.71gb": 1, "7g": 0}}) == "7 x 1g.18gb, 3g.71gb"
    assert describe_fits({"fits": {"7g": 0}}) == "nothing"


def test_health_has_its_reason_and_is_unknown_without_a_word() -> None:
    assert describe_health(card(health="failed", health_reason="XID 79")) == "failed: XID 79"
    assert describe_health(card(health="ok")) == "ok"
    assert describe_health(card(health="unknown", health_reason="x")) == "--"


def test_title_counts_models_nodes_and_how_many_cards_are_simulated() -> None:
    rows = [card(0), card(1, simulated=False, node="node-2"), card(2, model="L40S")]
    assert format_title(rows) == "3 cards on 2 nodes: 2 × H200, 1 × L40S   2 SIMULATED"
    assert format_title(rows[:1], more=True).endswith(
        "(more follow) on 1 node: 1 × H200   SIMULATED"
    )
    assert format_title(rows[1:2]) == "1 card on 1 node: 1 × H200"


def test_fragments_are_rounded_and_unknown_without_expected_claims() -> None:
    assert describe_fragments({"fragment_milli": 349.6, "free_milli": 1700}) == "0.35 of 1.70 free"
    assert describe_fragments({"fragment_milli": None, "free_milli": 1700}) is None


def test_gpus_without_a_card_names_the_doctor_unless_a_filter_was_given(
    pool: ScriptedPool, answer_with: AnswerWith, type_line: TypedLine
) -> None:
    answer_with("GET", "devices", {"items": [], "next": None})
    assert "this pool has no cards" in "".join(type_line("gpus")[1:])
    assert "no such cards" in "".join(type_line("gpus --model A100")[1:])
    assert "model=A100" in pool.requests[-1].target


@pytest.mark.parametrize(
    ("cards", "words", "owners"),
    [(1, "1 H200 card serves", "its owner"), (2, "2 H200 cards serve", "their owners")],
)
def test_room_beside_mps_clients_is_said_apart(cards: int, words: str, owners: str) -> None:
    room = {"model": "H200", "mps_cards": cards, "mps_free_milli": 700}
    free = "0.70 GPU is free there"
    assert describe_mps_room(room) == (
        f"{words} MPS clients: {free}, for MPS shares of {owners} alone"
    )
