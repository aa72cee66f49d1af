"""Routes that need no login: logging in and out."""

from __future__ import annotations

from fastapi import Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from gpupool.api.late_routes import Router
from gpupool.base.errors import BadInput, NotLoggedIn
from gpupool.server.middleware.auth import LoginBrake, source_of
from gpupool.tenancy.access import scope_peer
from gpupool.tenancy.service import TenancyService
from gpupool.tenancy.sessions.cookies import (
    check_page,
    format_cookie,
    is_page,
    is_through_console,
    read_cookie,
    read_site,
)
from gpupool.tenancy.sessions.service import LoginFacts
from gpupool.wire.people import LoginIn, LoginOut

router = Router(tags=["doors"])


@router.post(
    "/login",
    response_model=LoginOut,
    responses={204: {"description": "With `X-Gpupool: 1`: the answer sets the session's cookie."}},
)
async def login(request: Request, body: LoginIn) -> LoginOut | Response:
    """Exchange an api token or a one-time token for a session of 12 hours. Needs no login.

    A page of the console sends `X-Gpupool: 1` and gets a cookie; a program gets a token.
    """
    tenancy: TenancyService = request.app.state.tenancy
    brake: LoginBrake = request.app.state.brake
    source = source_of(request.scope)
    brake.check_lock(source)
    try:
        if is_page(request.scope):
            return await _open_session(request, tenancy, body.token)
        return await run_in_threadpool(tenancy.tokens.login, body.token)
    except NotLoggedIn:
        # Here and not in the layer: a wrong token in a body is not seen there.
        await brake.hold_login(source)
        raise


@router.post("/logout", status_code=204)
async def logout(request: Request) -> Response:
    """End the session of the cookie that the request has. Needs no login."""
    scope = request.scope
    cookie = None if scope_peer(scope) is not None else read_cookie(scope)
    if cookie is None:
        return Response(status_code=204)
    check_page(scope, cookie)
    tenancy: TenancyService = request.app.state.tenancy
    await run_in_threadpool(tenancy.sessions.log_out, cookie.text)
    return Response(status_code=204, headers={"Set-Cookie": format_cookie(cookie.site, "", 0)})


async def _open_session(request: Request, tenancy: TenancyService, token: str) -> Response:
    scope = request.scope
    if scope_peer(scope) is not None:
        raise BadInput(
            "over the Unix socket the kernel names the caller: a cookie does not count there",
            hint="leave out X-Gpupool",
        )
    site = read_site(scope)
    earlier = read_cookie(scope)
    session = await run_in_threadpool(
        tenancy.sessions.log_in,
        token,
        make_login_facts(request),
        None if earlier is None else earlier.text,
    )
    cookie = format_cookie(site, session.cookie, session.seconds)
    return Response(status_code=204, headers={"Set-Cookie": cookie, "Cache-Control": "no-store"})


def make_login_facts(request: Request) -> LoginFacts:
    """Return what is recorded of the browser of a login."""
    address = request.client.host if request.client is not None else ""
    browser = request.headers.get("user-agent", "")
    return LoginFacts(
        address,
        "".join(char if char.isprintable() else "?" for char in browser),
        is_through_console(request.scope),
    )
