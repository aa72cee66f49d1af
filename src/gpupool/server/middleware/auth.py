"""The layer that authenticates the caller, before any route is looked for.

Over the Unix socket through SO_PEERCRED; a bearer token wins where one is given. Over TCP a
browser's session counts too, by its cookie and from the console's own pages alone. Without
any of them, every path but the open ones answers 401, also one that does not exist: a stranger
learns nothing of the routes. WebSockets are authenticated as requests are and closed before
they open; a connection of any other kind is refused. Roles are not checked here but by each
route (`require_caller`).
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from functools import partial

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gpupool.base.errors import GpupoolError, NotLoggedIn, TooManyLogins, TwoCredentials
from gpupool.model.tenant import Principal
from gpupool.tenancy.access import PRINCIPAL_KEY, RECHECK_KEY, PeerProcess, scope_peer
from gpupool.tenancy.service import TenancyService
from gpupool.tenancy.sessions.cookies import (
    SessionCookie,
    check_page,
    is_handshake,
    is_loopback,
    read_cookie,
)

OPEN_PATHS = frozenset(
    {
        "/login",
        "/logout",
        "/login/local",
        "/sso",
        "/sso/callback",
        "/sso/logout",
        "/api/v1/sso/ways",
        "/api/v1/sso/device",
        "/api/v1/sso/device/poll",
        "/openapi.json",
        "/healthz",
    }
)
#: Methods that change nothing, so that any page may have a browser send them.
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
#: Sources whose failures are remembered, and answers that are held back at a time.
SOURCES_KNOWN = 1024
WAITING_AT_MOST = 64
#: Seconds after which the caller of an open answer is looked up again though no right has changed.
LOOK_AGAIN_SECONDS = 1.0
_LOGIN = "login from {}"
#: RFC 6455, 7.4.1: the caller's message or right violates the endpoint's policy.
POLICY_VIOLATION = 1008


class LoginBrake:
    """Slows down a source that keeps failing to log in: not at first, up to two seconds later.

    A guess of 256 bits needs no brake; a log full of guesses does. Bounded in memory and in
    how many it keeps waiting, so that it cannot be turned against the server.
    """

    FREE = 5
    FORGET_SECONDS = 60.0
    LONGEST_SECONDS = 2.0
    #: Failures after which a source's logins are refused unread, and for how long.
    LOCK_AFTER = 50
    LOCK_SECONDS = 300.0

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures: OrderedDict[str, tuple[int, float]] = OrderedDict()
        self._waiting = 0

    def note_failure(self, source: str) -> float:
        """Note a failure; return for how many seconds its answer is held back."""
        count, last = self._failures.pop(source, (0, 0.0))
        now = self._clock()
        remembered = self.LOCK_SECONDS if count >= self.LOCK_AFTER else self.FORGET_SECONDS
        count = count + 1 if now - last < remembered else 1
        self._failures[source] = (count, now)
        if len(self._failures) > SOURCES_KNOWN:
            self._failures.popitem(last=False)
        return (
            0.0
            if count <= self.FREE
            else min(self.LONGEST_SECONDS, 0.1 * 2.0 ** min(count - self.FREE, 8))
        )

    def check_lock(self, source: str) -> None:
        """Raise TooManyLogins for a source that has failed so often that its logins wait.

        In memory: a restart or a new leader forgets it, which a caller cannot bring about. Callers
        that are logged in already go on, also from the same address. Loopback is only slowed down:
        every account of the machine and every proxy on it has that address.
        """
        if is_loopback(source):
            return
        count, last = self._failures.get(_LOGIN.format(source), (0, 0.0))
        left = self.LOCK_SECONDS - (self._clock() - last)
        if count < self.LOCK_AFTER or left <= 0:
            return
        seconds = max(1, round(left))
        raise TooManyLogins(
            f"{count} logins from {source} failed: no more are looked at for {seconds} s",
            hint="wait, then log in with a new link or token:  gpupool console",
            failures=count,
            retry_after_seconds=seconds,
        )

    async def hold_login(self, source: str) -> None:
        """As `hold`, for a login. Requests with an ended session or token lock no logins."""
        await self.hold(_LOGIN.format(source))

    async def hold(self, source: str) -> None:
        """Note a failure and wait as long as it deserves, unless many wait already."""
        seconds = self.note_failure(source)
        if not seconds or self._waiting >= WAITING_AT_MOST:
            return
        self._waiting += 1
        try:
            await asyncio.sleep(seconds)
        finally:
            self._waiting -= 1


class CallerRecheck:
    """The caller of an open answer as it is now; looked up again when rights have changed.

    Tokens and sessions that expire do so without a change: these are found a little later.
    """

    def __init__(
        self,
        identify: Callable[[], Awaitable[Principal]],
        read_epoch: Callable[[], int],
        principal: Principal,
        epoch: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Make the check of one answer.

        Args:
            identify: looks the caller up; raises where it may not any more.
            read_epoch: a number that grows with every change of rights.
            principal: the caller, as it was found at `epoch`.
        """
        self._identify = identify
        self._read_epoch = read_epoch
        self._principal = principal
        self._epoch = epoch
        self._clock = clock
        self._due_seconds = clock() + LOOK_AGAIN_SECONDS

    async def __call__(self) -> Principal:
        epoch = self._read_epoch()
        now = self._clock()
        if epoch != self._epoch or now >= self._due_seconds:
            self._principal = await self._identify()
            self._epoch = epoch
            self._due_seconds = now + LOOK_AGAIN_SECONDS
        return self._principal


