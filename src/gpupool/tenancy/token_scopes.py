"""Scopes of tokens: the part of a role's permissions that a token has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from gpupool.base.errors import BadOption
from gpupool.model.tenant import PERMISSIONS, Permission, Principal, UserRole
from gpupool.wire.people import ScopeName


def choose_scopes(caller: Principal, role: UserRole, asked: Sequence[str] | None) -> str | None:
    """Return the column of a new token; what a limited token makes is limited alike.

    Raises:
        BadOption: a scope is none of the role, or none of the caller's own token.
    """
    if asked is None:
        return None if caller.scopes is None else write_scopes(caller.scopes)
    scopes = frozenset(Permission(name) for name in asked)
    beyond = scopes - PERMISSIONS[role]
    if beyond:
        raise BadOption(
            f"the role {role} may not {', '.join(sorted(beyond))}",
            hint=f"scopes of {role}: {', '.join(sorted(PERMISSIONS[role]))}",
        )
    if caller.scopes is not None and scopes - caller.scopes:
        raise BadOption(
            f"your own token may not {', '.join(sorted(scopes - caller.scopes))}",
            hint=f"scopes of your token: {', '.join(sorted(caller.scopes))}",
        )
    return write_scopes(scopes)


def write_scopes(scopes: frozenset[Permission]) -> str:
    return " ".join(sorted(scopes))


def read_scopes(column: str | None) -> frozenset[Permission] | None:
    """Return the permissions of a token; None: all of its role."""
    return None if column is None else frozenset(Permission(word) for word in column.split())


def list_scopes(column: str | None) -> list[ScopeName] | None:
    """Return the scopes as an answer has them."""
    return None if column is None else cast("list[ScopeName]", column.split())
