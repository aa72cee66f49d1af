"""The caller of a request and its permission, as the auth layer put them into the scope."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa
from starlette.requests import HTTPConnection

from gpupool.base.errors import NoPermission, NotLoggedIn
from gpupool.model.tenant import Permission, Principal, UserRole
from gpupool.tenancy.access import (
    PEER_EXTENSION,
    PRINCIPAL_KEY,
    RECHECK_KEY,
    PeerProcess,
    match_visible,
    recheck_caller,
    require_caller,
    scope_peer,
)
from gpupool.tenancy.tables import tenants

VIEWER = Principal(2, "ann", 7, "lab", UserRole.VIEWER)
ADMIN = Principal(1, "root", 1, "default", UserRole.ADMIN)
PEER = PeerProcess(1, 1001, 1001, ())


def connection(**scope: Any) -> HTTPConnection:
    return HTTPConnection({"type": "http", "headers": [], **scope})


def test_require_caller_gives_the_principal_of_the_scope_alone() -> None:
    require = require_caller(Permission.READ)
    assert asyncio.run(require(connection(**{PRINCIPAL_KEY: VIEWER}))) == VIEWER
    for scope in ({}, {PRINCIPAL_KEY: "root"}):
        with pytest.raises(NotLoggedIn):
            asyncio.run(require(connection(**scope)))


def test_require_caller_refuses_a_role_without_the_permission() -> None:
    with pytest.raises(NoPermission, match="ann has the role viewer, which may not run"):
        asyncio.run(require_caller(Permission.RUN)(connection(**{PRINCIPAL_KEY: VIEWER})))


def test_require_caller_names_the_scopes_of_a_limited_token() -> None:
    limited = replace(ADMIN, scopes=frozenset({Permission.READ}))
    with pytest.raises(NoPermission, match="limited to read and may not run"):
        asyncio.run(require_caller(Permission.RUN)(connection(**{PRINCIPAL_KEY: limited})))
    assert limited.permissions == {Permission.READ}


def test_recheck_caller_judges_the_caller_as_it_is_now() -> None:
    now = [ADMIN, VIEWER]

    async def recheck() -> Principal:
        return now.pop(0)

    stream = connection(**{RECHECK_KEY: recheck, PRINCIPAL_KEY: ADMIN})
    assert asyncio.run(recheck_caller(stream, Permission.RUN)) == ADMIN
    with pytest.raises(NoPermission):
        asyncio.run(recheck_caller(stream, Permission.RUN))


@pytest.mark.parametrize(
    ("extensions", "peer"),
    [
        ({PEER_EXTENSION: PEER}, PEER),
        ({PEER_EXTENSION: {"uid": 0}}, None),
        ({}, None),
        (None, None),
    ],
)
def test_scope_peer_takes_only_what_the_kernel_said(
    extensions: dict[str, Any] | None, peer: PeerProcess | None
) -> None:
    assert scope_peer({"extensions": extensions}) == peer


def test_match_visible_is_the_own_tenant_but_for_admins() -> None:
    assert str(match_visible(ADMIN, tenants.c.id)) == str(sa.true())
    mine = match_visible(VIEWER, tenants.c.id).compile(compile_kwargs={"literal_binds": True})
    assert str(mine) == "tenants.id = 7"
