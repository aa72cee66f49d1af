"""`gpupool sso`: what is sent of a provider and of rules, and what is told of a login."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.golden import AnswerWith, TypedLine
from tests.unit.client.scripted_pool import ScriptedPool

OIDC = {"issuer": "https://id.example.org", "client_id": "gpupool", "scopes": ["openid"]}
RULE = {
    "provider": None,
    "group": "nlp",
    "role": "user",
    "tenant": "nlp",
    "project": None,
    "run_as": None,
}


def provider(**more: Any) -> dict[str, Any]:
    facts = {"name": "corp", "kind": "oidc", "has_secret": True, "created_ns": 1, "ldap": None}
    return {**facts, "oidc": OIDC, **more}


def test_add_sends_the_settings_that_were_given_and_the_secret_of_a_file(
    tmp_path: Path, pool: ScriptedPool, answer_with: AnswerWith, type_line: TypedLine
) -> None:
    (tmp_path / "secret").write_text("s e c\n")
    answer_with("GET", "sso/providers", [])
    answer_with("PUT", "sso/providers/corp", provider())
    code, out, _ = type_line(
        "sso add oidc corp --issuer https://id.example.org --client-id gpupool --scope openid "
        f"--secret-file {tmp_path}/secret"
    )
    assert code == 0
    assert out.splitlines()[0] == "corp: OIDC of https://id.example.org as gpupool"
    assert pool.requests[-1].json == {"oidc": OIDC, "secret": "s e c"}


def test_set_keeps_the_other_settings_and_the_secret(
    pool: ScriptedPool, answer_with: AnswerWith, type_line: TypedLine
) -> None:
    answer_with("GET", "sso/providers/corp", provider())
    answer_with("PUT", "sso/providers/corp", provider())
    assert type_line("sso set corp --client-id other")[0] == 0
    assert pool.requests[-1].json == {"oidc": OIDC | {"client_id": "other"}, "secret": None}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("sso add oidc corp --issuer https://x", "needs --client-id"),
        ("sso add ldap x --url ldaps://x --base-dn dc=x --issuer https://x", "setting of oidc"),
        (
            "sso add ldap x --url ldaps://x --base-dn dc=x --secret-env GPUPOOL_NONE",
            "no variable GPUPOOL_NONE",
        ),
        (
            "sso add ldap x --url ldaps://x --base-dn dc=x --secret-file /none",
            "cannot read /none",
        ),
    ],
)
def test_settings_that_cannot_be_are_refused_before_anything_is_sent(
    line: str, reason: str, pool: ScriptedPool, answer_with: AnswerWith, type_line: TypedLine
) -> None:
    answer_with("GET", "sso/providers", [])
    code, _, err = type_line(line)
    assert (code, reason in err) == (2, True), err
    assert [asked.method for asked in pool.requests if asked.method == "PUT"] == []


def test_a_rule_is_put_at_its_place_among_those_that_were_read(
    pool: ScriptedPool, answer_with: AnswerWith, type_line: TypedLine
) -> None:
    answer_with("GET", "sso/rules", {"rules": [RULE, RULE]})
    answer_with("PUT", "sso/rules", {"rules": []})
    code, out, _ = type_line("sso rule add --group leads --role admin --tenant default --at 1")
    assert (code, out) == (0, "rule 1: group leads -> admin of default\n")
    assert [rule["group"] for rule in pool.requests[-1].json["rules"]] == ["leads", "nlp", "nlp"]
    assert type_line("sso rule-remove 3")[0] == 2


@pytest.mark.parametrize(("rule", "code"), [(2, 0), (None, 3)])
def test_explain_says_by_its_exit_code_whether_a_login_gets_in(
    rule: int | None,
    code: int,
    pool: ScriptedPool,
    answer_with: AnswerWith,
    type_line: TypedLine,
) -> None:
    answer_with("POST", "sso/explain", {"rule": rule, "text": "why"})
    assert type_line("sso explain --groups a,b --user alice") == (code, "why\n", "")
    assert pool.requests[-1].json == {"groups": ["a", "b"], "user": "alice", "provider": None}


def test_a_failed_test_of_a_provider_is_an_exit_code(
    answer_with: AnswerWith, type_line: TypedLine
) -> None:
    found = {"ok": False, "steps": ["failed: no answer"]}
    answer_with("POST", "sso/providers/corp/test", found)
    assert type_line("sso test corp") == (3, "failed: no answer\n", "")


def test_sync_lists_leavers_and_what_was_done(
    answer_with: AnswerWith, type_line: TypedLine
) -> None:
    leaver = {"user": "bob", "tenant": "nlp", "reason": "gone", "jobs": 2}
    leaver |= {"act": "stop", "until_ns": None, "heir": None}
    answer = {"checked": 9, "leavers": [leaver], "stopped": 2, "handed": 1}
    answer_with("POST", "sso/sync", answer)
    code, out, _ = type_line("sso sync staff --jobs stop")
    assert code == 0
    assert out.splitlines()[-1] == "1 of 9 users disabled; 2 jobs stopped; 1 thing handed over"
