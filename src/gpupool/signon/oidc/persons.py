"""From the claims of an ID token to a person. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gpupool.base.errors import SignonFailed
from gpupool.signon.rules import ExternalPerson
from gpupool.wire.signon import OidcSettings

#: More groups than a person is in; Entra ID sends at most 200.
MOST_GROUPS: Final = 2000


def read_groups(claims: Mapping[str, Any], claim: str) -> tuple[str, ...] | None:
    """Return the groups of a claim, `realm_access.roles` being a path; None where it lacks."""
    value: Any = claims.get(claim)
    if value is None and "." in claim:
        value = claims
        for part in claim.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, list):
        return None
    return tuple(group for group in value[:MOST_GROUPS] if isinstance(group, str))


def refuse_distant_groups(claims: Mapping[str, Any], claim: str) -> None:
    """Refuse a person whose groups the provider has and does not send.

    Taken for none, the person would lose its rights, and its jobs.

    Raises:
        SignonFailed: the claim is a distributed one (OpenID Connect Core 5.6.2), as Entra ID sends
            it of a person in more than 200 groups.
    """
    elsewhere = claims.get("_claim_names")
    is_named = isinstance(elsewhere, Mapping) and claim in elsewhere
    # What Entra ID sends in the implicit flow, and some gateways instead.
    if is_named or claims.get("hasgroups") in (True, "true"):
        raise SignonFailed(
            "the identity provider sends no groups of this person, which is in too many groups",
            hint="at the provider, send only groups that are assigned to this application",
        )


def make_person(
    provider: str, settings: OidcSettings, claims: Mapping[str, Any], groups: tuple[str, ...]
) -> ExternalPerson:
    """Build the person of a login from checked claims."""
    texts = {
        name: value
        for name, value in claims.items()
        if isinstance(value, str) and len(value) <= 255
    }
    session = claims.get("sid")
    return ExternalPerson(
        provider=provider,
        issuer=settings.issuer,
        subject=claims["sub"],
        name=texts.get(settings.name_claim) or "person",
        groups=groups,
        claims=texts,
        session=session if isinstance(session, str) and len(session) <= 255 else None,
    )
