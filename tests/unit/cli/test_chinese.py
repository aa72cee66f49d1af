"""Whole outputs in Chinese of what people type in their first minutes; columns are aligned."""

from __future__ import annotations

import pytest

from tests.unit.cli.golden import GoldenLine

LINES = {
    "ps": "ps",
    "ps-wide": "ps -o wide",
    "ps-limit": "ps --limit 2",
    "show-job": "show train",
    "show-card": "show node-1:0",
    "show-node": "show node-1",
    "show-pool": "show",
    "show-nothing": "show nothing",
    "gpus": "gpus",
    "explain": "explain big",
    "explain-gang": "explain mpi",
    "queue": "queue",
    "quota": "quota show nlp",
    "quota-tree": "quota",
    "report": "report",
    "whoami": "whoami",
    "tenants": "tenant list",
    "tokens": "token list",
    "reservations": "reservation list",
    "saved": "saved train",
    "stop": "stop train",
    "stop-nothing": "stop",
    "top": "top",
    "submit": "submit --gpu 0.3 --memory 8GiB -- true",
    "run-bad-memory": "run --gpu 0.3 --memory 8 -- true",
    "run-no-command": "run --gpu 0.3",
    "run-not-found": "run --gpu 0.3 -- ./no-such-program",
    "unknown-command": "pss",
    "unknown-option": "ps --stat running",
    "unknown-state": "ps --state runing",
    "help": "help",
    "help-run": "run --help",
    "help-network": "help network",
    "help-code": "help GP-2002",
}


@pytest.mark.parametrize("name", LINES)
def test_chinese_output_is_the_recorded_one(
    name: str, golden_line: GoldenLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUPOOL_LANG", "zh")
    golden_line(f"zh/{name}", LINES[name])
