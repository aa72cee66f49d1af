"""`budget set`: what is sent and shown, and what is refused before that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpupool.base.errors import BadOption
from gpupool.cli.accounts.budget import run
from gpupool.terminal.context import CommandContext
from gpupool.terminal.parser import parse_command
from tests.unit.client.scripted_pool import Request, ScriptedPool, reply


def answer(asked: Request) -> bytes:
    body: dict[str, Any] = dict(asked.json or {})
    body.pop("force", None)
    standing = {
        "id": "b-0123456789",
        "currency": "EUR",
        "generation": 1,
        "period_name": "2026-11",
        "period_start_ns": 0,
        "period_end_ns": 1,
        "spent": 2_507_654_321,
        "spent_percent": 50,
        "on_hold": False,
        "thresholds": [{"percent": 50, "effect": "warn", "reached_ns": None}],
        "forecast": {"end": 6 * 10**9, "low": 5 * 10**9, "high": 7 * 10**9, "runs_out_ns": 10**18},
    }
    return reply(body | standing)


def test_a_budget_is_sent_in_integers_and_shown_with_its_forecast(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["set", "nlp", "--amount", "5000", "--warn", "60, 90", "--grace", "2h"]
    with ScriptedPool(tmp_path, answer) as server:
        assert run(parse_command("budget", words), CommandContext(str(tmp_path))) == 0
        (asked,) = server.requests
    assert (asked.method, asked.target) == ("PUT", "/api/v1/budgets")
    assert asked.json["amount"] == 5_000_000_000
    assert (asked.json["warn_percents"], asked.json["grace_seconds"]) == ([60, 90], 7200)
    shown = capsys.readouterr().out
    assert "2507.65 EUR (50 %)" in shown
    assert "6000.00 EUR at the end (5000.00 EUR to 7000.00 EUR)" in shown
    assert "2001-09-09T01:46:40Z" in shown


def test_gpu_hours_are_sent_as_milliseconds_of_cards(tmp_path: Path) -> None:
    words = ["set", "nlp", "--gpu-hours", "1.5", "-o", "json"]
    with ScriptedPool(tmp_path, answer) as server:
        run(parse_command("budget", words), CommandContext(str(tmp_path)))
        assert (server.requests[0].json["unit"], server.requests[0].json["amount"]) == (
            "gpu-hours",
            5_400_000,
        )


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--amount", "1", "--gpu-hours", "1"],
        ["--amount", "0"],
        ["--amount", "much"],
        ["--amount", "0.0000001"],
        ["--amount", "1", "--warn", "50,none"],
    ],
)
def test_what_is_no_budget_is_refused(tmp_path: Path, words: list[str]) -> None:
    with ScriptedPool(tmp_path, answer) as server:
        with pytest.raises(BadOption):
            run(parse_command("budget", ["set", "nlp", *words]), CommandContext(str(tmp_path)))
        assert server.requests == []