class AuthenticationMiddleware:
    """Puts the caller's Principal into the scope, or raises NotLoggedIn."""

    def __init__(self, app: ASGIApp, tenancy: TenancyService, brake: LoginBrake) -> None:
        self._app = app
        self._identity = tenancy.identity
        self._sessions = tenancy.session_identity
        self._brake = brake

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] not in OPEN_PATHS:
            await self._answer_known_caller(scope, receive, send)
            return
        if scope["type"] == "websocket":
            try:
                epoch = self._identity.epoch
                scope[PRINCIPAL_KEY] = await self._authenticate(scope)
                scope[RECHECK_KEY] = self._make_recheck(scope, epoch)
            except GpupoolError as error:
                await _refuse_websocket(error, receive, send)
                return
        # lifespan is the server's own: no caller can send it.
        elif scope["type"] not in ("http", "lifespan"):
            raise RuntimeError(f"no connection of the kind {scope['type']!r} is authenticated here")
        await self._app(scope, receive, send)

    async def _answer_known_caller(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request whose caller is known.

        An answer to a caller that has lost the right meanwhile is withheld.
        """
        epoch = self._identity.epoch
        scope[PRINCIPAL_KEY] = principal = await self._authenticate(scope)
        session = principal.session
        scope[RECHECK_KEY] = self._make_recheck(scope, epoch)
        if scope["method"] not in ("GET", "HEAD"):
            # What was changed was changed by right, and its answer says so.
            await self._app(scope, receive, send)
            return
        lost: GpupoolError | None = None

        async def send_answer(message: Message) -> None:
            nonlocal lost
            # The epoch grows with every change of rights: while it stands, nothing is asked again.
            if message["type"] == "http.response.start" and self._identity.epoch != epoch:
                try:
                    await self._identify_caller(scope, is_new=False)
                except GpupoolError as error:
                    lost = error
            if lost is None:
                if message["type"] == "http.response.start" and session is not None:
                    # A page that is shown again after a logout must ask.
                    MutableHeaders(scope=message).setdefault("Cache-Control", "private, no-cache")
                await send(message)

        await self._app(scope, receive, send_answer)
        if lost is not None:
            raise lost

    def _make_recheck(self, scope: Scope, epoch: int) -> CallerRecheck:
        """Return what an answer that stays open for hours asks whether its caller still may."""
        identify = partial(self._identify_caller, scope, is_new=False)
        return CallerRecheck(identify, lambda: self._identity.epoch, scope[PRINCIPAL_KEY], epoch)

    async def _authenticate(self, scope: Scope) -> Principal:
        try:
            return await self._identify_caller(scope)
        except NotLoggedIn:
            if _read_authorization(scope) or _read_session(scope) is not None:
                await self._brake.hold(source_of(scope))
            raise

    async def _identify_caller(self, scope: Scope, *, is_new: bool = True) -> Principal:
        """Return the caller as it is now. Raises NotLoggedIn, NoPermission, TwoCredentials.

        Args:
            scope: The request or WebSocket handshake.
            is_new: False for a second look at a caller that was authenticated before.
        """
        peer = scope_peer(scope)
        given = _read_authorization(scope)
        cookie = _read_session(scope)
        if given and cookie is not None:
            raise TwoCredentials(
                "the request has the cookie of a session and an Authorization header",
                hint="send one of them",
            )
        if given:
            return await self._check_bearer(given, peer)
        if cookie is not None:
            return await self._check_session(scope, cookie, is_new)
        if peer is None:
            raise NotLoggedIn("this needs a login", hint="gpupool login, or set GPUPOOL_TOKEN")
        # From memory on the event loop; a thread only where the database has to be read.
        known = self._identity.peek_peer(peer)
        return (
            known
            if known is not None
            else await run_in_threadpool(self._identity.principal_for_peer, peer)
        )

    async def _check_session(self, scope: Scope, cookie: SessionCookie, is_new: bool) -> Principal:
        known = self._sessions.peek(cookie, note_use=is_new)
        if known is None:
            known = await run_in_threadpool(self._sessions.identify, cookie, note_use=is_new)
        # Every WebSocket, also one that only reads: a page of any origin may open it.
        if is_handshake(scope) or scope["method"] not in SAFE_METHODS:
            check_page(scope, cookie)
        return known

    async def _check_bearer(self, given: list[bytes], peer: PeerProcess | None) -> Principal:
        scheme, _, token = given[0].decode("latin-1").partition(" ")
        if len(given) > 1 or scheme.lower() != "bearer":
            raise NotLoggedIn("send one header  Authorization: Bearer TOKEN", hint="gpupool login")
        known = self._identity.peek_token(token, peer)
        if known is not None:
            return known
        return await run_in_threadpool(self._identity.principal_for_token, token, peer)


def _read_authorization(scope: Scope) -> list[bytes]:
    return [value for name, value in scope["headers"] if name == b"authorization"]


def _read_session(scope: Scope) -> SessionCookie | None:
    # Over the Unix socket the kernel names the caller, and a cookie means nothing.
    return None if scope_peer(scope) is not None else read_cookie(scope)


async def _refuse_websocket(error: GpupoolError, receive: Receive, send: Send) -> None:
    """Close before it opens, which the server turns into 403; the code is that of the problem."""
    await receive()
    await send(
        {
            "type": "websocket.close",
            "code": POLICY_VIOLATION,
            "reason": f"{error.code} {error.message}"[:120],
        }
    )


def source_of(scope: Scope) -> str:
    """The source that the rate limit counts: a Unix user, or a network address."""
    peer = scope_peer(scope)
    if peer is not None:
        return f"uid {peer.uid}"
    return str(scope["client"][0]) if scope.get("client") else "?"
