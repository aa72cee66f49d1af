"""The bench's table tells what was measured: unknown is `--`, a missed limit is said, and JSON
loses nothing."""

import json
from pathlib import Path

import pytest

from bench import __main__ as bench_main
from bench.__main__ import _row, main
from bench.rows import Row, median_row, table


def test_a_ratio_within_its_limit_holds_and_beyond_it_is_missed() -> None:
    kept = Row("run", "s", ours=0.06, peer=0.03, command="gpupool run", limit_ratio=2)
    missed = Row("run", "s", ours=0.07, peer=0.03, command="gpupool run", limit_ratio=2)
    assert (kept.holds, missed.holds) == (True, False)


def test_a_missing_peer_is_unknown_and_decides_nothing() -> None:
    row = Row("run", "s", ours=0.06, command="gpupool run", limit_ratio=2)
    assert (row.ratio, row.holds) == (None, None)
    assert table([row]).splitlines()[1].split() == ["run", "0.06", "s", "--", "--", "2x"]


def test_our_own_limit_is_checked_without_a_peer() -> None:
    row = Row("idle", "MiB", ours=151, command="gpupool up", limit=150)
    assert table([row]).splitlines()[1].split() == [
        "idle",
        "151",
        "MiB",
        "--",
        "--",
        "150",
        "MiB",
        "MISSED",
    ]


def test_a_rate_that_must_not_fall_below_a_share_of_the_peers_is_checked_from_below() -> None:
    rows = [
        Row("binds", "/s", ours=ours, peer=100, command="bench", least_ratio=0.6)
        for ours in (60, 59)
    ]
    assert [row.holds for row in rows] == [True, False]
    assert ">=0.6x" in table(rows)
    assert Row("binds", "/s", ours=60, command="bench", least_ratio=0.6).holds is None


def test_how_far_apart_two_figures_are_is_checked_either_way() -> None:
    rows = [
        Row("fgd", "%", ours=ours, peer=95, command="simulate", limit_apart=0.25)
        for ours in (95.25, 94.75, 94.7)
    ]
    assert [row.holds for row in rows] == [True, True, False]
    assert "±0.25 %" in table(rows)
    assert Row("fgd", "%", ours=95, command="simulate", limit_apart=0.25).holds is None


def test_medians_are_taken_of_both_sides() -> None:
    row = median_row("run", "ours", [0.1, 0.9, 0.2], peer_samples=[1.0, 2.0, 9.0], limit_ratio=2)
    assert (row.ours, row.peer) == (0.2, 2.0)
    assert row.ratio == pytest.approx(0.1)


def test_a_row_survives_json() -> None:
    row = median_row(
        "run", "ours", [0.1, 0.3], peer_samples=[0.2], peer_command="srun", note="cold"
    )
    assert _row(json.loads(json.dumps(row.as_json()))) == row


def test_an_unknown_bench_is_refused_with_the_names_there_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["no-such-bench", "--out", str(tmp_path / "out")]) == 2
    assert "no bench named no-such-bench; there are:" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_bench_writes_files_only_where_out_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    used = list[Path]()

    def measure(name: str, out: Path, rows: list[Row]) -> bool:
        used.append(out)
        rows.append(Row("run", "ms", ours=1.0, command=name))
        return True

    monkeypatch.setattr(bench_main, "_run_in_child", measure)
    assert main(["decisions"]) == 0
    assert "run" in capsys.readouterr().out
    assert not used[0].exists()
    assert main(["decisions", "--out", str(tmp_path / "out")]) == 0
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["results.json"]
