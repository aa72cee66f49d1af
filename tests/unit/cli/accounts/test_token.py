"""`gpupool token`: created tokens stand alone on stdout; lists and revocations."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.cli.golden import AnswerWith, GoldenLine, TypedLine
from tests.unit.cli.sample import NOON
from tests.unit.client.scripted_pool import ScriptedPool


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("tokens", "token list"),
    ],
)
def test_token_list_prints_the_recorded_output(
    name: str, line: str, golden_line: GoldenLine
) -> None:
    golden_line(name, line)


def made_token(expires_ns: int | None = None) -> dict[str, Any]:
    return {"id": "t-9", "token": "gpp_secret", "user": "ci", "expires_ns": expires_ns}


def test_a_created_token_is_alone_on_stdout(answer_with: AnswerWith, type_line: TypedLine) -> None:
    answer_with("POST", "tokens", made_token())
    assert type_line("token create --user ci") == (
        0,
        "gpp_secret\n",
        "gpupool: token t-9 for ci, until it is revoked; it is not shown again\n",
    )
    answer_with("POST", "tokens", made_token(NOON))
    assert "for ci, until 2026-11-21T12:00:00Z;" in type_line("token create --user ci")[2]


def test_a_created_token_as_json_is_the_whole_answer(
    answer_with: AnswerWith, type_line: TypedLine
) -> None:
    answer_with("POST", "tokens", made_token())
    code, out, err = type_line("token create --user ci -o json")
    assert (code, json.loads(out), err) == (0, made_token(), "")


def test_token_create_sends_may_mint_only_when_it_is_asked_for(
    pool: ScriptedPool, answer_with: AnswerWith, type_line: TypedLine
) -> None:
    answer_with("POST", "tokens", made_token())
    type_line("token create --label ci --expires 12h")
    assert pool.requests[-1].json == {"user": None, "label": "ci", "expires_seconds": 12 * 3600}
    type_line("token create --may-mint --once")
    assert pool.requests[-1].json["may_mint"] is True
    assert pool.requests[-1].target.endswith("?once=true")


def test_token_revoke_ends_each_and_refuses_what_is_no_name(
    pool: ScriptedPool, answer_with: AnswerWith, type_line: TypedLine
) -> None:
    for token in ("t-1", "t-2"):
        answer_with("DELETE", f"tokens/{token}", None, 204)
    assert type_line("token revoke t-1 t-2") == (0, "t-1 revoked\nt-2 revoked\n", "")
    code, _, err = type_line("token revoke ../users")
    assert (code, err.splitlines()[0]) == (5, "gpupool: GP-3003: no token '../users'")
    assert len(pool.requests) == 2
