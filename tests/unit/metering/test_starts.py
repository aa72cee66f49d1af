"""Promised starts that were kept, and estimates that came true."""

from __future__ import annotations

from tests.support.metering_books import (
    Pool,
    report,
    told_starts,
)


def test_a_report_counts_promises_kept_and_broken_and_estimates_that_came_true(pool: Pool) -> None:
    told_starts(pool)
    counted = report(pool, "tenant").starts
    assert (counted.promises_kept, counted.promises_broken) == (7, 1)
    assert (counted.estimates_true, counted.estimates_false) == (4, 2)
