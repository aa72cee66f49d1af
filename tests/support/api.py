"""The whole API in this process: real app, real store, an injected peer; no sockets.

    with running_app(tmp_path) as pool:
        admin = pool.client()                      # the owner, over the Unix socket
        alice = pool.client(uid=4001)              # an unknown Unix user: joins the default tenant
        assert alice.get("whoami").json()["role"] == "user"

Paths without a leading slash lie below /api/v1. The app runs on an event loop in a thread of its
own, so long polls and streams work as they do in the server; only sockets, HTTP parsing and the
kernel's word are left out (tests/unit/server/http has those).
"""

import asyncio
import json
import os
import queue
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from fastapi import FastAPI

from gpupool.server.app import create_app
from gpupool.server.compose import compose_services
from gpupool.server.config import ServerConfig, ServiceSet
from gpupool.store.database import Store, connect, open_store, sqlite_url
from gpupool.tenancy.access import PEER_EXTENSION, PeerProcess
from gpupool.tenancy.accounts import UnixAccounts
from tests.support.empty_databases import prepare_copy

PREFIX = "/api/v1/"
ANSWER_SECONDS = 30.0
OWNER_UID = 0


@dataclass(frozen=True)
class Answer:
    """A complete response."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str | None:
        """The public code of a problem, None for anything else."""
        is_problem = self.headers.get("content-type", "").startswith("application/problem+json")
        return self.json()["code"] if is_problem else None


@dataclass
class Client:
    """One caller. `peer` is what the kernel would say; None is a caller over TCP."""

    app: Any
    loop: asyncio.AbstractEventLoop
    peer: PeerProcess | None
    token: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    def request(
        self,
        method: str,
        path: str,
        *,
        json_body: Any = None,
        content: bytes | None = None,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        seconds: float = ANSWER_SECONDS,
    ) -> Answer:
        """Send a request and wait for the whole answer. `content` is sent as it is, `json_body` as
        JSON."""
        exchange = Exchange(
            self._scope(method, path, params, headers, json_body is not None),
            _body(json_body, content),
        )
        done = asyncio.run_coroutine_threadsafe(exchange.run(self.app), self.loop)
        done.result(seconds)
        return exchange.answer()

    @contextmanager
    def stream(self, path: str, *, params: Mapping[str, Any] | None = None) -> "Iterator[Exchange]":
        """An answer that is read piece by piece (`exchange.piece()`); leaving is the caller's going
        away."""
        exchange = Exchange(self._scope("GET", path, params, None, False), b"")
        done = asyncio.run_coroutine_threadsafe(exchange.run(self.app), self.loop)
        try:
            yield exchange
        finally:
            exchange.leave()
            done.result(ANSWER_SECONDS)

    def get(self, path: str, **options: Any) -> Answer:
        return self.request("GET", path, **options)

    def post(self, path: str, json_body: Any = None, **options: Any) -> Answer:
        return self.request(
            "POST", path, json_body={} if json_body is None else json_body, **options
        )

    def put(self, path: str, json_body: Any, **options: Any) -> Answer:
        return self.request("PUT", path, json_body=json_body, **options)

    def patch(self, path: str, json_body: Any, **options: Any) -> Answer:
        return self.request("PATCH", path, json_body=json_body, **options)

    def delete(self, path: str, **options: Any) -> Answer:
        return self.request("DELETE", path, **options)

    def _scope(
        self,
        method: str,
        path: str,
        params: Mapping[str, Any] | None,
        headers: Mapping[str, str] | None,
        is_json: bool,
    ) -> dict[str, Any]:
        path = path if path.startswith("/") else PREFIX + path
        path, _, query = path.partition("?")
        query = "&".join(part for part in (query, urlencode(params or {}, doseq=True)) if part)
        sent = {"host": "pool", **({"content-type": "application/json"} if is_json else {})}
        sent |= {"authorization": f"Bearer {self.token}"} if self.token else {}
        sent |= {name.lower(): value for name, value in {**self.headers, **(headers or {})}.items()}
        return {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": quote(path).encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [
                (name.encode("latin-1"), value.encode("latin-1")) for name, value in sent.items()
            ],
            "client": None if self.peer else ("192.0.2.1", 40000),
            "server": ("pool", None),
            "extensions": {PEER_EXTENSION: self.peer} if self.peer else {},
        }


class Exchange:
    """One request and its answer, over ASGI."""

    def __init__(self, scope: dict[str, Any], body: bytes) -> None:
        self._scope = scope
        self._body: bytes | None = body
        self._status, self._headers, self._pieces = 0, dict[str, str](), list[bytes]()
        self._heard: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._over: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._gone: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._begun = threading.Event()

    async def run(self, app: Any) -> None:
        self._gone, self._loop = asyncio.Event(), asyncio.get_running_loop()
        self._begun.set()
        await app(self._scope, self._receive, self._send)

    def leave(self) -> None:
        self._begun.wait()
        assert self._loop is not None
        assert self._gone is not None
        self._loop.call_soon_threadsafe(self._gone.set)

    def piece(self, seconds: float = ANSWER_SECONDS) -> bytes:
        """The next piece of the body; raises queue.Empty when none comes in time."""
        return self._heard.get(timeout=seconds)

    def ended(self, seconds: float = ANSWER_SECONDS) -> None:
        """Wait until the server has ended the answer, while its caller is still there. Raises
        queue.Empty."""
        self._over.get(timeout=seconds)

    def answer(self) -> Answer:
        return Answer(self._status, self._headers, b"".join(self._pieces))

    async def _receive(self) -> dict[str, Any]:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        assert self._gone is not None
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Mapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            self._headers = {
                k.decode("latin-1"): v.decode("latin-1") for k, v in message["headers"]
            }
            return
        piece = message.get("body", b"")
        self._pieces.append(piece)
        if piece:
            self._heard.put(piece)
        if not message.get("more_body", False):
            self._over.put(True)


@dataclass
class RunningApp:
    """A pool's server without sockets and without an agent."""

    app: FastAPI
    services: ServiceSet
    loop: asyncio.AbstractEventLoop

    @property
    def store(self) -> Store:
        return self.services.store

    def client(
        self, uid: int | None = OWNER_UID, *, token: str | None = None, gid: int | None = None
    ) -> Client:
        """A caller over the Unix socket with that uid; `uid=None` is one over TCP."""
        peer = (
            None
            if uid is None
            else PeerProcess(os.getpid(), uid, uid if gid is None else gid, (uid,))
        )
        return Client(self.app, self.loop, peer, token)

    def token(self, user: str, **options: Any) -> str:
        """A new api token of that user, made by the owner."""
        made = self.client().post("tokens", {"user": user, **options})
        assert made.status == 201, made.body
        text: str = made.json()["token"]
        return text


