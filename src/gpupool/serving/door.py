"""The address of services: `/services/NAME/...` on the server's own listeners.

An ASGI layer inside authentication. It lies outside of the layers that read a request's body whole
and count the requests of a user: bodies and answers pass in pieces, and a service bounds its own
requests. Callers come with a bearer token or over the Unix socket, never with a browser's session:
answers are a tenant's pages on the origin of the API. Decision 0119.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from functools import partial
from typing import Any, Final
from urllib.parse import unquote

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from gpupool.base.errors import (
    BadInput,
    GpupoolError,
    JobUnreachable,
    NotFound,
    NotLoggedIn,
    ReplicaSilent,
    ServiceBusy,
    ServiceNotReady,
    UnknownService,
)
from gpupool.model.tenant import Permission, Principal
from gpupool.serving.answers import RIGHT_ENDED
from gpupool.serving.messages import ReplicaAnswer, RequestBody
from gpupool.serving.routing import ReplicaRoute, ServiceRoute
from gpupool.serving.service import ServingService
from gpupool.serving.sockets import GOING_AWAY, ServiceSocket
from gpupool.serving.traffic import BROKEN, BUSY, LEFT, NOT_READY, SILENT
from gpupool.tenancy.access import PRINCIPAL_KEY, recheck_caller, require_permission
from gpupool.workspaces.exchange import ServiceExchange
from gpupool.workspaces.upgrade import UPGRADE_EXTENSION, find_upgrade
from gpupool.workspaces.web_socket import is_web_socket

logger = logging.getLogger(__name__)

#: Below which services answer.
PREFIX: Final = "/services/"
#: Requests of one service that are under way or wait.
MOST_REQUESTS: Final = 1000
#: Seconds until the controller has seen a service that was just made.
_NEW_SECONDS: Final = 5.0
#: After which a client asks again.
_RETRY_SECONDS: Final = 5
#: Methods that are sent to another replica where the first one ended without an answer.
_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
#: Why the pool itself answers, in metrics.
_REJECTS: Final[Mapping[type[GpupoolError], str]] = {
    ServiceBusy: BUSY,
    ServiceNotReady: NOT_READY,
    ReplicaSilent: SILENT,
}


class ServiceDoor:
    """Hands requests below `/services/` to healthy replicas, and every other one on."""

    def __init__(self, app: ASGIApp, serving: ServingService) -> None:
        self._app = app
        self._serving = serving

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith(PREFIX):
            await self._app(scope, receive, send)
            return
        caller = check_caller(scope)
        name, inner = split_path(scope)
        route = await self._find(caller, name)
        request = _ServiceRequest(caller, scope, inner, RequestBody(receive), ReplicaAnswer(send))
        begin = asyncio.get_running_loop().time()
        outcome = "5xx"
        try:
            await self._serve(route, request)
            outcome = f"{request.answer.status // 100}xx"
        except ConnectionResetError as error:
            outcome = LEFT if request.body.is_gone else BROKEN
            # The head of the answer is sent: the client can only see that the body is not complete.
            logger.info("an answer of service %s broke off: %s", route.name, error)
        except GpupoolError as error:
            outcome = self._judge_refusal(route, request, error)
            if not request.answer.has_begun:
                raise
            logger.info("an answer of service %s is cut off: %s", route.name, error.message)
        finally:
            if not request.is_switched:
                seconds = asyncio.get_running_loop().time() - begin
                self._serving.controller.traffic.note_answer(route.labels, outcome, seconds)

    def _judge_refusal(
        self, route: ServiceRoute, request: _ServiceRequest, error: GpupoolError
    ) -> str:
        """Return what came of a request that no replica has answered."""
        if request.body.is_gone:
            return LEFT
        if isinstance(error, RIGHT_ENDED):
            return LEFT if request.answer.has_begun else "4xx"
        reason = _REJECTS.get(type(error))
        if reason is not None:
            self._serving.controller.traffic.note_reject(route.labels, reason)
        return "4xx" if isinstance(error, (ServiceBusy, BadInput)) else "5xx"

    async def _serve(self, route: ServiceRoute, request: _ServiceRequest) -> None:
        """Answer a request, counted as load."""
        load = self._serving.controller.load
        if load.count(route.id) >= MOST_REQUESTS:
            raise ServiceBusy(
                f"service {route.name} has {MOST_REQUESTS} requests under way, the most",
                hint=f"gpupool service update {route.name} --max N",
                retry_after_seconds=_RETRY_SECONDS,
            )
        load.begin(route.id)
        try:
            if request.is_handshake:
                # Its WebSocket is checked by itself, and closed with a code.
                await self._forward(route, request)
            else:
                recheck = partial(self._recheck, route, request)
                work = self._forward(route, request)
                await self._serving.controller.answers.run(route.name, recheck, work)
        finally:
            load.end(route.id)

    async def _recheck(self, route: ServiceRoute, request: _ServiceRequest) -> None:
        """Raise one of `RIGHT_ENDED` where the caller may not use the service any more."""
        caller = await recheck_caller(HTTPConnection(request.scope), Permission.RUN)
        if self._look_up(caller, route.public_id) is None:
            raise UnknownService(f"there is no service {route.name!r}", hint="gpupool service list")

    def _look_up(self, caller: Principal, name: str) -> ServiceRoute | None:
        sees_all = caller.sees_all and caller.has_permission(Permission.MANAGE_POOL)
        return self._serving.controller.book.find(caller.tenant_id, name, sees_all=sees_all)

    async def _find(self, caller: Principal, name: str) -> ServiceRoute:
        book = self._serving.controller.book
        found = self._look_up(caller, name)
        if found is None:
            book.ask_look()
            await book.wait_news(_NEW_SECONDS)
            found = self._look_up(caller, name)
        if found is None:
            raise UnknownService(f"there is no service {name[:80]!r}", hint="gpupool service list")
        return found

    async def _forward(self, route: ServiceRoute, request: _ServiceRequest) -> None:
        """Send a request to a replica, to another one where the first cannot be reached."""
        controller = self._serving.controller
        answer = request.answer
        body = request.body
        tried = set[int]()
        until = asyncio.get_running_loop().time() + route.wait_seconds
        while True:
            replica = controller.book.choose(route, controller.load, tried)
            if replica is None:
                route = await self._await_replica(request.caller, route, until)
                tried.clear()
                continue
            tried.add(replica.number)
            controller.load.begin_replica(route.id, replica.number)
            try:
                await self._exchange(route, replica, request)
                return
            except JobUnreachable as error:
                is_safe = request.inner["method"] in _SAFE or not body.was_read
                if answer.has_begun or not is_safe or not body.can_repeat or body.is_gone:
                    raise ReplicaSilent(
                        f"replica {replica.number} of service {route.name}: {error.message}",
                        hint=f"gpupool logs {replica.job}",
                    ) from error
                body.rewind()
            finally:
                controller.load.end_replica(route.id, replica.number)

    async def _exchange(
        self, route: ServiceRoute, replica: ReplicaRoute, request: _ServiceRequest
    ) -> None:
        target = {"kind": "port", "port": replica.port}
        opened = await self._serving.broker.open_stream(replica.agent, replica.job, target)
        self._serving.note_activity(replica.job)
        # A long answer and an open WebSocket are use of the replica too.
        opened.end.note_bytes = partial(self._serving.note_activity, replica.job)
        answer = request.answer
        exchange = ServiceExchange(opened, request.inner, request.body.receive, answer.send)
        if not request.is_handshake:
            await exchange.answer()
            return
        socket = ServiceSocket()
        if await exchange.switch(find_upgrade(request.scope), socket):
            await self._hold_socket(route, replica, request, socket)

    async def _hold_socket(
        self,
        route: ServiceRoute,
        replica: ReplicaRoute,
        request: _ServiceRequest,
        socket: ServiceSocket,
    ) -> None:
        """Count a WebSocket as a request under way until it is closed."""
        request.is_switched = True
        controller = self._serving.controller
        controller.traffic.note_answer(route.labels, "1xx", None)
        recheck = partial(self._recheck, route, request)
        try:
            # What counts requests of the API learns of it; the connection is switched by now.
            await request.answer.send({"type": "http.response.start", "status": 101, "headers": []})
            await controller.sockets.hold(socket, route.id, replica.number, recheck)
        finally:
            socket.end(GOING_AWAY)

    async def _await_replica(
        self, caller: Principal, route: ServiceRoute, until: float
    ) -> ServiceRoute:
        """Wait for a healthy replica. Raises ServiceNotReady, UnknownService."""
        controller = self._serving.controller
        loop = asyncio.get_running_loop()
        if not controller.load.count_waiting(route.id):
            controller.traffic.note_cold_start(route.labels)
        controller.load.begin_wait(route.id)
        # Once: until a replica is healthy the controller looks every second anyway.
        controller.book.ask_look()
        try:
            while (left := until - loop.time()) > 0:
                await controller.book.wait_news(left)
                route = await self._find(caller, route.public_id)
                if route.replicas:
                    return route
        finally:
            controller.load.end_wait(route.id)
        raise ServiceNotReady(
            f"service {route.name} has no healthy replica after {route.wait_seconds} s",
            hint=f"gpupool service show {route.name}",
            retry_after_seconds=_RETRY_SECONDS,
        )


class _ServiceRequest:
    """A request to a service, as it came and as its replica gets it."""

    def __init__(
        self,
        caller: Principal,
        scope: Scope,
        inner: Scope,
        body: RequestBody,
        answer: ReplicaAnswer,
    ) -> None:
        self.caller = caller
        self.scope = scope
        self.inner = inner
        self.body = body
        self.answer = answer
        self.is_handshake = scope["method"] == "GET" and is_web_socket(HTTPConnection(scope))
        #: Whether its connection carries a WebSocket.
        self.is_switched = False


def check_caller(scope: Scope) -> Principal:
    """Return the caller of a service. Raises NotLoggedIn, NoPermission."""
    principal = scope.get(PRINCIPAL_KEY)
    if not isinstance(principal, Principal) or principal.session is not None:
        raise NotLoggedIn(
            "a service is called with a token, not with a browser's session",
            hint="Authorization: Bearer TOKEN;  gpupool token create  makes one",
        )
    require_permission(principal, Permission.RUN)
    return principal


def split_path(scope: Scope) -> tuple[str, Scope]:
    """Return the service's name, and the request as its replica gets it: without the prefix."""
    raw = bytes(scope.get("raw_path") or scope["path"].encode())
    _, _, name, *rest = raw.partition(b"?")[0].split(b"/", 3)
    if not name:
        raise NotFound("the path names no service", hint="/services/NAME/...")
    extensions: dict[str, Any] = dict(scope.get("extensions") or {})
    # The answer passes here to its end, so that its replica is not ended before.
    extensions.pop(UPGRADE_EXTENSION, None)
    inner = b"/" + (rest[0] if rest else b"")
    path = unquote(inner.decode("latin-1"))
    return unquote(name.decode("latin-1")), {
        **scope,
        "raw_path": inner,
        "path": path,
        "extensions": extensions,
    }
