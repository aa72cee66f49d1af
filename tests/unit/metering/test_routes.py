"""Points in time as people and programs write them in a request."""

from __future__ import annotations

import pytest

from gpupool.base.errors import BadDuration
from gpupool.metering.routes import parse_instant_ns

S = 10**9
NOW = 1_700_000_000 * S
LAST_SECOND = 253_402_300_799


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        (" now ", NOW),
        ("2h", NOW - 7200 * S),
        ("1970-01-01", 0),
        ("1970-01-01T00:00:00.000250Z", 250_000),
        ("1500000000000000001", 1_500_000_000_000_000_001),
        (str(LAST_SECOND * S), LAST_SECOND * S),
    ],
)
def test_parse_instant_reads_what_people_and_programs_write(text: str, instant: int) -> None:
    assert parse_instant_ns(text, NOW) == instant


@pytest.mark.parametrize(
    "text", [str(LAST_SECOND * S + 1), "9" * 30, "1969-12-31", "100000d", "999999999d"]
)
def test_parse_instant_before_1970_or_after_9999_is_refused(text: str) -> None:
    with pytest.raises(BadDuration) as caught:
        parse_instant_ns(text, NOW)
    assert caught.value.exit_code == 2


def test_parse_instant_of_no_time_names_the_text() -> None:
    with pytest.raises(BadDuration, match="yesterday-ish"):
        parse_instant_ns("yesterday-ish", NOW)
