"""A guarantee that is set is meant to hold: it brings no unlimited borrowing along."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from gpupool.base.errors import BadFraction, BadOption
from gpupool.cli.accounts.quota_limits import (
    apply_changes,
    parse_cards,
    read_branch,
    read_cells,
    read_limit,
    read_model,
    read_vendor,
    read_weight,
)
from tests.unit.cli.sample import quota

UNLIMITED = {
    "nominal_milli": None,
    "borrowing_milli": None,
    "nominal_memory_bytes": None,
    "borrowing_memory_bytes": None,
}


def asked(**given: str) -> argparse.Namespace:
    return argparse.Namespace(**{**dict.fromkeys(UNLIMITED), **given})


def test_a_first_guarantee_allows_no_borrowing_unless_it_is_asked_for() -> None:
    assert apply_changes(UNLIMITED, asked(nominal_milli="0.5"))["borrowing_milli"] == 0
    assert (
        apply_changes(UNLIMITED, asked(nominal_milli="0.5", borrowing_milli="1"))["borrowing_milli"]
        == 1000
    )
    assert (
        apply_changes(UNLIMITED, asked(nominal_milli="0.5", borrowing_milli="none"))[
            "borrowing_milli"
        ]
        is None
    )


def test_what_was_allowed_to_borrow_stays_when_the_guarantee_changes() -> None:
    known = {**UNLIMITED, "nominal_milli": 1000, "borrowing_milli": 500}
    assert apply_changes(known, asked(nominal_milli="2"))["borrowing_milli"] == 500
    assert apply_changes(known, asked(nominal_milli="2"))["borrowing_memory_bytes"] is None


def test_limits_of_models_and_nodes_are_put_among_the_others() -> None:
    known = {"others": [{"resource": "node", "nominal": 2, "borrowing": None, "lending": 0}]}
    given = argparse.Namespace(
        models=["h200=4+2"],
        vendors=["amd=1"],
        nodes=["none", "L40S=1"],
        weight="2.5",
        parent="None",
    )
    assert read_branch(known, given) == {
        "weight_milli": 2500,
        "cohort": None,
        "others": [
            {"resource": "gpu:AMD", "nominal": 1000, "borrowing": 0, "lending": None},
            {"resource": "gpu:H200", "nominal": 4000, "borrowing": 2000, "lending": None},
            {"resource": "node:L40S", "nominal": 1, "borrowing": None, "lending": 0},
        ],
    }


@pytest.mark.parametrize(
    ("read", "text"),
    [(read_model, "H200"), (read_model, "=4"), (read_weight, "-1"), (read_weight, "x")],
)
def test_what_makes_no_limit_is_refused(read: Callable[[str], object], text: str) -> None:
    with pytest.raises(BadOption):
        read(text)


def test_a_number_of_nodes_is_whole() -> None:
    with pytest.raises(BadOption, match="not a number of whole nodes"):
        read_cells("node", "1.5")


def test_a_vendor_among_the_models_is_refused_with_the_option_that_takes_it() -> None:
    with pytest.raises(BadOption, match="amd is a vendor, not a model") as refused:
        read_model("AMD=4")
    assert refused.value.hint == "write it like --vendor amd=4"


def test_a_model_among_the_vendors_is_refused_with_the_vendors_there_are() -> None:
    with pytest.raises(BadOption, match="got no known vendor, expected one of amd, ascend"):
        read_vendor("H200=4")


@pytest.mark.parametrize(
    ("text", "milli"), [("2", 2000), ("1.5", 1500), ("0", 0), (".25", 250), ("10.125", 10125)]
)
def test_quotas_are_cards_and_parts_of_them(text: str, milli: int) -> None:
    assert parse_cards(text) == milli


@pytest.mark.parametrize("text", ["", "-1", "x", "1.2345", "1e3", "1,5", "²"])
def test_what_is_no_number_of_cards_is_refused(text: str) -> None:
    with pytest.raises(BadFraction):
        parse_cards(text)


def test_limits_can_be_lifted_and_memory_can_be_nothing() -> None:
    assert read_limit("nominal_milli", "none") is None
    assert read_limit("nominal_memory_bytes", "0") == 0
    assert read_limit("nominal_memory_bytes", "1GiB") == 1 << 30


def test_setting_one_limit_keeps_the_others() -> None:
    known = quota(nominal_memory_bytes=5).model_dump(mode="json")
    none: dict[str, Any] = dict.fromkeys(
        ("nominal_milli", "borrowing_milli", "nominal_memory_bytes", "borrowing_memory_bytes")
    )
    assert apply_changes(known, SimpleNamespace(**{**none, "nominal_milli": "4"})) == {  # type: ignore[arg-type]
        "nominal_milli": 4000,
        "nominal_memory_bytes": 5,
        "borrowing_milli": 1000,
        "borrowing_memory_bytes": 0,
        "lending_milli": None,
        "lending_memory_bytes": None,
        "weight_milli": 1000,
        "cohort": None,
        "others": [],
    }
    with pytest.raises(BadOption, match="nothing to set"):
        apply_changes(known, SimpleNamespace(**none))  # type: ignore[arg-type]
