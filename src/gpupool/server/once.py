"""The layer that answers a repeated request with the answer of the first (Idempotency-Key).

The record lives in the store and commits with the effect (see `store.replay`, which says what
survives kill -9). Here: two identical requests at once go one after the other, and the
complete answer joins the record. Keys are the caller's own; another user's key is another.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gpupool.base.errors import BadInput, Conflict
from gpupool.model.tenant import Principal
from gpupool.server.bodies import BODY_KEY
from gpupool.store import replay
from gpupool.store.database import Store
from gpupool.tenancy.access import PRINCIPAL_KEY

HEADER = b"idempotency-key"
METHODS = frozenset({"POST", "PUT", "PATCH", "DELETE"})
LONGEST_ANSWER_BYTES = 256 << 10
_KEY = re.compile(r"[\x21-\x7e]{1,128}")


class Once:
    """Requests with an Idempotency-Key take effect once."""

    def __init__(self, app: ASGIApp, store: Store) -> None:
        self._app, self._store = app, store
        self._running: dict[tuple[int, str], asyncio.Event] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        ask = _ask(scope) if scope["type"] == "http" and scope["method"] in METHODS else None
        if ask is None:
            await self._app(scope, receive, send)
            return
        await self._turn(ask)
        with self._in_flight(ask):
            known = await run_in_threadpool(self._find, ask)
            if known is not None:
                await _replayed(known)(scope, receive, send)
                return
            await self._first(ask, scope, receive, send)

    async def _turn(self, ask: replay.Ask) -> None:
        while (before := self._running.get((ask.user_id, ask.key))) is not None:
            await before.wait()

    @contextmanager
    def _in_flight(self, ask: replay.Ask) -> Iterator[None]:
        done = self._running[(ask.user_id, ask.key)] = asyncio.Event()
        try:
            yield
        finally:
            del self._running[(ask.user_id, ask.key)]
            done.set()

    def _find(self, ask: replay.Ask) -> replay.Answer | None:
        with self._store.read() as connection:
            return replay.find(connection, ask, self._store.running_ns(self._store.clock.now_ns()))

    async def _first(self, ask: replay.Ask, scope: Scope, receive: Receive, send: Send) -> None:
        heard = Heard()
        token = replay.current.set(ask)
        try:
            await self._app(scope, receive, heard.send)
        finally:
            replay.current.reset(token)
            ask.closed = True
        answer = heard.answer()
        if ask.kept and heard.failed:
            await self._after_a_failure(ask, heard, scope, receive, send)
            return
        # Before the caller hears it: an answer that was heard is an answer that is repeated.
        if ask.kept and answer is not None and ask.answer != answer and not ask.is_secret:
            await run_in_threadpool(self._keep, ask, answer)
        for message in heard.messages:
            await send(message)

    @staticmethod
    async def _after_a_failure(ask: replay.Ask, heard: Heard, scope: Scope, receive: Receive, send: Send) -> None:
        """The effect is committed and something behind it failed: the failure must not be kept as the answer.

        The answer that was committed with the effect is the true one, for the caller and for who repeats the request.
        """
        if ask.answer is not None and not ask.is_secret:
            await _response(ask.answer, {})(scope, receive, send)
            return
        for message in heard.messages:
            await send(message)

    def _keep(self, ask: replay.Ask, answer: replay.Answer) -> None:
        with self._store.write(freeing=True) as write:
            replay.record(write.connection, ask, answer, self._store.running_ns(write.now_ns))


class Heard:
    """An answer, taken in whole. Only routes that change something are asked with a key, and none streams."""

    def __init__(self) -> None:
        self.messages: list[Message] = []

    async def send(self, message: Message) -> None:
        self.messages.append(message)

    @property
    def failed(self) -> bool:
        return bool(self.messages) and self.messages[0]["status"] >= 400

    def answer(self) -> replay.Answer | None:
        """What can be repeated: JSON of a modest size, or nothing at all."""
        body = b"".join(message.get("body", b"") for message in self.messages)
        if not self.messages or len(body) > LONGEST_ANSWER_BYTES:
            return None
        try:
            response = {"body": json.loads(body) if body else None}
        except ValueError:
            return None
        headers = dict(self.messages[0].get("headers", ()))
        if b"etag" in headers:
            response["etag"] = headers[b"etag"].decode("latin-1")
        return replay.Answer(self.messages[0]["status"], response)


def _ask(scope: Scope) -> replay.Ask | None:
    given = [value.decode("latin-1") for name, value in scope["headers"] if name == HEADER]
    principal = scope.get(PRINCIPAL_KEY)
    if not given or not isinstance(principal, Principal):
        return None
    if len(given) > 1 or not _KEY.fullmatch(given[0]):
        raise BadInput("an Idempotency-Key is 1 to 128 printable ASCII characters, sent once", hint="use a random one")
    what = b"\0".join((scope["method"].encode(), scope["path"].encode(), scope["query_string"], scope[BODY_KEY]))
    return replay.Ask(principal.user_id, given[0], hashlib.sha256(what).hexdigest())


def _replayed(known: replay.Answer) -> Response:
    if known.status == replay.UNANSWERED:
        made = known.response.get("made")
        raise Conflict(
            f"this request was carried out already: {made} exists, and its secret was told once"
            if made
            else "this request was carried out already; the server stopped or failed before its answer was kept",
            hint="look at what there is now, and use a new Idempotency-Key for a new request",
        )
    return _response(known, {"Idempotency-Replayed": "true"})


def _response(known: replay.Answer, headers: dict[str, str]) -> Response:
    if "etag" in known.response:
        headers["ETag"] = known.response["etag"]
    body: Any = known.response["body"]
    return Response(None, known.status, headers) if body is None else JSONResponse(body, known.status, headers)
