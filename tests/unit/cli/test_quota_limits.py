"""A guarantee that is set is meant to hold: it brings no unlimited borrowing along."""

from __future__ import annotations

import argparse

from gpupool.cli.quota_limits import changed

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
