"""The caller of a request and its permission: the one way a route learns its caller.

The server's auth layer puts a `Principal` (and, on the Unix socket, the `PeerProcess`) into the
request's scope; routes take it with `Depends(require_caller(Permission.READ))` and with nothing
else. Knows no database and no HTTP status.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import sqlalchemy as sa
from starlette.requests import HTTPConnection, Request

from gpupool.base.errors import NoPermission, NotLoggedIn
from gpupool.model.tenant import PERMISSIONS, Permission, Principal

#: Keys of the request's scope. The first is an ASGI extension, which the protocol fills in; the
#: others come from the auth layer, so no header of a caller can set them.
PEER_EXTENSION = "gpupool.peer"
PRINCIPAL_KEY = "gpupool.principal"
RECHECK_KEY = "gpupool.recheck"


@dataclass(frozen=True)
class PeerProcess:
    """The process at the other end of the Unix socket, by SO_PEERCRED and SO_PEERGROUPS."""

    pid: int
    uid: int
    gid: int
    groups: tuple[int, ...]


class PermissionRequirement:
    """A FastAPI dependency of routes and WebSockets: the caller, if permitted.

    The test that walks all routes finds `permission` on it.
    """

    def __init__(self, permission: Permission) -> None:
        self.permission = permission

    async def __call__(self, connection: HTTPConnection) -> Principal:
        principal = connection.scope.get(PRINCIPAL_KEY)
        if not isinstance(principal, Principal):
            raise NotLoggedIn("this needs a login", hint="gpupool login, or set GPUPOOL_TOKEN")
        require_permission(principal, self.permission)
        return principal


@cache
def require_caller(permission: Permission) -> PermissionRequirement:
    """Return the dependency `caller: Principal = Depends(require_caller(Permission.RUN))`.

    It raises NotLoggedIn or NoPermission.
    """
    return PermissionRequirement(permission)


async def recheck_caller(connection: HTTPConnection, permission: Permission) -> Principal:
    """Return the caller of a stream as it is now: its token may have been ended since.

    Raises NotLoggedIn or NoPermission.
    """
    principal: Principal = await connection.scope[RECHECK_KEY]()
    require_permission(principal, permission)
    return principal


def require_permission(principal: Principal, permission: Permission) -> None:
    """Raise NoPermission unless the caller's role, and the scopes of its token, have it."""
    if not principal.has_permission(permission):
        if permission in PERMISSIONS[principal.role]:
            limits = ", ".join(sorted(principal.permissions)) or "nothing"
            raise NoPermission(
                f"the caller's token is limited to {limits} and may not {permission}",
                hint="use a token with this scope too: gpupool token create --scope",
            )
        raise NoPermission(
            f"{principal.user} has the role {principal.role}, which may not {permission}",
            hint="ask an admin for another role: gpupool user set NAME --role ROLE",
        )


def peer_of(request: Request) -> PeerProcess | None:
    """Return the process behind a request over the Unix socket; None over TCP. A dependency too."""
    return scope_peer(request.scope)


def scope_peer(scope: Mapping[str, Any]) -> PeerProcess | None:
    # Absent over TCP and in tests without a socket.
    peer = (scope.get("extensions") or {}).get(PEER_EXTENSION)
    return peer if isinstance(peer, PeerProcess) else None


def match_visible(principal: Principal, tenant_id: sa.ColumnElement[Any]) -> sa.ColumnElement[bool]:
    """Return the scope rule as a condition.

    Everything for an admin, else the caller's own tenant.
    """
    return sa.true() if principal.sees_all else tenant_id == principal.tenant_id
