"""Lives of a simulation as a record: whole or not at all, and checked by its rules."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpupool.cli.main import main
from gpupool.simulation.traces.decision_files import read_decisions

SMALL = (
    "synthetic:days=1,cards=4,cards_per_node=4,load_pct=120,low_pct=40,high_pct=20,"
    "gang_pct=10,several_pct=20,share_pct=30"
)


@pytest.mark.parametrize("record", ["run.claims.csv", "run.nodes.csv", "run.csv"])
def test_a_record_is_not_written_over_a_list_that_is_read(
    record: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("run.claims.csv").write_text("job,arrival_seconds,gpu_milli,seconds\na,0,500,1\n")
    Path("run.nodes.csv").write_text("sn,cpu_milli,memory_mib,gpu,model\nn1,1000,1000,1,T4\n")
    before = Path("run.claims.csv").read_text()
    assert main(["simulate", "run.claims.csv", "--nodes", "run.nodes.csv", "--record", record]) == 2
    assert "would overwrite run." in capsys.readouterr().err
    assert Path("run.claims.csv").read_text() == before


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--record", ""], "--record has no name of a file"),
        (["--check", ""], "--check has no name of a file"),
        (["--page", ""], "--page has no name of a file"),
        (["--out", ""], "--out has no name of a file"),
        (["--record", "a.csv", "--check", "b.csv"], "--check simulates nothing"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", SMALL, *words]) == 2
    assert says in capsys.readouterr().err


def test_ctrl_c_in_the_middle_of_a_life_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("gpupool.simulation.studies.decisions.DecisionRecorder.on_end", interrupted)
    for name in ("run.csv", "run.parquet"):
        assert main(["simulate", SMALL, "--record", str(tmp_path / "new" / name)]) == 130
    assert list((tmp_path / "new").iterdir()) == []


def test_a_device_and_a_folder_are_refused_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        "gpupool.simulation.replay.parallel.run_all", lambda *_, **__: pytest.fail("it ran")
    )
    os.mkfifo(tmp_path / "fifo")
    for path, says in (("fifo", "it is no plain file"), (".", "it is a folder")):
        assert main(["simulate", SMALL, "--record", str(tmp_path / path)]) == 7
        assert says in capsys.readouterr().err


def test_records_of_made_up_traces_are_of_one_seed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", SMALL, "--record", str(tmp_path / "run.csv"), "--seeds", "2"]) == 2
    assert "--seeds 1" in capsys.readouterr().err
    assert (
        main(
            [
                "simulate",
                "sample",
                "--record",
                str(tmp_path / "run.csv"),
                "--seeds",
                "2",
                "--policy",
                "binpack",
            ]
        )
        == 0
    )
    assert {row["seed"] for row in read_decisions(str(tmp_path / "run.csv"))} == {"42", "43"}


def test_lives_of_several_policies_are_in_one_record_and_fit_their_results(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, path = str(tmp_path / "out"), tmp_path / "run.parquet"
    assert (
        main(["simulate", SMALL, "--policy", "fgd,binpack", "--record", str(path), "--out", out])
        == 0
    )
    lines = list(read_decisions(str(path)))
    assert list(dict.fromkeys(row["policy"] for row in lines)) == ["fgd", "binpack"]
    assert all(row["score"] for row in lines if row["event"] == "placed")
    assert any("fragments=" in row["parts"] for row in lines if row["policy"] == "fgd")
    check = [
        "simulate",
        str(tmp_path / "run.claims.csv"),
        "--nodes",
        str(tmp_path / "run.nodes.csv"),
        "--check",
    ]
    assert main([*check, str(path), "--out", out]) == 0
    results = tmp_path / "out" / "results.json"
    results.write_text(results.read_text().replace('"evictions": ', '"evictions": 1', 1))
    capsys.readouterr()
    assert main([*check, str(path), "--out", out]) == 1
    assert "evictions" in capsys.readouterr().out
