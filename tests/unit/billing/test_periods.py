"""Months and quarters in time zones."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from gpupool.base.errors import BadOption
from gpupool.billing.periods import find_month, find_period, parse_zone

SHANGHAI = parse_zone("Asia/Shanghai")


def test_a_month_begins_at_midnight_of_its_zone() -> None:
    month = find_month("2026-12", SHANGHAI)
    assert (
        datetime.fromtimestamp(month.start_s, ZoneInfo("UTC"))
        .isoformat()
        .startswith("2026-11-30T16:00")
    )
    assert month.end_s - month.start_s == 31 * 86_400


def test_a_month_in_which_clocks_change_has_an_hour_less() -> None:
    month = find_month("2026-03", parse_zone("Europe/Berlin"))
    assert month.end_s - month.start_s == 31 * 86_400 - 3600


def test_a_quarter_over_the_year_ends_with_december() -> None:
    second = int(datetime(2026, 12, 31, 23, 59, tzinfo=SHANGHAI).timestamp())
    quarter = find_period(second, "quarter", SHANGHAI)
    assert quarter.name == "2026-Q4"
    assert find_period(quarter.end_s, "quarter", SHANGHAI).name == "2027-Q1"
    assert find_period(second + 60, "month", SHANGHAI).name == "2027-01"


@pytest.mark.parametrize("name", ["Nowhere/City", "../etc/passwd", "", "Asia/Kolkata"])
def test_a_zone_that_is_unknown_or_off_by_half_an_hour_is_refused(name: str) -> None:
    with pytest.raises(BadOption):
        parse_zone(name)


@pytest.mark.parametrize("name", ["2026-13", "2026", "26-01", "0000-01"])
def test_text_that_is_no_month_is_refused(name: str) -> None:
    with pytest.raises(BadOption):
        find_month(name, SHANGHAI)
