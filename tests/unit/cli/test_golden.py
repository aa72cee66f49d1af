"""Whole outputs: help of every command, every list and object, in every format that people read."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from gpupool.cli.commands import SUMMARIES
from gpupool.cli.main import main
from tests.unit.cli.golden import compare
from tests.unit.cli.sample import NOW, answers, sample_pool
from tests.unit.client.scripted_pool import ScriptedPool

ROOT = Path(__file__).parents[3]


@pytest.fixture
def pool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedPool]:
    monkeypatch.setattr("time.time_ns", lambda: NOW)
    monkeypatch.setenv("GPUPOOL_STATE_DIR", str(tmp_path))
    with sample_pool(tmp_path) as running:
        yield running


def output(words: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> str:
    code = main(words.split())
    said = capsys.readouterr()
    parts = [said.out, f"--- stderr\n{said.err}" if said.err else "", f"--- exit {code}\n" if code else ""]
    return "".join(parts).replace(str(tmp_path), "/STATE")


@pytest.mark.parametrize("name", ["", *SUMMARIES])
def test_help_says_what_it_said(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name, "--help"] if name else []) == 0
    compare(f"help/{name or 'gpupool'}", capsys.readouterr().out)


@pytest.mark.parametrize("name", SUMMARIES)
def test_help_is_the_same_by_both_ways_and_fits_the_width(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    main([name, "--help"])
    first = capsys.readouterr().out
    main(["help", name])
    assert capsys.readouterr().out == first
    assert max(map(len, first.splitlines())) <= 120
    assert "examples:" in first or "options:" in first


LINES = {
    "ps": "ps",
    "ps-wide": "ps -o wide",
    "ps-limit": "ps --limit 2",
    "gpus": "gpus",
    "gpus-wide": "gpus -o wide",
    "show-job": "show train",
    "show-card": "show node-1:0",
    "show-node": "show node-1",
    "show-pool": "show",
    "show-nothing": "show nothing",
    "show-strange": "show ../../x",
    "explain": "explain big",
    "explain-gang": "explain mpi",
    "queue": "queue",
    "reservations": "reservation list",
    "saved": "saved train",
    "defrag": "defrag",
    "defrag-apply": "defrag --apply --yes",
    "rebalance": "rebalance",
    "rebalance-apply": "rebalance --apply --yes",
    "report": "report",
    "report-wide": "report -o wide",
    "report-csv": "report -o csv",
    "whoami": "whoami",
    "tenants": "tenant list",
    "tenant": "tenant show nlp",
    "quota": "quota show nlp",
    "quota-tree": "quota",
    "users": "user list",
    "tokens": "token list",
    "top": "top",
    "stop": "stop train",
    "stop-nothing": "stop",
    "tenant-delete": "tenant delete nlp",
    "submit": "submit --gpu 0.3 --memory 8GiB -- true",
    "run-bad-memory": "run --gpu 0.3 --memory 8 -- true",
    "run-no-command": "run --gpu 0.3",
    "run-not-found": "run --gpu 0.3 -- ./no-such-program",
}


@pytest.mark.parametrize("name", LINES)
def test_output_says_what_it_said(
    name: str, pool: ScriptedPool, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    compare(name, f"$ gpupool {LINES[name]}\n" + output(LINES[name], capsys, tmp_path))


@pytest.mark.parametrize(
    ("command", "path"),
    [
        ("ps", "jobs"),
        ("gpus", "devices"),
        ("tenant list", "tenants"),
        ("user list", "users"),
        ("token list", "tokens"),
        ("report", "report"),
        ("whoami", "whoami"),
        ("show", "pool"),
        ("quota show nlp", "tenants/nlp/quota"),
        ("quota", "quotas"),
    ],
)
def test_json_and_yaml_are_what_the_pool_said(
    command: str, path: str, pool: ScriptedPool, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command.split(), "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == answers()[path]
    assert main([*command.split(), "-o", "yaml"]) == 0
    assert yaml.safe_load(capsys.readouterr().out) == answers()[path]


def test_ps_as_json_has_every_page_and_the_fields_scripts_rely_on(
    pool: ScriptedPool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpupool.client.paging.PAGE", 2)
    assert main(["ps", "-o", "json", "--limit", "1"]) == 0
    jobs = json.loads(capsys.readouterr().out)
    assert len(jobs) == 5
    assert all({"name", "state", "gpu_milli", "memory_bytes", "device"} <= set(job) for job in jobs)


def test_a_csv_of_the_report_sums_to_the_capacity(pool: ScriptedPool, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "-o", "csv"]) == 0
    *rows, capacity = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert capacity["kind"] == "capacity"
    assert sum(int(row["card_milliseconds"]) for row in rows) == int(capacity["card_milliseconds"])
    assert int(capacity["card_milliseconds"]) == answers()["report"]["capacity_card_milliseconds"]
    assert {row["simulated"] for row in (*rows, capacity)} == {"SIMULATED"}
    assert all(row["since"] < row["until"] for row in rows)


def test_an_empty_csv_still_has_its_head(pool: ScriptedPool, capsys: pytest.CaptureFixture[str]) -> None:
    known = pool.handler
    from tests.unit.client.scripted_pool import reply

    pool.handler = lambda _: reply({"items": [], "next": None})
    assert main(["ps", "-o", "csv"]) == 0
    empty = capsys.readouterr().out
    pool.handler = known
    assert main(["ps", "-o", "csv"]) == 0
    assert empty.splitlines() == capsys.readouterr().out.splitlines()[:1]


def test_the_reference_of_the_command_line_is_current() -> None:
    script = ROOT / "tools" / "gen_cli_docs.py"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
