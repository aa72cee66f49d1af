"""A guarantee that is set is meant to hold: it brings no unlimited borrowing along."""

from __future__ import annotations

import argparse
from collections.abc import Callable

import pytest

from gpupool.base.errors import BadOption
from gpupool.cli.quota_limits import branch_changes, changed, read_cells, read_model, read_vendor, read_weight

UNLIMITED = {
    "nominal_milli": None,
    "borrowing_milli": None,
    "nominal_memory_bytes": None,
    "borrowing_memory_bytes": None,
}


def asked(**given: str) -> argparse.Namespace:
    return argparse.Namespace(**{**dict.fromkeys(UNLIMITED), **given})


def test_a_first_guarantee_allows_no_borrowing_unless_it_is_asked_for() -> None:
    assert changed(UNLIMITED, asked(nominal_milli="0.5"))["borrowing_milli"] == 0
    assert changed(UNLIMITED, asked(nominal_milli="0.5", borrowing_milli="1"))["borrowing_milli"] == 1000
    assert changed(UNLIMITED, asked(nominal_milli="0.5", borrowing_milli="none"))["borrowing_milli"] is None


def test_what_was_allowed_to_borrow_stays_when_the_guarantee_changes() -> None:
    known = {**UNLIMITED, "nominal_milli": 1000, "borrowing_milli": 500}
    assert changed(known, asked(nominal_milli="2"))["borrowing_milli"] == 500
    assert changed(known, asked(nominal_milli="2"))["borrowing_memory_bytes"] is None


def test_limits_of_models_and_nodes_are_put_among_the_others() -> None:
    known = {"others": [{"resource": "node", "nominal": 2, "borrowing": None, "lending": 0}]}
    given = argparse.Namespace(
        models=["h200=4+2"], vendors=["amd=1"], nodes=["none", "L40S=1"], weight="2.5", parent="None"
    )
    assert branch_changes(known, given) == {
        "weight_milli": 2500,
        "cohort": None,
        "others": [
            {"resource": "gpu:AMD", "nominal": 1000, "borrowing": 0, "lending": None},
            {"resource": "gpu:H200", "nominal": 4000, "borrowing": 2000, "lending": None},
            {"resource": "node:L40S", "nominal": 1, "borrowing": None, "lending": 0},
        ],
    }


@pytest.mark.parametrize(
    ("read", "text"), [(read_model, "H200"), (read_model, "=4"), (read_weight, "-1"), (read_weight, "x")]
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
