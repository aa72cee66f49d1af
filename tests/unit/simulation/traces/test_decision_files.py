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
from gpupool.simulation.replay import protocol_record
from gpupool.simulation.studies import decisions
from gpupool.simulation.traces.decision_files import open_table, read_decisions

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
    with open_table(path, decisions.COLUMNS) as file:
        file.write_rows([LIFE])
        file.write_rows([])
        file.write_rows([LEFT])
    assert [list(row.values()) for row in read_decisions(str(path))] == [
        [*map(str, one)] for one in (LIFE, LEFT)
    ]
    assert os.listdir(tmp_path) == [name]


def test_parquet_has_numbers_as_numbers(tmp_path: Path) -> None:
    import pyarrow.parquet

    with open_table(tmp_path / "run.parquet", protocol_record.COLUMNS):
        pass
    kinds = {
        field.name: str(field.type)
        for field in pyarrow.parquet.read_schema(tmp_path / "run.parquet")
    }
    assert {
        kinds[name] for name in ("seed", "order", "gpu_milli", "host_bytes", "level", "score")
    } == {"int64"}
    assert {kinds[name] for name in ("policy", "claim", "node", "cards", "parts", "reason")} == {
        "string"
    }


def write_in_part(path: Path) -> None:
    with open_table(path, decisions.COLUMNS) as file:
        file.write_rows([LIFE])
        raise KeyboardInterrupt


def test_what_is_interrupted_leaves_nothing_and_what_was_there_stays(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    path.write_text("before")
    for name in ("run.csv", "run.parquet"):
        with pytest.raises(KeyboardInterrupt):
            write_in_part(tmp_path / name)
    assert path.read_text() == "before"
    assert os.listdir(tmp_path) == ["run.csv"]


def test_a_missing_pyarrow_is_named_with_the_command_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    known = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name.split(".")[0] == "pyarrow":
            raise ModuleNotFoundError(f"No module named {name!r}", name="pyarrow")
        return known(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    monkeypatch.setattr(
        "gpupool.simulation.replay.parallel.run_all", lambda *_, **__: pytest.fail("it ran")
    )
    assert main(["simulate", SMALL, "--record", str(tmp_path / "run.parquet")]) == 7
    assert "pip install 'gpupool[parquet]'" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["run.csv", "run.parquet"])
def test_a_record_that_was_cut_off_is_named(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    assert main(["simulate", SMALL, "--record", str(path)]) == 0
    check = [
        "simulate",
        str(tmp_path / "run.claims.csv"),
        "--nodes",
        str(tmp_path / "run.nodes.csv"),
        "--check",
    ]
    assert main([*check, str(path)]) == 0
    capsys.readouterr()
    path.write_bytes(path.read_bytes()[:-9])
    assert main([*check, str(path)]) in (1, 2)
    told = capsys.readouterr()
    assert (
        "was it cut off?" in told.err
        or "is it whole?" in told.err
        or "unreadable" in told.out
        or "lost" in told.out
    )


def test_jobs_that_never_start_are_lines_with_their_reason(tmp_path: Path) -> None:
    jobs, path = tmp_path / "jobs.csv", tmp_path / "run.csv"
    # The second never fits beside the first, whose end comes after all that the clock is moved on
    # for.
    jobs.write_text(
        "job,arrival_seconds,gpu_milli,seconds,cards,preemptible,priority\na,0,1000,100,3,0,0\nb,0,1000,10,9,0,0\n"
    )
    assert main(["simulate", str(jobs), "--nodes", "4xH200", "--record", str(path)]) == 0
    lines = {row["claim"]: row for row in csv.DictReader(io.StringIO(path.read_text()))}
    assert lines["b"]["event"] == "refused"
    assert lines["b"]["reason"]
