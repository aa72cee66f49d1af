"""`gpupool advise policy`: options become one request, and a dry run sets nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpupool.base.errors import BadOption
from gpupool.cli.rightsizing.advise import run
from gpupool.terminal.context import CommandContext
from gpupool.terminal.parser import parse_command
from tests.unit.client.scripted_pool import Request, ScriptedPool, reply

GIB = 2**30
POLICY: dict[str, Any] = {
    "id": "k-0000000001",
    "tenant": "nlp",
    "project": None,
    "families": "train*",
    "by_tenant": False,
    "mode": "apply",
    "target": "both",
    "least_milli": 100,
    "most_cut_percent": 30,
    "least_bytes": 2 * GIB,
    "confidence": "medium",
    "scope": "tenant nlp, families train*",
}
TRIAL: dict[str, Any] = {
    "since_ns": 0,
    "until_ns": 1,
    "scope": "tenant nlp",
    "families": 3,
    "jobs": 31,
    "known_jobs": 20,
    "changed_jobs": 7,
    "returned_jobs": 1,
    "paused_families": 1,
    "short_of_memory": 0,
    "starved_percent": 0.9,
    "requested_hours": 40.0,
    "saved_hours": 10.0,
    "saved_percent": 25.0,
}


def type_words(directory: Path, *words: str, trial: Any = None) -> list[Request]:
    """Type the command at a pool with this policy; return what it asked."""

    def give(asked: Request) -> bytes:
        if asked.target.startswith("/api/v1/advice/policies/trial"):
            return reply(TRIAL | (trial or {}))
        if asked.method == "GET" and asked.target == "/api/v1/advice/policies":
            return reply([POLICY])
        return reply(POLICY)

    state = directory / f"pool-{len(list(directory.iterdir()))}"
    with ScriptedPool(state, give) as server:
        assert run(parse_command("advise", list(words)), CommandContext(str(state))) == 0
        return list(server.requests)


def test_options_become_the_bounds_of_a_policy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = "policy set nlp/chat --families train* --mode apply --when both --min-share 0.1"
    more = "--max-cut 30% --min-memory 2GiB --confidence medium"

    (asked,) = type_words(tmp_path, *words.split(), *more.split())

    assert (asked.method, asked.target) == ("PUT", "/api/v1/advice/policies")
    assert asked.json == {
        "tenant": "nlp",
        "project": "chat",
        "families": "train*",
        "mode": "apply",
        "target": "both",
        "least_milli": 100,
        "most_cut_percent": 30,
        "least_bytes": 2 * GIB,
        "confidence": "medium",
    }
    shown = capsys.readouterr().out
    for line in ("least share  0.10 GPU + 2048 MiB", "largest cut  30 %", "medium or better"):
        assert line in shown


def test_a_dry_run_says_what_would_have_changed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (asked,) = type_words(tmp_path, "policy", "set", "nlp", "--dry-run", "--since", "7d")

    assert (asked.method, asked.target) == ("POST", "/api/v1/advice/policies/trial?since=7d")
    assert asked.json["mode"] == "propose"
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == "would have changed 7 of 31 jobs since 7d (tenant nlp)"
    assert shown[1].split(maxsplit=1) == ["starved", "0.9 % of their time"]
    assert shown[-1].endswith("10.00 of 40.00 GPU-hours (25 %)")

    type_words(tmp_path, "policy", "set", "--dry-run", trial={"changed_jobs": 0})
    assert "advice was known for 20 of them" in capsys.readouterr().out


def test_policies_are_listed_and_removed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    type_words(tmp_path, "policy", "list")
    assert "tenant nlp, families train*" in capsys.readouterr().out

    asked = type_words(tmp_path, "policy", "remove", "k-0000000001", "--yes")

    assert [one.method for one in asked] == ["GET", "DELETE"]
    assert "advice policy k-0000000001 is removed" in capsys.readouterr().out


@pytest.mark.parametrize("cut", ["0%", "100%", "x", "5.5"])
def test_a_cut_that_is_no_percentage_is_refused(tmp_path: Path, cut: str) -> None:
    with pytest.raises(BadOption, match="--max-cut"):
        type_words(tmp_path, "policy", "set", "--max-cut", cut)
