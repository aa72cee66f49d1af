"""Doors between a part of gpupool and a server that it asks: all goes through, and each of its
writes is a step.

A trap springs at the so-manieth write of a kind, before the server has it or when it has been done
and nobody was told. So a part is killed at an exact line and knows nothing of it. A shut door keeps
who knocks waiting: a part behind it is warm and has read nothing.
"""

from __future__ import annotations

import asyncio
import re
import ssl
import threading
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeVar

import aiohttp
from aiohttp import web

T = TypeVar("T")
STARTING_SECONDS = 30.0
HOPS = frozenset(
    {"connection", "keep-alive", "transfer-encoding", "host", "content-length", "content-encoding"}
)
"""Headers of one hop, and of what is packed anew."""
_KINDS = (
    ("lease", r"(POST|PUT) .*/leases(/[^/]+)?"),
    ("ledger", r"PATCH .*/gpunodes/[^/]+"),
    ("release", r"PATCH .*/pods/[^/]+|POST .*/pods/[^/]+/binding"),
    ("reason", r"PATCH .*/pods/[^/]+/status"),
    ("eviction", r"POST .*/pods/[^/]+/eviction"),
    ("replacement", r"DELETE .*/pods/[^/]+"),
    ("capacity", r"PATCH .*/nodes/[^/]+/status"),
    ("event", r"POST .*/events"),
    ("tenant", r"PATCH .*/tenants/[^/]+/status"),
    ("statement", r"PUT .*/cluster/nodes/[^/]+"),
    ("end", r"DELETE .*/cluster/nodes/[^/]+"),
    ("page", r"(POST|DELETE) .*/configmaps(/[^/]+)?"),
)
ANY = "any"


def kind_of(method: str, path: str) -> str:
    """Which of a part's steps a request is; empty for one that only reads.

    >>> kind_of("PATCH", "/api/v1/namespaces/a/pods/b"), kind_of("GET", "/api/v1/nodes")
    ('release', '')
    """
    if method == "GET":
        return ""
    return next(
        (kind for kind, pattern in _KINDS if re.fullmatch(pattern, f"{method} {path}")), "other"
    )


@dataclass
class Trap:
    """`spring` is called at the write with this number, from 1, of its kind; what the writer then
    hears is nothing."""

    kind: str
    spring: Callable[[], None]
    number: int = 1
    after: bool = False
    holds: bool = False
    """Nothing is lost: the write, or its answer, waits at the door until `let_pass`."""
    sprung: threading.Event = field(default_factory=threading.Event)

    def is_it(self, kind: str) -> bool:
        if not kind or self.sprung.is_set() or self.kind not in (kind, ANY):
            return False
        self.number -= 1
        return self.number == 0

    def go(self) -> None:
        self.sprung.set()
        self.spring()


class Door:
    """One, at `url`. `steps` counts what came by kind, `answers` what the server said by kind and
    status."""

    def __init__(self, house: Doors, is_open: bool) -> None:
        self._house, self.url = house, ""
        self.steps: Counter[str] = Counter()
        self.answers: Counter[tuple[str, int]] = Counter()
        self._trap: Trap | None = None
        self._open, self._pass_on = asyncio.Event(), asyncio.Event()
        if is_open:
            self._open.set()
        self._runner: web.AppRunner | None = None

    def open(self) -> None:
        self._house.call(_set(self._open))

    def set(self, trap: Trap | None) -> None:
        """The next trap, or none."""
        self._trap = trap

    def let_pass(self) -> None:
        """What a trap holds goes on to the server."""
        self._house.call(_set(self._pass_on))

    def hold_again(self) -> None:
        """The next trap that holds waits for its own `let_pass`."""
        self._house.call(_clear(self._pass_on))

    def close(self) -> None:
        """For good; who is inside is thrown out."""
        self._house.forget(self)

    async def begin(self) -> None:
        app = web.Application(client_max_size=1 << 26)
        app.router.add_route("*", "/{path:.*}", self._pass)
        self._runner = web.AppRunner(
            app, access_log=None, handler_cancellation=True, shutdown_timeout=0.0
        )
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = "http://{}:{}".format(*self._runner.addresses[0][:2])

    async def end(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _pass(self, request: web.Request) -> web.StreamResponse:
        await self._open.wait()
        kind = kind_of(request.method, request.path)
        self.steps[kind] += 1
        trap = self._trap if self._trap is not None and self._trap.is_it(kind) else None
        body = await request.read()
        if trap is not None and not trap.after:
            trap.go()
            if not trap.holds:
                return _hung_up(request)
            await self._pass_on.wait()
        try:
            async with self._house.ask(request, body) as answer:
                self.answers[kind, answer.status] += 1
                if trap is not None and trap.after:
                    said = await answer.read()
                    trap.go()
                    if not trap.holds:
                        return _hung_up(request)
                    await self._pass_on.wait()
                    return web.Response(
                        status=answer.status, headers=_kept(answer.headers), body=said
                    )
                return await _told(request, answer)
        except aiohttp.ClientError:
            return _hung_up(request)


async def _set(event: asyncio.Event) -> None:
    event.set()


async def _clear(event: asyncio.Event) -> None:
    event.clear()


async def _told(request: web.Request, answer: aiohttp.ClientResponse) -> web.StreamResponse:
    told = web.StreamResponse(status=answer.status, headers=_kept(answer.headers))
    await told.prepare(request)
    async for piece in answer.content.iter_any():
        await told.write(piece)
    await told.write_eof()
    return told


def _hung_up(request: web.Request) -> web.StreamResponse:
    """The connection breaks off; what is returned is sent to nobody."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


def _kept(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in HOPS}


class Doors:
    """All doors of one server, in a thread of their own. `with Doors(url, tls) as doors:
    doors.door()`."""

    def __init__(self, url: str, tls: ssl.SSLContext | None = None) -> None:
        self._url, self._tls = url, tls
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="doors", daemon=True)
        self._http: aiohttp.ClientSession | None = None
        self._doors: list[Door] = []

    def __enter__(self) -> Doors:
        self._thread.start()
        self.call(self._begin())
        return self

    def __exit__(self, *_: object) -> None:
        self.call(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(STARTING_SECONDS)
        self._loop.close()

    def door(self, *, is_open: bool = True) -> Door:
        made = Door(self, is_open)
        self._doors.append(made)
        self.call(made.begin())
        return made

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Done in the doors' thread, and waited for."""
        waiting: Future[T] = asyncio.run_coroutine_threadsafe(work, self._loop)
        return waiting.result(STARTING_SECONDS)

    def ask(self, request: web.Request, body: bytes) -> Any:
        assert self._http is not None, "used outside of its block"
        headers = _kept(request.headers) | {"Accept-Encoding": "identity"}
        return self._http.request(
            request.method, f"{self._url}{request.path_qs}", data=body or None, headers=headers
        )

    async def _begin(self) -> None:
        connector = aiohttp.TCPConnector(limit=0, ssl=self._tls or True)
        timeout = aiohttp.ClientTimeout(total=None)
        self._http = aiohttp.ClientSession(
            connector=connector, timeout=timeout, auto_decompress=False
        )

    def forget(self, door: Door) -> None:
        if door in self._doors:
            self._doors.remove(door)
            self.call(door.end())

    async def _end(self) -> None:
        for door in self._doors:
            await door.end()
        if self._http is not None:
            await self._http.close()