class FixedConsole:
    """The address of the console of an app without sockets."""

    async def open(self) -> str:
        return "http://127.0.0.1:8470"


@contextmanager
def running_app(
    tmp_path: Path,
    *,
    url: str | None = None,
    owner_uid: int = OWNER_UID,
    accounts: UnixAccounts | None = None,
    start: bool = False,
) -> Iterator[RunningApp]:
    """The app on a fresh (or, given the same place, the earlier) database. `start` begins placing
    as the host does."""
    engine = connect(url or sqlite_url(tmp_path / "gpupool.db"))
    prepare_copy(engine, time.time_ns(), "p-test")
    store = open_store(engine, f"test-{time.monotonic_ns()}")
    services = compose_services(store, owner_uid=owner_uid, accounts=accounts)
    services.tenancy.bootstrap()
    config = ServerConfig(state_dir=str(tmp_path), console=FixedConsole())
    app = create_app(config, services)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="api")
    thread.start()
    try:
        if start:
            services.allocations.start()
        yield RunningApp(app, services, loop)
    finally:
        if start:
            services.allocations.close()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()
        engine.dispose()


def _body(json_body: Any, content: bytes | None) -> bytes:
    if content is not None:
        return content
    return b"" if json_body is None else json.dumps(json_body).encode()
