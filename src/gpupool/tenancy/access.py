"""Who is asking, and whether they may: the one way a route learns its caller.

The server's auth layer puts a `Principal` (and, on the Unix socket, the `Peer`) into the
request's scope; routes take it with `Depends(require(Permission.READ))` and with nothing
else. Knows no database and no HTTP status.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import sqlalchemy as sa
from starlette.requests import HTTPConnection, Request

from gpupool.base.errors import NotAllowed, NotLoggedIn
from gpupool.model.tenant import Permission, Principal

PEER_EXTENSION = "gpupool.peer"
PRINCIPAL_KEY = "gpupool.principal"
RECHECK_KEY = "gpupool.recheck"


@dataclass(frozen=True)
class Peer:
    """The process at the other end of the Unix socket, as the kernel names it (SO_PEERCRED, SO_PEERGROUPS)."""

    pid: int
    uid: int
    gid: int
    groups: tuple[int, ...]


class Require:
    """A FastAPI dependency of routes and WebSockets: the caller, if permitted. The route walk finds `permission`."""

    def __init__(self, permission: Permission) -> None:
        self.permission = permission

    async def __call__(self, connection: HTTPConnection) -> Principal:
        principal = connection.scope.get(PRINCIPAL_KEY)
        if not isinstance(principal, Principal):
            raise NotLoggedIn("this needs a login", hint="gpupool login, or set GPUPOOL_TOKEN")
        demand(principal, self.permission)
        return principal


@cache
def require(permission: Permission) -> Require:
    """`caller: Principal = Depends(require(Permission.RUN))`. Raises NotLoggedIn, NotAllowed."""
    return Require(permission)


async def recheck(connection: HTTPConnection, permission: Permission) -> Principal:
    """The caller of a stream as it is now: its token may have been ended since. Raises NotLoggedIn, NotAllowed."""
    principal: Principal = await connection.scope[RECHECK_KEY]()
    demand(principal, permission)
    return principal


def demand(principal: Principal, permission: Permission) -> None:
    """Raise NotAllowed unless the caller's role has the permission."""
    if not principal.may(permission):
        raise NotAllowed(
            f"{principal.user} has the role {principal.role}, which may not {permission}",
            hint="ask an admin for another role: gpupool user set NAME --role ROLE",
        )


def peer_of(request: Request) -> Peer | None:
    """A dependency too: the process behind a request over the Unix socket; None over TCP."""
    return scope_peer(request.scope)


def scope_peer(scope: Mapping[str, Any]) -> Peer | None:
    peer = (scope.get("extensions") or {}).get(PEER_EXTENSION)
    return peer if isinstance(peer, Peer) else None


def visible(principal: Principal, tenant_id: sa.ColumnElement[Any]) -> sa.ColumnElement[bool]:
    """The scope rule as a condition: everything for an admin, else the caller's own tenant."""
    return sa.true() if principal.sees_all else tenant_id == principal.tenant_id
