"""Quiet hours, digests and pauses."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupool.base.errors import BadOption
from gpupool.notifications.timing import (
    NANOS,
    RETRY_SECONDS,
    compute_due,
    compute_retry,
    parse_quiet_hours,
    parse_zone,
)

BERLIN = ZoneInfo("Europe/Berlin")


def at(text: str, zone: ZoneInfo = BERLIN) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=zone).timestamp()) * NANOS


@pytest.mark.parametrize(
    ("now", "due"),
    [
        ("2026-03-10T21:59", "2026-03-10T21:59"),
        ("2026-03-10T22:00", "2026-03-11T07:00"),
        ("2026-03-11T06:59", "2026-03-11T07:00"),
        ("2026-03-11T07:00", "2026-03-11T07:00"),
        ("2026-03-28T23:00", "2026-03-29T07:00"),  # an hour less that night
        ("2026-10-24T23:00", "2026-10-25T07:00"),  # an hour more
    ],
)
def test_quiet_hours_pass_midnight_and_changes_of_the_clocks(now: str, due: str) -> None:
    quiet = parse_quiet_hours("22:00-07:00", "Europe/Berlin")
    assert compute_due(at(now), 0, quiet) == at(due)


def test_quiet_hours_may_be_within_a_day() -> None:
    quiet = parse_quiet_hours("12:00-13:30", "Europe/Berlin")
    assert compute_due(at("2026-03-10T13:00"), 0, quiet) == at("2026-03-10T13:30")
    assert compute_due(at("2026-03-10T14:00"), 0, quiet) == at("2026-03-10T14:00")


def test_neither_a_late_message_nor_a_further_attempt_comes_in_quiet_hours() -> None:
    quiet = parse_quiet_hours("22:00-07:00", "Europe/Berlin")
    # It happened before them, and its server was down.
    now = at("2026-03-10T23:30")
    assert compute_due(at("2026-03-10T21:00"), 0, quiet, now) == at("2026-03-11T07:00")
    assert compute_due(at("2026-03-10T21:00"), 3600, quiet, now) == at("2026-03-11T07:00")
    # The sixth pause is of half an hour.
    assert compute_retry(6, at("2026-03-10T21:40"), quiet) == at("2026-03-11T07:00")
    assert compute_retry(6, at("2026-03-10T21:20"), quiet) == at("2026-03-10T21:50")


def test_what_happens_in_one_digest_is_due_at_its_end() -> None:
    first, second = (compute_due(one * NANOS, 3600, None) for one in (3601, 7200))
    assert first == second == 7200 * NANOS
    assert compute_due(7201 * NANOS, 3600, None) == 10_800 * NANOS


@given(st.integers(0, 2**61), st.sampled_from(["22:00-07:00", "00:00-23:59", "06:00-06:01"]))
def test_a_due_time_is_never_before_and_never_quiet(now_ns: int, hours: str) -> None:
    quiet = parse_quiet_hours(hours, "America/St_Johns")
    due = compute_due(now_ns, 0, quiet)
    assert due >= now_ns
    assert compute_due(due, 0, quiet) == due


@pytest.mark.parametrize("text", ["22-7", "24:00-01:00", "22:00-22:00", "22:00 - 07:00", "x"])
def test_wrong_quiet_hours_are_refused(text: str) -> None:
    with pytest.raises(BadOption):
        parse_quiet_hours(text, "UTC")


@pytest.mark.parametrize(
    "name", ["Mars/Base", "", "../etc/passwd", "/etc/passwd", "a\0b", "Europe"]
)
def test_a_wrong_time_zone_is_refused(name: str) -> None:
    with pytest.raises(BadOption):
        parse_zone(name)


def test_attempts_end_after_the_last_pause() -> None:
    assert compute_retry(1, 0) == RETRY_SECONDS[0] * NANOS
    assert compute_retry(len(RETRY_SECONDS), 0) == RETRY_SECONDS[-1] * NANOS
    assert compute_retry(len(RETRY_SECONDS) + 1, 0) is None
