"""From groups to a rule, and from a claim to the name of an account."""

from __future__ import annotations

import pytest

from gpupool.base.errors import BadOption
from gpupool.model.tenant import UserRole
from gpupool.signon.rules import (
    ExternalPerson,
    SignonRule,
    check_template,
    choose_rule,
    expand_account,
)

RULES = [
    SignonRule("corp", "admins", UserRole.ADMIN, "default"),
    SignonRule(None, "nlp", UserRole.USER, "nlp"),
    SignonRule("staff", None, UserRole.VIEWER, "default"),
]


def person(*groups: str, provider: str = "corp") -> ExternalPerson:
    return ExternalPerson(provider, "https://id", "7", "alice", groups)


@pytest.mark.parametrize(
    ("groups", "provider", "number"),
    [
        (("nlp", "admins"), "corp", 1),
        (("nlp",), "corp", 2),
        (("admins", "nlp"), "staff", 2),
        ((), "staff", 3),
        (("NLP", "nlp "), "corp", None),
        ((), "corp", None),
    ],
)
def test_the_first_rule_of_group_and_provider_wins(
    groups: tuple[str, ...], provider: str, number: int | None
) -> None:
    chosen = choose_rule(RULES, person(*groups, provider=provider))
    assert (None if chosen is None else chosen[0]) == number


@pytest.mark.parametrize(
    ("template", "account"),
    [
        ("builder", "builder"),
        ("{preferred_username}", "alice"),
        ("gpu-{preferred_username}", "gpu-alice"),
        ("{missing}", None),
        ("{evil}", None),
        ("{digits}", None),
    ],
)
def test_a_template_gives_a_whole_account_name_or_none(template: str, account: str | None) -> None:
    claims = {"preferred_username": "alice", "evil": "root\n", "digits": "0"}
    assert expand_account(template, claims) == account


@pytest.mark.parametrize("template", ["", "0", "a b", "{a}/../x", "{", "Root"])
def test_a_template_that_names_no_account_is_refused(template: str) -> None:
    with pytest.raises(BadOption):
        check_template(template)
