"""`gpupool simulate` needs no pool, writes whole files or none, and refuses with the next step."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpupool.cli import simulate
from gpupool.cli.main import main

SMALL = "synthetic:days=1,cards=4,cards_per_node=4,load_pct=50,median_seconds=14400"


def test_it_works_without_a_pool_and_prints_a_row_per_policy(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["--state-dir", str(tmp_path / "none"), "simulate", SMALL, "--policy", "binpack"]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[0].split() == [
        "POLICY", "ALLOCATED", "%", "FRAGMENTS", "%", "WHOLE", "NODES", "WAIT", "P50", "P95", "P99", "JOBS", "NEVER",
        "STARTED", "EVICTIONS",
    ]  # fmt: skip
    assert out.splitlines()[1].startswith("binpack")
    assert err == ""
    assert not (tmp_path / "none").exists()


def test_it_writes_the_document_and_the_page(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["simulate", SMALL, "--out", str(tmp_path / "result"), "-o", "json"]) == 0
    found = json.loads((tmp_path / "result" / "results.json").read_text())
    assert found == json.loads(capsys.readouterr().out)
    assert (tmp_path / "result" / "report.html").read_text().startswith("<!doctype html>")
    assert sorted(path.name for path in (tmp_path / "result").iterdir()) == ["report.html", "results.json"]


def test_ctrl_c_leaves_nothing_written(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("gpupool.simulation.study.live", interrupted)
    assert main(["simulate", SMALL, "--out", str(tmp_path / "result")]) == 130
    assert not (tmp_path / "result").exists()


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["sample", "--policy", "binpak"], 2, "did you mean binpack?"),
        (["nothing.csv"], 2, "GP-1030: nothing.csv cannot be read"),
        (["synthetic:day=1"], 2, "did you mean days?"),
        (["sample", "--nodes", "4xH2000"], 2, "GP-1020"),
        (["sample", "--seeds", "0"], 2, "--seeds 0"),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_next_step(
    words: list[str], code: int, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", *words]) == code
    assert says in capsys.readouterr().err


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert main(["simulate", SMALL, "--out", str(tmp_path / "file")]) == 7
    assert "cannot be written" in capsys.readouterr().err


def test_the_bar_is_for_terminals_alone(capsys: pytest.CaptureFixture[str]) -> None:
    from gpupool.cli.context import Context

    with simulate.progress(Context(), "simulating") as told:
        told(0.5)
    assert capsys.readouterr().err == ""
