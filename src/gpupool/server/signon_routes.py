"""Doors of sign-on, which need no login: the ways there are, and each way's steps.

A page of the console gets its session's cookie, a program a token, as at POST /login.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final, TypeVar
from urllib.parse import parse_qs, urlsplit

from fastapi import Depends, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from gpupool.api.late_routes import Router
from gpupool.base.errors import (
    BadInput,
    GpupoolError,
    NoPermission,
    NotLoggedIn,
    SignonFailed,
)
from gpupool.server.console.login_routes import make_login_facts
from gpupool.server.middleware.auth import LoginBrake, source_of
from gpupool.server.signon_pages import make_problem_page
from gpupool.signon.service import SignonService
from gpupool.signon.sessions import OpenSession
from gpupool.store.database import WriteTransaction
from gpupool.tenancy.access import scope_peer
from gpupool.tenancy.logins import LoginGrant
from gpupool.tenancy.service import TenancyService
from gpupool.tenancy.sessions.cookies import (
    SiteOrigin,
    format_cookie,
    is_page,
    read_cookie,
    read_site,
)
from gpupool.tenancy.sessions.service import OpenedSession
from gpupool.wire.people import LoginOut
from gpupool.wire.signon import (
    DeviceLoginIn,
    DeviceLoginOut,
    DevicePollIn,
    DevicePollOut,
    LoginWayOut,
    PasswordLoginIn,
    ProviderLogoutOut,
)

router = Router(tags=["doors"])
T = TypeVar("T")
#: Of a login under way; Lax, for the provider sends the browser back by a link.
COOKIE: Final = "gpupool-sso"


def get_signon(request: Request) -> SignonService:
    signon: SignonService = request.app.state.signon
    return signon


Service = Annotated[SignonService, Depends(get_signon)]


@router.get("/api/v1/sso/ways")
def list_ways(signon: Service) -> list[LoginWayOut]:
    """The ways to log in. Needs no login."""
    return signon.list_ways()


@router.post(
    "/login/local",
    response_model=LoginOut,
    responses={204: {"description": "With `X-Gpupool: 1`: the answer sets the session's cookie."}},
)
async def login_by_password(
    request: Request, body: PasswordLoginIn, signon: Service
) -> LoginOut | Response:
    """Exchange a password for a session of 12 hours: of a local account, or of an LDAP directory.
    Needs no login.

    A page of the console sends `X-Gpupool: 1` and gets a cookie; a program gets a token.
    """
    if not is_page(request.scope):
        return await _brake_failures(request, signon.open_token, body)
    site = read_site(request.scope)
    opener = _make_opener(request)
    session = await _brake_failures(request, signon.open_session, body, opener)
    return _set_session(Response(status_code=204), site, session)


@router.get("/sso", status_code=303)
async def begin_browser_login(
    request: Request,
    signon: Service,
    provider: Annotated[str | None, Query(max_length=63, description="its name")] = None,
    return_path: Annotated[str, Query(alias="return", max_length=400)] = "/",
) -> Response:
    """Send the browser to the identity provider; it comes back to /sso/callback. Needs no login."""
    try:
        begun = await _brake_failures(request, signon.oidc.begin_code, provider, return_path)
    except GpupoolError as error:
        return make_problem_page(request.scope, error)
    secure = "; Secure" if begun.is_secure else ""
    cookie = f"{COOKIE}={begun.cookie}; Path=/sso; Max-Age=600; HttpOnly; SameSite=Lax{secure}"
    headers = {"Location": begun.address, "Set-Cookie": cookie, "Cache-Control": "no-store"}
    return Response(status_code=303, headers=headers)


@router.get("/sso/callback", status_code=303)
async def finish_browser_login(
    request: Request,
    signon: Service,
    state: Annotated[str, Query(max_length=200)] = "",
    code: Annotated[str, Query(max_length=4096)] = "",
    error: Annotated[str, Query(max_length=200, description="of the provider")] = "",
) -> Response:
    """End the login that GET /sso began: sets the session's cookie. Needs no login."""
    try:
        if error or not code or not state:
            raise SignonFailed(
                f"the identity provider refuses the login: {error[:80] or 'it sent no code'}",
                hint="begin the login again",
            )
        cookie = request.cookies.get(COOKIE, "")
        done = await _brake_failures(request, signon.oidc.finish_code, state, code, cookie)
        opener = _make_opener(request)
        session = await _brake_failures(request, signon.sessions.open_session, done.person, opener)
    except GpupoolError as problem:
        return make_problem_page(request.scope, problem)
    # The address that an admin registered at the provider: a link has no Origin to go by.
    address = urlsplit(done.pool_url)
    site = SiteOrigin(address.scheme == "https", address.netloc)
    headers = {"Location": done.return_path, "Cache-Control": "no-store"}
    response = Response(status_code=303, headers=headers)
    response.headers.append("Set-Cookie", f"{COOKIE}=; Path=/sso; Max-Age=0; HttpOnly")
    return _set_session(response, site, session)


