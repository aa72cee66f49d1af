"""Help of every command, and the formats that programs read of every list and object."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from gpupool.cli.main import main
from gpupool.terminal.commands import SUMMARIES
from tests.unit.cli.golden import compare
from tests.unit.cli.sample import answers
from tests.unit.client.scripted_pool import ScriptedPool

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("name", ["", *SUMMARIES])
def test_help_says_what_it_said(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name, "--help"] if name else []) == 0
    compare(f"help/{name or 'gpupool'}", capsys.readouterr().out)


@pytest.mark.parametrize("name", SUMMARIES)
def test_help_is_the_same_by_both_ways_and_fits_the_width(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main([name, "--help"])
    first = capsys.readouterr().out
    main(["help", name])
    assert capsys.readouterr().out == first
    assert max(map(len, first.splitlines())) <= 120
    assert "examples:" in first or "options:" in first


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


def test_an_empty_csv_still_has_its_head(
    pool: ScriptedPool, capsys: pytest.CaptureFixture[str]
) -> None:
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
    done = subprocess.run(
        [sys.executable, script, "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
