"""Rules that turn the groups of a person into rights. Pure: knows no database and no provider."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from gpupool.base.errors import BadOption
from gpupool.model.tenant import UserRole

_FIELD: Final = re.compile(r"\{([A-Za-z0-9_]+)\}")
#: What shadow's useradd takes for a name, with the dots of directory services.
_ACCOUNT: Final = re.compile(r"[a-z_][a-z0-9_.-]{0,63}")
#: Accounts below belong to the system (Debian policy 9.2.2).
LEAST_UID: Final = 1000


@dataclass(frozen=True)
class ExternalPerson:
    """A person as a provider authenticated it."""

    provider: str
    issuer: str
    #: Never reassigned by the provider; with the issuer it is the identity.
    subject: str
    #: The name that the person would like here.
    name: str
    groups: tuple[str, ...] = ()
    #: Texts that a template of `run_as` may name.
    claims: Mapping[str, str] = field(default_factory=dict)
    #: The provider's session, which its back-channel logout may name.
    session: str | None = None


@dataclass(frozen=True)
class SignonRule:
    """A line of the table; None matches everything."""

    provider: str | None
    group: str | None
    role: UserRole
    tenant: str
    project: str | None = None
    run_as: str | None = None

    def matches(self, person: ExternalPerson) -> bool:
        right_provider = self.provider is None or self.provider == person.provider
        return right_provider and (self.group is None or self.group in person.groups)


def choose_rule(
    rules: Sequence[SignonRule], person: ExternalPerson
) -> tuple[int, SignonRule] | None:
    """Return the first rule that matches with its number from 1; None: the person has no rights."""
    numbered = enumerate(rules, start=1)
    return next(((number, rule) for number, rule in numbered if rule.matches(person)), None)


def check_template(template: str) -> None:
    """Raise BadOption for a template of which no account can come."""
    sample = _FIELD.sub("x", template)
    if not _ACCOUNT.fullmatch(sample):
        raise BadOption(
            f"run-as {template!r} cannot name a Unix account",
            hint="a name as builder, or one claim in braces: {preferred_username}",
        )


def expand_account(template: str, claims: Mapping[str, str]) -> str | None:
    """Return the account's name; None where a claim lacks or the result is no account's name.

    A claim is put in whole or not at all: a name with a slash or a space names no account.
    """
    for name in _FIELD.findall(template):
        if name not in claims:
            return None
    expanded = _FIELD.sub(lambda found: claims[found.group(1)], template)
    return expanded if _ACCOUNT.fullmatch(expanded) else None
