"""`gpupool report --promises`: what became of each promise, and unknown where nothing counts."""

from __future__ import annotations

from gpupool.cli.accounts import report
from gpupool.cli.accounts.promises import sum_promises
from tests.unit.cli.sample import report as sample_report


def test_a_sum_of_which_a_part_is_not_counted_is_unknown() -> None:
    counted, uncounted = sample_report()["rows"][:2]
    assert sum_promises([counted, counted])["denied_gpu_milliseconds"] == 72_000
    total = sum_promises([counted, uncounted])
    assert (total["card_milliseconds"], total["denied_gpu_milliseconds"]) == (6_300_000, None)


def test_promises_of_jobs_say_what_limits_them() -> None:
    rows = []
    for sharing in ("fixed", "burst", "best-effort", "offline", None):
        rows.append({**sample_report()["rows"][0], "job": f"j-{sharing}", "sharing": sharing})
    lines = report.format_promises({**sample_report(), "rows": rows}).splitlines()
    limits = ("its promise", "the card", "what is left", "what all others leave")
    assert lines[2].endswith("LIMITED TO")
    for line, limit in zip(lines[3:7], limits, strict=True):
        assert line.rstrip().endswith(limit)
    total = lines[8].split()
    assert total[:3] == ["total", "7.5000", "h"]


def test_promises_of_a_range_without_shares_are_an_answer() -> None:
    text = report.format_promises({**sample_report(), "rows": sample_report()["rows"][2:]})
    assert text.endswith("no share was held in this range")
