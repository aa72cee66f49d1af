"""The start of a waiting job in answers: a promise, or an estimate with its chance."""

from __future__ import annotations

from gpupool.allocations.placement.start_view import build_start_fields
from gpupool.base.units import NANOS_PER_SECOND
from gpupool.scheduling import PlannedStart

AT_NS = 1_700_000_000 * NANOS_PER_SECOND


def test_without_a_start_an_answer_has_no_field_of_one() -> None:
    assert build_start_fields(None, None) == {}


def test_an_estimate_is_shown_with_the_chance_that_it_comes_true() -> None:
    fields = build_start_fields(PlannedStart(AT_NS), 80)
    assert (fields["start_ns"], fields["start_promised"], fields["start_chance_pct"]) == (
        AT_NS,
        False,
        80,
    )
    assert fields["start"].startswith("about ")
    assert "8 of 10" in fields["start"]


def test_a_promise_is_shown_with_the_leeway_of_the_jobs_before_it() -> None:
    start = PlannedStart(AT_NS, reserved=True, claim="j-1", firm=True)
    fields = build_start_fields(start, None)
    assert fields["start"].startswith("by ")
    assert fields["start_promised"]
    assert fields["start_ns"] == start.latest_ns > AT_NS
