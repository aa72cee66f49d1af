"""Lists: a limit for people, everything for programs, unknown values as unknown."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest

from gpupool.base.errors import BadOption
from gpupool.terminal import listing
from gpupool.terminal.context import CommandContext
from tests.unit.cli.sample import sample_pool

NOW = 1_795_262_400_000_000_000


@pytest.mark.parametrize(("output", "count", "more"), [("table", 2, True), ("json", 5, False)])
def test_the_limit_is_for_tables_and_programs_get_everything(
    output: str, count: int, more: bool, tmp_path: Path
) -> None:
    with sample_pool(tmp_path):
        rows, left = listing.fetch_rows(CommandContext(str(tmp_path)), "jobs", {}, output, 2)
    assert (len(rows), left) == (count, more)


def test_a_table_that_is_not_whole_says_how_to_get_more(
    capsys: pytest.CaptureFixture[str],
) -> None:
    listing.print_more_hint(100)
    assert capsys.readouterr().err == (
        "gpupool: only the first 100 are shown; more with --limit 1000, all with -o json\n"
    )


@pytest.mark.parametrize("limit", ["0", "1000001", "many"])
def test_a_limit_beyond_its_bounds_is_refused(limit: str) -> None:
    parser = argparse.ArgumentParser()
    listing.add_limit(parser)
    assert parser.parse_args([]).limit == listing.LIMIT
    with pytest.raises(BadOption, match="from 1 to 1000000"):
        parser.parse_args(["--limit", limit])


def test_an_age_is_never_negative(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time_ns", lambda: NOW)
    assert listing.describe_age(NOW - 65 * 10**9) == "1:05"
    assert listing.describe_age(NOW + 10**12) == listing.describe_age(NOW)
    assert listing.describe_age(None) is None


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (listing.describe_compute(300), "0.30 GPU (30 %)"),
        (listing.describe_memory(0), "0 MiB"),
        (listing.describe_memory(None), None),
        (listing.describe_limit(None), "no limit"),
        (listing.describe_limit(0), "0.00 GPU"),
        (listing.describe_memory_limit(None), "no limit"),
        (listing.describe_memory_limit(3 << 20), "3 MiB"),
        (listing.describe_instant(None), None),
    ],
)
def test_zero_is_a_value_and_none_is_none(text: Any, shown: Any) -> None:
    assert text == shown
