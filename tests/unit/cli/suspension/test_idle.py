"""`gpupool idle`: options and files become one request, and answers become lines for people."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpupool.base.errors import BadInput, BadOption
from gpupool.cli.suspension.idle import run
from gpupool.terminal.context import CommandContext
from gpupool.terminal.parser import parse_command
from tests.unit.client.scripted_pool import Request, ScriptedPool, reply

POLICY: dict[str, Any] = {
    "id": "i-0123456789",
    "tenant": "nlp",
    "project": None,
    "kind": "notebook",
    "by_tenant": False,
    "mode": "on",
    "window_seconds": 300,
    "steps": [
        {"act": "warn", "after_seconds": 3000, "gpu_milli": None},
        {"act": "shrink", "after_seconds": 3600, "gpu_milli": 50},
        {"act": "stop", "after_seconds": 7200, "gpu_milli": None},
    ],
    "keep_seconds": 7200,
    "keeps_per_day": 2,
    "scope": "tenant nlp, notebooks",
}
JOB: dict[str, Any] = {
    "job": "j-0123456789",
    "name": "nb",
    "tenant": "nlp",
    "project": "default",
    "user": "ada",
    "kind": "notebook",
    "jobs": 1,
    "state": "idle",
    "idle_seconds": 3671,
    "last_ns": 10**18,
    "rule": "stop after 2h idle; you will be told at 50m",
    "mode": "on",
    "policies": ["i-0123456789"],
    "act": "shrink",
    "act_ns": 10**18,
    "skip": "",
    "next_act": "stop",
    "next_ns": 10**18 + 10**12,
    "keep_until_ns": None,
    "keeps_left": 2,
    "keep_seconds": 7200,
    "gpu_milli": 50,
    "cards": 1,
    "waits_to_grow": False,
    "cost_per_hour_micro": 100_000,
    "currency": "EUR",
}
FILE = """\
kind: notebook
mode: on
window: 5m
steps:
  - warn after 50m
  - shrink to 0.05 after 60m
  - stop after 2h
keep: 1h
keeps_per_day: 1
"""


def type_words(directory: Path, answer: object, *words: str) -> list[Request]:
    """Type the command at a pool with this answer; return what it asked."""

    def give(_asked: Request) -> bytes:
        return reply(answer)

    state = directory / f"pool-{len(list(directory.iterdir()))}"
    with ScriptedPool(state, give) as server:
        assert run(parse_command("idle", list(words)), CommandContext(str(state))) == 0
        return list(server.requests)


def test_a_policy_of_options_is_sent_in_seconds_and_thousandths(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scope = ["--tenant", "nlp", "--kind", "notebook"]
    steps = ["--warn", "50m", "--shrink", "60m", "--stop", "2h"]
    words = ["policy", "set", *scope, *steps]
    (asked,) = type_words(tmp_path, POLICY, *words)
    assert (asked.method, asked.target) == ("PUT", "/api/v1/idle/policies")
    assert asked.json["steps"] == POLICY["steps"]
    assert (asked.json["keep_seconds"], asked.json["mode"]) == (7200, "on")
    shown = capsys.readouterr().out
    assert "shrink  to 0.05 GPU after 1h" in shown
    assert "keep    2h, 2 in 24 hours" in shown


def test_a_policy_of_a_file_is_the_same_and_is_printed_as_it_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(FILE)
    (asked,) = type_words(tmp_path, POLICY, "policy", "set", "-f", str(path), "-o", "yaml")
    assert asked.json["steps"] == POLICY["steps"]
    assert (asked.json["mode"], asked.json["keep_seconds"]) == ("on", 3600)
    path.write_text(capsys.readouterr().out)
    (again,) = type_words(tmp_path, POLICY, "policy", "set", "-f", str(path))
    assert again.json == {**asked.json, "tenant": "nlp", "keep_seconds": 7200, "keeps_per_day": 2}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("steps: [kill after 5m]", "step 'kill after 5m' is not understood"),
        ("stepz: []", "unknown keys stepz"),
        ("- 1", "expected one policy"),
        ("a: [", "policy.yaml"),
    ],
)
def test_a_file_that_is_not_understood_is_refused(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(text)
    with pytest.raises(BadInput, match=words):
        type_words(tmp_path, POLICY, "policy", "set", "-f", str(path))


@pytest.mark.parametrize("words", [[], ["--shrink-to", "0.1", "--warn", "5m"]])
def test_options_that_do_nothing_are_refused(tmp_path: Path, words: list[str]) -> None:
    with pytest.raises(BadOption):
        type_words(tmp_path, POLICY, "policy", "set", *words)


def test_the_list_says_what_comes_next_and_what_it_costs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    type_words(tmp_path, [JOB], "list")
    shown = capsys.readouterr().out
    assert "nb   nlp/ada  idle   1h1m  0.05 GPU (5 %)  0.10 EUR/h" in shown
    assert "stop at 2001-09-09T02:03:20Z" in shown


def test_what_is_unknown_is_two_dashes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    unknown = {"state": "unknown", "idle_seconds": None, "last_ns": None, "next_act": None}
    type_words(tmp_path, JOB | unknown | {"cost_per_hour_micro": None}, "show", "nb")
    shown = capsys.readouterr().out
    assert "idle        --" in shown
    assert "next step   --" in shown
    assert "costs       --" in shown


def test_a_keep_says_until_when_and_how_many_are_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = JOB | {"state": "kept", "keep_until_ns": 10**18, "keeps_left": 1}
    (asked,) = type_words(tmp_path, kept, "keep", "nb", "2h")
    assert (asked.target, asked.json) == ("/api/v1/jobs/nb/idle/keep", {"seconds": 7200})
    assert capsys.readouterr().out == (
        "nb is kept until 2001-09-09T01:46:40Z; 1 more in these 24 hours\n"
    )


def test_a_report_gives_hours_and_money_and_dashes_for_stops(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row = {"tenant": "nlp", "act": "shrink", "dry_run": True, "steps": 2, "jobs": 1}
    rows = [
        row | {"card_milliseconds": 5_400_000, "cost_micro": 3_000_000},
        row | {"act": "stop", "dry_run": False, "card_milliseconds": None, "cost_micro": None},
    ]
    report = {"since_ns": 0, "until_ns": 1, "currency": "EUR", "rows": rows}
    (asked,) = type_words(tmp_path, report, "report", "--since", "30d")
    assert asked.target == "/api/v1/idle/report?since=30d"
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["nlp", "shrink", "dry", "run", "2", "1", "1.50", "3.00", "EUR"]
    assert lines[2].split() == ["nlp", "stop", "done", "2", "1", "--", "--"]


@pytest.mark.parametrize(("left_out", "notice"), [(7, True), (0, False), (None, False)])
def test_a_report_that_is_not_whole_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], left_out: int | None, notice: bool
) -> None:
    row = {"tenant": "nlp", "act": "shrink", "dry_run": True, "steps": 2, "jobs": 1}
    row |= {"card_milliseconds": 5_400_000, "cost_micro": None}
    report = {"since_ns": 0, "until_ns": 1, "currency": "EUR", "rows": [row]}
    report |= {"left_out": left_out}
    type_words(tmp_path, report, "report")
    told = "gpupool: newer steps left out: 7; for less time give --since and --until\n"
    assert capsys.readouterr().err == (told if notice else "")
    type_words(tmp_path, report, "report", "-o", "json")
    shown = capsys.readouterr()
    assert (json.loads(shown.out)["left_out"], shown.err) == (left_out, "")
