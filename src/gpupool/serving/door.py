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
from typing import Any, Final
from urllib.parse import unquote

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gpupool.base.errors import (
    JobUnreachable,
    NotFound,
    NotLoggedIn,
    ReplicaSilent,
    ServiceBusy,
    ServiceNotReady,
    UnknownService,
)
from gpupool.model.tenant import Permission, Principal
from gpupool.serving.routing import ReplicaRoute, ServiceRoute
from gpupool.serving.service import ServingService
from gpupool.tenancy.access import PRINCIPAL_KEY, require_permission
from gpupool.workspaces.exchange import ServiceExchange
from gpupool.workspaces.upgrade import UPGRADE_EXTENSION

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
#: A page of a tenant must not act on the origin of the API.
_HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": "sandbox; default-src 'none'",
    "X-Content-Type-Options": "nosniff",
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
        load = self._serving.controller.load
        if load.count(route.id) >= MOST_REQUESTS:
            raise ServiceBusy(
                f"service {route.name} has {MOST_REQUESTS} requests under way, the most",
                hint=f"gpupool service update {route.name} --max N",
                retry_after_seconds=_RETRY_SECONDS,
            )
        load.begin(route.id)
        try:
            await self._forward(caller, route, inner, receive, send)
        except ConnectionResetError as error:
            # The answer has begun: that it is not complete is all that a client can be told.
            logger.info("an answer of service %s broke off: %s", route.name, error)
        finally:
            load.end(route.id)

    async def _find(self, caller: Principal, name: str) -> ServiceRoute:
        book = self._serving.controller.book
        sees_all = caller.sees_all and caller.has_permission(Permission.MANAGE_POOL)
        found = book.find(caller.tenant_id, name, sees_all=sees_all)
        if found is None:
            book.ask_look()
            await book.wait_news(_NEW_SECONDS)
            found = book.find(caller.tenant_id, name, sees_all=sees_all)
        if found is None:
            raise UnknownService(f"there is no service {name[:80]!r}", hint="gpupool service list")
        return found

    async def _forward(
        self, caller: Principal, route: ServiceRoute, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Send a request to a replica, to another one where the first cannot be reached."""
        controller = self._serving.controller
        answer = _ServiceAnswer(send)
        body = _RequestBody(receive)
        tried = set[int]()
        until = asyncio.get_running_loop().time() + route.wait_seconds
        while True:
            replica = controller.book.choose(route, controller.load, tried)
            if replica is None:
                route = await self._await_replica(caller, route, until)
                tried.clear()
                continue
            tried.add(replica.number)
            controller.load.begin_replica(route.id, replica.number)
            try:
                await self._exchange(replica, scope, body, answer)
                return
            except JobUnreachable as error:
                is_safe = scope["method"] in _SAFE or not body.was_read
                if answer.has_begun or not is_safe or not body.can_repeat or body.is_gone:
                    raise ReplicaSilent(
                        f"replica {replica.number} of service {route.name}: {error.message}",
                        hint=f"gpupool logs {replica.job}",
                    ) from error
                body.rewind()
            finally:
                controller.load.end_replica(route.id, replica.number)

    async def _exchange(
        self, replica: ReplicaRoute, scope: Scope, body: _RequestBody, answer: _ServiceAnswer
    ) -> None:
        target = {"kind": "port", "port": replica.port}
        opened = await self._serving.broker.open_stream(replica.agent, replica.job, target)
        self._serving.note_activity(replica.job)
        await ServiceExchange(opened, scope, body.receive, answer.send).answer()

    async def _await_replica(
        self, caller: Principal, route: ServiceRoute, until: float
    ) -> ServiceRoute:
        """Wait for a healthy replica. Raises ServiceNotReady, UnknownService."""
        controller = self._serving.controller
        loop = asyncio.get_running_loop()
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


class _RequestBody:
    """The request's body; a request that came whole in one piece can be sent again."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._first: Message | None = None
        self._is_next = False
        self.was_read = False
        self.can_repeat = True
        self.is_gone = False

    async def receive(self) -> Message:
        if self._is_next and self._first is not None:
            self._is_next = False
            return self._first
        message = await self._receive()
        self.is_gone |= message["type"] == "http.disconnect"
        if self._first is None:
            self._first = message
            self.was_read = True
            self.can_repeat = message["type"] == "http.request" and not message.get("more_body")
        return message

    def rewind(self) -> None:
        """Give the first message again."""
        self._is_next = True


class _ServiceAnswer:
    """The answer of a replica, kept from acting on the origin of the API."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.has_begun = False

    async def send(self, message: Message) -> None:
        self.has_begun = True
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers[name] = value
        await self._send(message)


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
