"""Records as files: CSV and Parquet hold the same, and are there whole or not at all."""

from __future__ import annotations

import builtins
import csv
import io
import os
from pathlib import Path
from typing import Any

import pytest

from gpupool.cli.main import main
from gpupool.simulation import decisions, protocol_record
from gpupool.simulation.decision_files import read, written

SMALL = (
    "synthetic:days=1,cards=4,cards_per_node=4,load_pct=120,low_pct=40,high_pct=20,"
    "gang_pct=10,several_pct=20,share_pct=30"
)
LIFE = (
    "fgd",
    42,
    "0.000000001",
    "placed",
    "a",
    "nlp",
    "n1",
    "0 1",
    500,
    1 << 30,
    0,
    0,
    2000,
    "1000 1000",
    -7,
    "",
    "it, and",
)
LEFT = ("fgd", 42, "86400.5", "left", "b", "nlp", "", "", 0, 0, 0, 0, "", "", "", "", 'says "no"')


@pytest.mark.parametrize("name", ["run.csv", "run.parquet", "RUN.PARQUET"])
def test_what_is_written_is_read(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    with written(path, decisions.COLUMNS) as file:
        file.write([LIFE])
        file.write([])
        file.write([LEFT])
    assert [list(row.values()) for row in read(str(path))] == [[*map(str, one)] for one in (LIFE, LEFT)]
    assert os.listdir(tmp_path) == [name]


def test_parquet_has_numbers_as_numbers(tmp_path: Path) -> None:
    import pyarrow.parquet

    with written(tmp_path / "run.parquet", protocol_record.COLUMNS):
        pass
    kinds = {field.name: str(field.type) for field in pyarrow.parquet.read_schema(tmp_path / "run.parquet")}
    assert {kinds[name] for name in ("seed", "order", "gpu_milli", "host_bytes", "level", "score")} == {"int64"}
    assert {kinds[name] for name in ("policy", "claim", "node", "cards", "parts", "reason")} == {"string"}


def write_in_part(path: Path) -> None:
    with written(path, decisions.COLUMNS) as file:
        file.write([LIFE])
        raise KeyboardInterrupt


def test_what_is_interrupted_leaves_nothing_and_what_was_there_stays(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    path.write_text("before")
    for name in ("run.csv", "run.parquet"):
        with pytest.raises(KeyboardInterrupt):
            write_in_part(tmp_path / name)
    assert path.read_text() == "before"
    assert os.listdir(tmp_path) == ["run.csv"]


def test_ctrl_c_in_the_middle_of_a_life_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("gpupool.simulation.decisions.DecisionRecorder.ended", interrupted)
    for name in ("run.csv", "run.parquet"):
        assert main(["simulate", SMALL, "--record", str(tmp_path / "new" / name)]) == 130
    assert list((tmp_path / "new").iterdir()) == []


def test_a_device_and_a_folder_are_refused_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("gpupool.simulation.parallel.run_all", lambda *_, **__: pytest.fail("it ran"))
    os.mkfifo(tmp_path / "fifo")
    for path, says in (("fifo", "it is no plain file"), (".", "it is a folder")):
        assert main(["simulate", SMALL, "--record", str(tmp_path / path)]) == 7
        assert says in capsys.readouterr().err


def test_a_missing_pyarrow_is_named_with_the_command_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    known = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name.split(".")[0] == "pyarrow":
            raise ModuleNotFoundError(f"No module named {name!r}", name="pyarrow")
        return known(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    monkeypatch.setattr("gpupool.simulation.parallel.run_all", lambda *_, **__: pytest.fail("it ran"))
    assert main(["simulate", SMALL, "--record", str(tmp_path / "run.parquet")]) == 7
    assert "pip install 'gpupool[parquet]'" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["run.csv", "run.parquet"])
def test_a_record_that_was_cut_off_is_named(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / name
    assert main(["simulate", SMALL, "--record", str(path)]) == 0
    check = ["simulate", str(tmp_path / "run.claims.csv"), "--nodes", str(tmp_path / "run.nodes.csv"), "--check"]
    assert main([*check, str(path)]) == 0
    capsys.readouterr()
    path.write_bytes(path.read_bytes()[:-9])
    assert main([*check, str(path)]) in (1, 2)
    told = capsys.readouterr()
    assert "was it cut off?" in told.err or "is it whole?" in told.err or "unreadable" in told.out or "lost" in told.out


def test_lives_of_several_policies_are_in_one_record_and_fit_their_results(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, path = str(tmp_path / "out"), tmp_path / "run.parquet"
    assert main(["simulate", SMALL, "--policy", "fgd,binpack", "--record", str(path), "--out", out]) == 0
    lines = list(read(str(path)))
    assert list(dict.fromkeys(row["policy"] for row in lines)) == ["fgd", "binpack"]
    assert all(row["score"] for row in lines if row["event"] == "placed")
    assert any("fragments=" in row["parts"] for row in lines if row["policy"] == "fgd")
    check = ["simulate", str(tmp_path / "run.claims.csv"), "--nodes", str(tmp_path / "run.nodes.csv"), "--check"]
    assert main([*check, str(path), "--out", out]) == 0
    results = tmp_path / "out" / "results.json"
    results.write_text(results.read_text().replace('"evictions": ', '"evictions": 1', 1))
    capsys.readouterr()
    assert main([*check, str(path), "--out", out]) == 1
    assert "evictions" in capsys.readouterr().out


def test_jobs_that_never_start_are_lines_with_their_reason(tmp_path: Path) -> None:
    jobs, path = tmp_path / "jobs.csv", tmp_path / "run.csv"
    # The second never fits beside the first, whose end comes after all that the clock is moved on for.
    jobs.write_text(
        "job,arrival_seconds,gpu_milli,seconds,cards,preemptible,priority\na,0,1000,100,3,0,0\nb,0,1000,10,9,0,0\n"
    )
    assert main(["simulate", str(jobs), "--nodes", "4xH200", "--record", str(path)]) == 0
    lines = {row["claim"]: row for row in csv.DictReader(io.StringIO(path.read_text()))}
    assert lines["b"]["event"] == "refused"
    assert lines["b"]["reason"]


def test_records_of_made_up_traces_are_of_one_seed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", SMALL, "--record", str(tmp_path / "run.csv"), "--seeds", "2"]) == 2
    assert "--seeds 1" in capsys.readouterr().err
    assert (
        main(["simulate", "sample", "--record", str(tmp_path / "run.csv"), "--seeds", "2", "--policy", "binpack"]) == 0
    )
    assert {row["seed"] for row in read(str(tmp_path / "run.csv"))} == {"42", "43"}


@pytest.mark.parametrize(
    ("claims", "says"),
    [
        ("job,arrival_seconds,gpu_milli,seconds\na,x,500,1\n", "line 2, column arrival_seconds"),
        ("job,arrival_seconds,gpu_milli,seconds\na,0,500,1\nb,0\n", "line 3: 2 cells, the header has 4"),
        ("name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,1,1,1,1001\n", "line 2, column gpu_milli"),
        ("job,arrival_seconds,gpu_milli,seconds\n", "it has a header and no lines"),
    ],
)
def test_check_names_the_line_of_a_bad_list(
    claims: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "claims.csv").write_text(claims)
    (tmp_path / "nodes.csv").write_text("sn,cpu_milli,memory_mib,gpu,model\nn1,1000,1000,1,T4\n")
    (tmp_path / "run.csv").write_text(",".join(decisions.COLUMNS) + "\n")
    words = ["simulate", str(tmp_path / "claims.csv"), "--nodes", str(tmp_path / "nodes.csv")]
    assert main([*words, "--check", str(tmp_path / "run.csv")]) == 2
    assert says in capsys.readouterr().err


def test_a_record_of_the_other_kind_is_refused_with_what_made_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "claims.csv").write_text("job,arrival_seconds,gpu_milli,seconds\na,0,500,1\n")
    (tmp_path / "nodes.csv").write_text("sn,cpu_milli,memory_mib,gpu,model\nn1,1000,1000,1,T4\n")
    words = ["simulate", str(tmp_path / "claims.csv"), "--nodes", str(tmp_path / "nodes.csv"), "--check"]
    (tmp_path / "run.csv").write_text(",".join(protocol_record.COLUMNS) + "\n")
    assert main([*words, str(tmp_path / "run.csv")]) == 2
    assert "--protocol fgd" in capsys.readouterr().err
    (tmp_path / "run.csv").write_text(",".join(decisions.COLUMNS) + "\n")
    assert main([*words, str(tmp_path / "run.csv")]) == 1
    assert "it has no line" in capsys.readouterr().out


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
