"""`gpupool mechanisms`: what each card can do, for people and for programs."""

from __future__ import annotations

import json
from typing import Any

from gpupool.cli.pool.mechanisms import describe_offer, describe_reason, describe_when
from gpupool.model.isolation.mechanism_offer import write_offers
from tests.support.offered_nodes import NODES
from tests.unit.cli.golden import AnswerWith, TypedLine, compare
from tests.unit.cli.sample import card

BY_NAME = {one.name: one for one in NODES}


def offered(index: int, name: str) -> dict[str, Any]:
    return card(index, facts={"mechanisms": write_offers(BY_NAME[name].offers)})


def test_cards_that_are_alike_share_a_table(answer_with: AnswerWith, type_line: TypedLine) -> None:
    rows = [offered(0, "h200-r615:0"), offered(1, "h200-r615:0"), offered(2, "h200-cgroup-v1:0")]
    answer_with("GET", "devices", {"items": rows, "next": None})
    code, out, err = type_line("mechanisms")
    assert (code, err) == (0, "")
    compare("mechanisms", out)


def test_programs_read_every_offer_of_one_card(
    answer_with: AnswerWith, type_line: TypedLine
) -> None:
    row = offered(1, "ascend:0")
    answer_with("GET", "devices/1", row)
    code, out, _ = type_line("mechanisms 1 -o json")
    assert code == 0
    (found,) = json.loads(out)
    assert found["card"] == row["name"]
    assert [one["name"] for one in found["mechanisms"]] == ["whole", "fence", "share"]
    assert found["mechanisms"][1]["availability"] == "never"
    assert found["mechanisms"][0]["levels"]["fault"] == "hard"


def test_an_agent_without_offers_is_named(answer_with: AnswerWith, type_line: TypedLine) -> None:
    answer_with("GET", "devices", {"items": [card(0, facts={})], "next": None})
    assert "its agent publishes no mechanisms" in type_line("mechanisms")[1]
    answer_with("GET", "devices", {"items": [], "next": None})
    assert type_line("mechanisms")[1].startswith("this pool has no cards")


def test_a_switch_is_told_with_its_cost_and_a_refusal_with_its_reason() -> None:
    rows = write_offers(BY_NAME["a100-driver-535:0"].offers)["mechanisms"]
    by_name = {row["name"]: row for row in rows}
    assert describe_when(by_name["mig"]) == "after switch"
    assert describe_offer(by_name["mig"]) == (
        "for processes and containers; profiles 1g.10gb, 3g.40gb, 7g.80gb; "
        "a switch to mig resets the card, 30 s"
    )
    assert describe_when(by_name["mps"]) == "never"
    assert describe_reason(by_name["mps"]).endswith("one tenant at a time")


def test_no_line_is_wider_than_a_terminal(answer_with: AnswerWith, type_line: TypedLine) -> None:
    rows = [offered(number, name) for number, name in enumerate(BY_NAME)]
    answer_with("GET", "devices", {"items": rows, "next": None})
    out = type_line("mechanisms")[1]
    assert out.count("MECHANISM") == len(BY_NAME)
    assert max(map(len, out.splitlines())) <= 80
