"""`gpupool reservation`: times become instants, and what makes no sense is refused."""

from __future__ import annotations

from argparse import Namespace
from datetime import UTC, datetime
from typing import Any

import pytest

from gpupool.base.errors import BadDuration, BadOption
from gpupool.cli.pool.reservation import SLACK_NS, make_request
from tests.unit.cli.golden import GoldenLine


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("reservations", "reservation list"),
    ],
)
def test_reservation_list_prints_the_recorded_output(
    name: str, line: str, golden_line: GoldenLine
) -> None:
    golden_line(name, line)


NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
NOON_NS = int(NOON.timestamp()) * 10**9


def asked(**given: Any) -> Namespace:
    facts: dict[str, Any] = {"name": "demo", "gpu": "1", "memory": None, "count": None}
    facts |= {"model": None, "label": [], "nodes": 2, "start": None, "lasts": None}
    return Namespace(**{**facts, "every": None, "until": None, "tenant": None, **given})


def test_a_start_now_has_the_slack_and_its_end_counts_from_now() -> None:
    body = make_request(asked(lasts=60), NOON)
    assert body["start_ns"] == NOON_NS + SLACK_NS
    assert body["end_ns"] == NOON_NS + 60 * 10**9
    assert (body["replicas"], body["every_seconds"], body["until_ns"]) == (2, None, None)
    assert make_request(asked(), NOON)["end_ns"] is None


def test_a_repetition_has_its_period_and_its_last_day() -> None:
    body = make_request(
        asked(start="2026-12-01T08:00", lasts=3600, every="week", until="2027-01-01"), NOON
    )
    assert body["start_ns"] == int(datetime(2026, 12, 1, 8, tzinfo=UTC).timestamp()) * 10**9
    assert body["every_seconds"] == 604_800
    assert body["until_ns"] == int(datetime(2027, 1, 1, tzinfo=UTC).timestamp()) * 10**9


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"every": "day"}, "what comes again needs an end"),
        ({"until": "2027-01-01"}, "--until without --every"),
    ],
)
def test_a_repetition_without_an_end_or_a_period_is_refused(
    given: dict[str, Any], says: str
) -> None:
    with pytest.raises(BadOption, match=says):
        make_request(asked(**given), NOON)


def test_a_start_in_the_past_is_refused_with_the_time_it_is() -> None:
    with pytest.raises(BadDuration, match="is in the past: it is 2026-11-21T12:00:00Z"):
        make_request(asked(start="2026-11-20T08:00"), NOON)
