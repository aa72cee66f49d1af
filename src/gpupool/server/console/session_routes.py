"""Routes of sessions, below /api/v1: the caller's own, those of a scope, and a link to log in."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

from fastapi import Depends, Query, Request
from starlette.concurrency import run_in_threadpool

from gpupool.api.late_routes import Router
from gpupool.base.errors import ServiceUnavailable
from gpupool.model.tenant import Permission, Principal
from gpupool.server.config import ServerConfig
from gpupool.server.console.languages import choose_language
from gpupool.tenancy.access import PeerProcess, peer_of, require_caller
from gpupool.tenancy.routes import After, Limit, Reader, Service
from gpupool.tenancy.sessions.service import IDLE_NS
from gpupool.wire.common import Page
from gpupool.wire.sessions import ConsoleLinkOut, CsrfFacts, SessionOut, SessionRowOut

router = Router(tags=["tenancy"])


@router.get("/session")
def get_session(request: Request, tenancy: Service, caller: Reader) -> SessionOut:
    """The caller as the console shows it, how long its session lasts, and what its requests
    need."""
    row = None if caller.session is None else tenancy.sessions.find(caller.session)
    credential = "cookie" if row is not None else "socket" if caller.local else "token"
    return SessionOut(
        user=caller.user,
        tenant=caller.tenant,
        role=caller.role.value,
        permissions=sorted(caller.permissions),
        language=choose_language(request.scope),
        credential=credential,
        session=caller.session,
        created_ns=None if row is None else row.created_ns,
        idle_ends_ns=None if row is None else min(row.used_ns + IDLE_NS, row.expires_ns),
        expires_ns=None if row is None else row.expires_ns,
        csrf=CsrfFacts(),
    )


@router.get("/sessions")
def list_sessions(
    tenancy: Service,
    caller: Reader,
    after: After = None,
    limit: Limit = 100,
    user: Annotated[str | None, Query(max_length=63)] = None,
) -> Page[SessionRowOut]:
    """Sessions of browsers that have not ended.

    For a user its own, for a tenant's admin those of its users, for an admin all.
    """
    return tenancy.sessions.list(caller, after, limit, user)


@router.delete("/sessions/{session}", status_code=204)
def end_session(tenancy: Service, caller: Reader, session: str) -> None:
    """End a session now: its next request is refused, and its streams end."""
    tenancy.sessions.end(caller, session)


@router.post("/console", status_code=201)
async def open_console(
    request: Request,
    tenancy: Service,
    caller: Annotated[Principal, Depends(require_caller(Permission.READ))],
) -> ConsoleLinkOut:
    """Make a link that logs one browser in as the caller, once, within 10 minutes.

    On a pool that listens on its Unix socket alone, a loopback port is opened for the console.
    """
    config: ServerConfig = request.app.state.config
    if peer_of(request) is None:
        address = f"{request.url.scheme}://{request.headers.get('host', '')}"
    elif config.console is not None:
        address = await config.console.open()
    else:
        raise ServiceUnavailable(
            "this server has no listener for the console", hint="gpupool up --listen 127.0.0.1:8470"
        )
    token = await run_in_threadpool(
        tenancy.tokens.create_link, caller, find_link_account(caller, peer_of(request))
    )
    return ConsoleLinkOut(
        url=f"{address}/login#token={quote(token.token or '', safe='')}",
        address=address,
        user=caller.user,
        expires_ns=token.expires_ns or 0,
    )


def find_link_account(caller: Principal, peer: PeerProcess | None) -> int | None:
    """Return the Unix account that makes a link for itself; None where a token names the caller."""
    return None if peer is None or caller.token is not None else peer.uid
