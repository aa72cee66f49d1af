"""Instants follow the clocks of a zone, also where those are set."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from gpupool.allocations.schedules.instants import CronRule
from gpupool.base.errors import BadSchedule
from gpupool.base.units import NANOS_PER_SECOND


def ns(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * NANOS_PER_SECOND


def text(at_ns: int) -> str:
    return datetime.fromtimestamp(at_ns / NANOS_PER_SECOND, UTC).strftime("%Y-%m-%dT%H:%M")


def list_instants(rule: CronRule, after: str, count: int) -> list[str]:
    found = list[str]()
    at_ns = ns(after)
    for _ in range(count):
        at_ns = rule.find_next(at_ns)
        found.append(text(at_ns))
    return found


def test_an_instant_is_by_the_clocks_of_its_zone() -> None:
    rule = CronRule("0 2 * * *", "Asia/Shanghai")
    assert list_instants(rule, "2026-11-29T00:00", 2) == ["2026-11-29T18:00", "2026-11-30T18:00"]


def test_a_night_whose_hour_is_left_out_has_its_instant_right_after() -> None:
    rule = CronRule("30 2 * * *", "Europe/Berlin")
    # At 2:00 the clocks go to 3:00, which is 1:00 UTC.
    assert list_instants(rule, "2026-03-28T12:00", 2) == ["2026-03-29T01:00", "2026-03-30T00:30"]


def test_a_night_whose_hour_comes_twice_has_its_instant_once() -> None:
    rule = CronRule("30 2 * * *", "Europe/Berlin")
    assert list_instants(rule, "2026-10-24T12:00", 2) == ["2026-10-25T00:30", "2026-10-26T01:30"]


def test_no_instant_lies_before_a_time_in_an_hour_that_comes_again() -> None:
    rule = CronRule("30 2 * * *", "Europe/Berlin")
    # 2:10 after the clocks went back from 3:00: that of 2:30 was 40 minutes ago.
    assert list_instants(rule, "2026-10-25T01:10", 1) == ["2026-10-26T01:30"]
    assert text(rule.list_next(ns("2026-10-25T01:00"), 1)[0]) == "2026-10-26T01:30"


def test_missed_instants_are_counted_and_the_last_is_due() -> None:
    rule = CronRule("0 * * * *", "UTC")
    due = rule.list_due(ns("2026-11-29T00:00"), ns("2026-11-29T03:20"))
    assert (text(due.last_ns), due.earlier) == ("2026-11-29T03:00", 3)
    assert text(due.next_ns) == "2026-11-29T04:00"


def test_years_of_missed_minutes_are_not_counted_one_by_one() -> None:
    due = CronRule("* * * * *", "UTC").list_due(ns("2020-01-01T00:00"), ns("2026-01-01T00:00"))
    assert text(due.next_ns) == "2026-01-01T00:01"
    assert text(due.last_ns) == "2026-01-01T00:00", "within its deadline it is made up for"


@pytest.mark.parametrize(
    ("expression", "zone"),
    [
        ("0 2 * *", "UTC"),
        ("0 2 * * * *", "UTC"),
        ("61 2 * * *", "UTC"),
        ("0 0 30 2 *", "UTC"),
        ("0 2 * * *", "Mars/Olympus"),
        ("0 2 * * *", "../etc/passwd"),
        ("@daily x y z w", "UTC"),
    ],
)
def test_what_is_no_schedule_is_refused(expression: str, zone: str) -> None:
    with pytest.raises(BadSchedule):
        CronRule(expression, zone).check(ns("2026-11-29T00:00"))


def test_next_instants_are_those_of_the_zone_and_a_fault_names_its_field() -> None:
    rule = CronRule("30 2 * * *", "Europe/Berlin")
    found = [text(each) for each in rule.list_next(ns("2026-11-29T00:00"), 2)]
    assert found == ["2026-11-29T01:30", "2026-11-30T01:30"]
    for expression, zone, field in (
        ("61 2 * * *", "UTC", "cron"),
        ("0 2 * *", "UTC", "cron"),
        ("0 2 * * *", "Mars/Olympus", "time_zone"),
    ):
        with pytest.raises(BadSchedule) as refusal:
            CronRule(expression, zone).list_next(ns("2026-11-29T00:00"), 2)
        (problem,) = refusal.value.details["fields"]
        assert problem["field"] == field
