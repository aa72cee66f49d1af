"""`gpupool advise`: the table says what is unknown, and `apply` plans before it resizes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gpupool.base.errors import BadOption
from gpupool.base.errors.people import NothingAdvised, SeveralFamilies
from gpupool.cli.rightsizing.advise import run
from gpupool.terminal.context import CommandContext
from gpupool.terminal.parser import parse_command
from tests.unit.client.scripted_pool import Request, ScriptedPool, reply

GIB = 2**30
LIVE: dict[str, Any] = {
    "job": "j-0000000001",
    "name": "train-7",
    "user": "ada",
    "gpu_milli": 500,
    "memory_bytes": 16 * GIB,
    "fixed": "",
}
ADVICE: dict[str, Any] = {
    "family": "nlp/default/ada/train",
    "tenant": "nlp",
    "project": "default",
    "user": "ada",
    "pattern": "train",
    "runs": 7,
    "measured_runs": 6,
    "measured_hours": 3.5,
    "cards": 1,
    "model": "H200",
    "profile": None,
    "requested_milli": 500,
    "requested_bytes": 16 * GIB,
    "used_p50_milli": 60,
    "used_p95_milli": 100,
    "used_max_milli": 400,
    "used_bytes": GIB,
    "limited_percent": 0.0,
    "advice": "shrink",
    "gpu_milli": 150,
    "memory_bytes": 2 * GIB,
    "partition": {"profile": "1g.18gb", "per_card": 7, "gpu_milli": 142, "memory_bytes": 17 * GIB},
    "models": ["T4", "H200"],
    "cheaper": {"model": "T4", "memory_bytes": 15 * GIB, "saved_micro_per_month": 4_567_890},
    "confidence": "low",
    "reason": "",
    "saved_milli": 870,
    "saved_micro_per_month": 12_345_678,
    "currency": "EUR",
    "live": [LIVE],
}
UNKNOWN = {
    **ADVICE,
    **dict.fromkeys(("requested_milli", "requested_bytes", "gpu_milli", "memory_bytes")),
    **dict.fromkeys(("used_p50_milli", "used_p95_milli", "used_max_milli", "used_bytes")),
    **dict.fromkeys(("limited_percent", "saved_milli", "saved_micro_per_month", "confidence")),
    "pattern": "dark",
    "measured_runs": 0,
    "advice": "unknown",
    "reason": "measured runs: 0, at least 5 are needed",
}
JOB = {
    "id": LIVE["job"],
    "name": "train-7",
    "count": 1,
    "sharing": "fixed",
    "share": "0.15 GPU (15 % compute) + 2048 MiB",
    "gpu_milli": 150,
    "memory_bytes": 2 * GIB,
}
RESIZED = {
    "job": JOB,
    "gpu_milli_before": 500,
    "memory_bytes_before": 16 * GIB,
    "changed": True,
    "applied": True,
    "applied_milliseconds": 12.0,
    "note": "",
}
REFUSAL = {"code": "GP-2003", "title": "No room now", "detail": "no room", "status": 409}


def type_words(
    directory: Path, *words: str, advice: object = None, code: int = 0, resize: bytes = b""
) -> list[Request]:
    """Type the command at a pool with this advice; return what it asked."""
    answers: Mapping[str, bytes] = {
        "GET /api/v1/advice": reply([ADVICE] if advice is None else advice),
        "GET /api/v1/jobs": reply(JOB),
        "POST /api/v1/jobs": resize or reply(RESIZED),
    }

    def give(asked: Request) -> bytes:
        if "family=train-7" in asked.target:
            unknown = {"code": "GP-2190", "title": "x", "detail": "no family", "status": 404}
            return reply(unknown, 404, kind="application/problem+json")
        line = f"{asked.method} {asked.target}"
        return next(answer for start, answer in answers.items() if line.startswith(start))

    state = directory / f"pool-{len(list(directory.iterdir()))}"
    with ScriptedPool(state, give) as server:
        assert run(parse_command("advise", list(words)), CommandContext(str(state))) == code
        return list(server.requests)


def test_the_table_shows_use_advice_and_saving_and_dashes_for_what_is_unknown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (asked,) = type_words(tmp_path, "--since", "7d", "-o", "wide", advice=[ADVICE, UNKNOWN])

    assert asked.target == "/api/v1/advice?since=7d"
    head, known, unknown = capsys.readouterr().out.splitlines()
    assert head.split()[:3] == ["FAMILY", "USER", "RUNS"]
    for words in ("6/7", "0.50 + 16384 MiB", "0.06/0.10/0.40", "0.15 + 2048 MiB", "0.87"):
        assert words in known
    for words in ("12.34 EUR", "low", "1g.18gb (7 a card)", "T4, H200", "T4 (-4.56 EUR)"):
        assert words in known
    assert unknown.split()[:5] == ["dark", "nlp/ada", "0/7", "--", "--"]
    assert "at least 5 are needed" in unknown


def test_apply_shows_the_plan_and_resizes_the_running_jobs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = type_words(tmp_path, "apply", "train", "--yes")

    assert [one.method for one in asked] == ["GET", "POST"]
    assert asked[1].target.startswith("/api/v1/jobs/j-0000000001/resize")
    assert asked[1].json == {"gpu_milli": 150, "memory_bytes": 2 * GIB}
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == (
        "will resize train-7 (j-0000000001): 0.50 -> 0.15 GPU, 16384 MiB -> 2048 MiB"
    )
    assert shown[1].endswith("in force after 12 ms")
    assert shown[2] == "submit the next ones with --gpu 0.15 --memory 2048MiB"


def test_apply_changes_nothing_without_a_yes(tmp_path: Path) -> None:
    with pytest.raises(BadOption, match="nothing was done"):
        type_words(tmp_path, "apply", "train")
    assert [one.method for one in type_words(tmp_path, "apply", "train", "--dry-run")] == ["GET"]


def test_apply_of_a_job_resizes_it_alone(tmp_path: Path) -> None:
    other = {**LIVE, "job": "j-0000000002", "name": "train-8"}

    asked = type_words(
        tmp_path, "apply", "train-7", "--yes", advice=[{**ADVICE, "live": [other, LIVE]}]
    )

    posts = [one.target.split("?")[0] for one in asked if one.method == "POST"]
    assert posts == ["/api/v1/jobs/j-0000000001/resize"]


def test_jobs_that_cannot_change_are_named_and_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fixed = {**LIVE, "fixed": "a partition (1g.18gb) keeps its size"}

    asked = type_words(tmp_path, "apply", "train", "--yes", advice=[{**ADVICE, "live": [fixed]}])

    assert [one.method for one in asked] == ["GET"]
    told = capsys.readouterr()
    assert "train-7 (j-0000000001) stays as it is: a partition" in told.err
    assert told.out.startswith("no running job to resize; submit the next ones with --gpu 0.15")


def test_a_refused_resize_is_told_and_the_command_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refused = reply(REFUSAL, 409, kind="application/problem+json")

    type_words(tmp_path, "apply", "train", "--yes", "-o", "json", code=1, resize=refused)

    told = capsys.readouterr()
    assert json.loads(told.out)["resized"][0]["error"] == "GP-2003"
    assert "GP-2003" in told.err


def test_apply_refuses_what_is_unknown_or_ambiguous(tmp_path: Path) -> None:
    with pytest.raises(NothingAdvised, match="at least 5 are needed"):
        type_words(tmp_path, "apply", "dark", "--yes", advice=[UNKNOWN])
    bob = {**ADVICE, "family": "nlp/default/bob/train"}
    with pytest.raises(SeveralFamilies, match="2 families"):
        type_words(tmp_path, "apply", "train", "--yes", advice=[ADVICE, bob])


def test_the_backtest_compares_three_methods(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    method = {"starved_runs": 3, "short_of_memory": 1, "given_hours": 5.0, "saved_hours": 5.0}
    found = {
        "families": 4,
        "judged_runs": 30,
        "unjudged_runs": 20,
        "methods": [
            {"method": "advised", "starved_percent": 2.5, "saved_percent": 50.0, **method},
            {"method": "as-requested", "starved_percent": None, "saved_percent": None, **method},
        ],
    }

    (asked,) = type_words(tmp_path, "--since", "90d", "backtest", advice=found)

    assert asked.target == "/api/v1/advice/backtest?since=90d"
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["advised", "2.5", "%", "3", "1", "5.00", "50", "%"]
    assert lines[2].split()[:2] == ["as-requested", "--"]
    assert lines[3] == "30 runs of 4 families judged, 20 not: too few runs before them"


def test_tenants_and_layouts_are_tables_with_dashes_for_what_is_unknown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tenant = {
        "tenant": "nlp",
        "families": 3,
        "advised_families": 2,
        "grow_families": 1,
        "runs": 12,
        "measured_runs": 10,
        "saved_milli": 1200,
        "saved_micro_per_month": None,
        "currency": "",
    }
    layout = {
        "model": "H200",
        "cards": 8,
        "families": 2,
        "unfit_families": 1,
        "demand": {"1g.18gb": 9},
        "mixes": [{"mix": "7 x 1g.18gb", "cards": 1}, {"mix": "2 x 1g.18gb", "cards": 1}],
        "cards_needed": 2,
        "missing": {},
        "exact": True,
    }

    (asked,) = type_words(tmp_path, "tenants", "--since", "7d", advice=[tenant])
    assert asked.target == "/api/v1/advice/tenants?since=7d"
    _, line = capsys.readouterr().out.splitlines()
    assert line.split() == ["nlp", "3", "2", "1", "10/12", "1.20", "--"]

    (asked,) = type_words(tmp_path, "layout", "--tenant", "nlp", advice=[layout])
    assert asked.target == "/api/v1/advice/layouts?since=30d&tenant=nlp"
    _, line = capsys.readouterr().out.splitlines()
    assert "9 x 1g.18gb" in line
    assert "1 x (7 x 1g.18gb); 1 x (2 x 1g.18gb)" in line
    assert line.split()[-1] == "--"
