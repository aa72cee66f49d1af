"""A record by the FGD paper's protocol: what is in it, and that the command checks it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpupool.cli.main import main
from gpupool.simulation.replay.protocol_record import COLUMNS
from tests.support.protocol_lists import NODES, first, pods, rows, rules


def test_a_record_has_every_arrival_in_order_by_policy_and_seed(folder: Path) -> None:
    lines = rows((folder / "run.csv").read_text())
    assert tuple(lines[0]) == COLUMNS
    lives = list(dict.fromkeys((row["policy"], row["seed"]) for row in lines))
    assert lives == [("default", "42"), ("default", "43"), ("fgd", "42"), ("fgd", "43")]
    life = first(folder)
    assert [int(row["order"]) for row in life] == list(range(1, len(life) + 1))
    assert {row["event"] for row in life} == {"placed", "dropped"}
    assert all(row["reason"] for row in life)
    assert all(row["score"] for row in life if row["event"] == "placed")
    assert len({row["claim"] for row in life}) == len(life) > len({row["pod"] for row in life}) == 8


def test_the_record_changes_no_result_and_fits_it(folder: Path, tmp_path: Path) -> None:
    words = [
        "simulate",
        str(folder / "pods.csv"),
        "--nodes",
        str(folder / "nodes.csv"),
        "--protocol",
        "fgd",
    ]
    assert main([*words, "--policy", "default,fgd", "--seeds", "2", "--out", str(tmp_path)]) == 0
    results = (folder / "results.json").read_text()
    assert (tmp_path / "results.json").read_text() == results
    assert rules(rows((folder / "run.csv").read_text()), json.loads(results)) == []


def test_the_command_checks_by_the_raw_lists(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["simulate", str(folder / "pods.csv"), "--nodes", str(folder / "nodes.csv"), "--check"]
    assert main([*words, str(folder / "run.csv"), "--out", str(folder)]) == 0
    assert capsys.readouterr().out.endswith("run.csv: no fault\n")
    bad = folder / "bad.csv"
    bad.write_text("".join((folder / "run.csv").read_text().splitlines(keepends=True)[:20]))
    assert main([*words, str(bad), "-o", "json"]) == 1
    faults = json.loads(capsys.readouterr().out)["faults"]
    assert {fault["rule"] for fault in faults} == {"cut off"}


def test_pods_of_one_name_are_told_apart_by_what_they_ask(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text(NODES)
    (tmp_path / "pods.csv").write_text(pods() + "pod-00,1,1,1,100,\npod-00,2,2,1,200,\n")
    words = ["simulate", str(tmp_path / "pods.csv"), "--nodes", str(tmp_path / "nodes.csv")]
    record = str(tmp_path / "run.csv")
    assert main([*words, "--protocol", "fgd", "--policy", "fgd", "--record", record]) == 0
    assert main([*words, "--check", record]) == 0