@router.post("/api/v1/sso/device")
async def begin_device_login(
    request: Request, body: DeviceLoginIn, signon: Service
) -> DeviceLoginOut:
    """Begin a login in a browser elsewhere: show `user_code` and `verification_uri`, then poll.
    Needs no login."""
    return await _brake_failures(request, signon.oidc.begin_device, body.provider)


@router.post("/api/v1/sso/device/poll")
async def poll_device_login(request: Request, body: DevicePollIn, signon: Service) -> DevicePollOut:
    """The session, once the person has agreed in the browser. Needs no login."""
    return await _brake_failures(request, signon.oidc.poll_device, body.handle)


@router.post("/sso/logout")
async def end_provider_sessions(
    request: Request,
    signon: Service,
    response: Response,
    provider: Annotated[str, Query(max_length=63, description="its name in this pool")],
) -> ProviderLogoutOut:
    """Back-channel logout of an OIDC provider: ends the sessions that its token names. Needs no
    login: the token is signed."""
    fields = parse_qs((await request.body()).decode("ascii", "replace"))
    token = fields.get("logout_token", [""])[0]
    try:
        ended = await run_in_threadpool(signon.oidc.end_sessions, provider, token)
    except NotLoggedIn as error:
        # Slowed down, and never locked: that would keep sessions open.
        await request.app.state.brake.hold(source_of(request.scope))
        # OpenID Connect Back-Channel Logout 1.0, 2.8: 400, not 401.
        raise BadInput(error.message, hint=error.hint) from error
    response.headers["Cache-Control"] = "no-store"
    return ProviderLogoutOut(ended=ended)


def _make_opener(request: Request) -> OpenSession[OpenedSession]:
    """Make what opens the session of a browser, in the transaction of its login."""
    scope = request.scope
    if scope_peer(scope) is not None:
        raise BadInput(
            "over the Unix socket the kernel names the caller: a cookie does not count there",
            hint="gpupool console",
        )
    tenancy: TenancyService = request.app.state.tenancy
    facts = make_login_facts(request)
    cookie = read_cookie(scope)
    earlier = None if cookie is None else cookie.text

    def open_session(write: WriteTransaction, grant: LoginGrant) -> tuple[str, OpenedSession]:
        session = tenancy.sessions.open_session(write, grant, facts, earlier)
        return session.id, session

    return open_session


def _set_session(response: Response, site: SiteOrigin, session: OpenedSession) -> Response:
    cookie = format_cookie(site, session.cookie, session.seconds)
    response.headers.append("Set-Cookie", cookie)
    response.headers["Cache-Control"] = "no-store"
    return response


async def _brake_failures(request: Request, call: Callable[..., T], *arguments: Any) -> T:
    """Call in a thread; hold back the answer of a source that fails again and again."""
    brake: LoginBrake = request.app.state.brake
    source = source_of(request.scope)
    brake.check_lock(source)
    try:
        return await run_in_threadpool(call, *arguments)
    except NotLoggedIn:
        await brake.hold_login(source)
        raise
    except NoPermission:
        # A person without rights is slowed down, and locks out no colleague of its address.
        await brake.hold(source)
        raise
