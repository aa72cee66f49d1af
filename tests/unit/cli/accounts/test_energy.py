"""`gpupool energy`: numbers as people write them, what the pool is asked, and what is shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpupool.base.errors import BadOption
from gpupool.cli.accounts.energy import run
from gpupool.terminal.context import CommandContext
from gpupool.terminal.parser import parse_command
from tests.unit.client.scripted_pool import Request, ScriptedPool, reply

FROM_NS = 1_796_083_200 * 10**9
FACTOR = {"from_ns": FROM_NS, "until_ns": None, "pue_milli": 1250, "grid_milligrams": 570_300}


def answer(asked: Request) -> bytes:
    found: dict[str, Any] = {**FACTOR, "set_by": "ada", "set_ns": 1}
    return reply([found] if asked.method == "GET" else found)


def call(tmp_path: Path, *words: str) -> list[Request]:
    folder = tmp_path / "-".join(words).replace("/", "-")
    folder.mkdir()
    with ScriptedPool(folder, answer) as server:
        assert run(parse_command("energy", list(words)), CommandContext(str(folder))) == 0
        return list(server.requests)


def test_factors_are_sent_as_integers_and_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (asked,) = call(tmp_path, "set", "--pue", "1.25", "--grid", "570.3", "--from", "2026-12")
    assert (asked.method, asked.target) == ("POST", "/api/v1/energy/factors")
    assert asked.json == {"from_ns": FROM_NS, "pue_milli": 1250, "grid_milligrams": 570_300}
    assert capsys.readouterr().out.startswith("PUE 1.25, 570.3 g CO2e per kWh from 2026-12-01")
    (asked,) = call(tmp_path, "set", "--pue", "1", "--grid", "0")
    assert asked.json == {"from_ns": None, "pue_milli": 1000, "grid_milligrams": 0}


def test_factors_are_listed_and_deleted_by_where_they_begin(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call(tmp_path, "show")
    assert "the next one" in capsys.readouterr().out
    (asked,) = call(tmp_path, "delete", "2026-12", "--yes")
    assert (asked.method, asked.target) == ("DELETE", f"/api/v1/energy/factors/{FROM_NS}")


@pytest.mark.parametrize(
    ("pue", "grid"), [("0.9", "1"), ("11", "1"), ("1.2345", "1"), ("x", "1"), ("1", "-1")]
)
def test_numbers_out_of_bounds_are_refused(tmp_path: Path, pue: str, grid: str) -> None:
    with ScriptedPool(tmp_path, answer) as server:
        words = ["set", f"--pue={pue}", f"--grid={grid}"]
        with pytest.raises(BadOption):
            run(parse_command("energy", words), CommandContext(str(tmp_path)))
        assert server.requests == []
