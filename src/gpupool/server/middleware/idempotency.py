"""The layer that answers a repeated request with the answer of the first (Idempotency-Key).

The record lives in the store and commits with the effect (see `store.idempotency`, which says what
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

from gpupool.base.errors import BadInput, WriteConflict
from gpupool.model.tenant import Principal
from gpupool.server.middleware.request_bodies import BODY_KEY
from gpupool.store import idempotency
from gpupool.store.database import Store
from gpupool.tenancy.access import PRINCIPAL_KEY

HEADER = b"idempotency-key"
METHODS = frozenset({"POST", "PUT", "PATCH", "DELETE"})
#: An answer that is longer is not kept; the request takes effect once all the same.
LONGEST_ANSWER_BYTES = 256 << 10
_KEY = re.compile(r"[\x21-\x7e]{1,128}")


class IdempotencyMiddleware:
    """Lets requests with an Idempotency-Key take effect once."""

    def __init__(self, app: ASGIApp, store: Store) -> None:
        self._app = app
        self._store = store
        self._running: dict[tuple[int, str], asyncio.Event] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        ask = (
            _read_request(scope) if scope["type"] == "http" and scope["method"] in METHODS else None
        )
        if ask is None:
            await self._app(scope, receive, send)
            return
        await self._await_turn(ask)
        with self._in_flight(ask):
            known = await run_in_threadpool(self._find_answer, ask)
            if known is not None:
                await _replay_answer(known)(scope, receive, send)
                return
            await self._answer_first(ask, scope, receive, send)

    async def _await_turn(self, ask: idempotency.IdempotentRequest) -> None:
        while (before := self._running.get((ask.user_id, ask.key))) is not None:
            await before.wait()

    @contextmanager
    def _in_flight(self, ask: idempotency.IdempotentRequest) -> Iterator[None]:
        done = self._running[(ask.user_id, ask.key)] = asyncio.Event()
        try:
            yield
        finally:
            del self._running[(ask.user_id, ask.key)]
            done.set()

    def _find_answer(self, ask: idempotency.IdempotentRequest) -> idempotency.RecordedAnswer | None:
        with self._store.read() as connection:
            return idempotency.find_answer(
                connection, ask, self._store.running_ns(self._store.clock.now_ns())
            )

    async def _answer_first(
        self, ask: idempotency.IdempotentRequest, scope: Scope, receive: Receive, send: Send
    ) -> None:
        heard = CollectedAnswer()
        token = idempotency.current.set(ask)
        try:
            await self._app(scope, receive, heard.send)
        finally:
            idempotency.current.reset(token)
            ask.closed = True
        answer = heard.answer()
        if ask.kept and heard.has_failed:
            await self._answer_after_failure(ask, heard, scope, receive, send)
            return
        # Before the caller hears it: an answer that was heard is an answer that is repeated.
        if ask.kept and answer is not None and ask.answer != answer and not ask.is_secret:
            await run_in_threadpool(self._record_answer, ask, answer)
        for message in heard.messages:
            await send(message)

    @staticmethod
    async def _answer_after_failure(
        ask: idempotency.IdempotentRequest,
        heard: CollectedAnswer,
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        """Answer when the effect is committed and something behind it failed.

        The failure must not be kept as the answer. The one that was committed with the effect is
        true, for this caller and for a repetition.
        """
        if ask.answer is not None and not ask.is_secret:
            await _make_response(ask.answer, {})(scope, receive, send)
            return
        for message in heard.messages:
            await send(message)

    def _record_answer(
        self, ask: idempotency.IdempotentRequest, answer: idempotency.RecordedAnswer
    ) -> None:
        with self._store.write(freeing=True) as write:
            idempotency.record_answer(
                write.connection, ask, answer, self._store.running_ns(write.now_ns)
            )


class CollectedAnswer:
    """An answer, taken in whole. Only routes that change something have a key, and none streams."""

    def __init__(self) -> None:
        self.messages: list[Message] = []

    async def send(self, message: Message) -> None:
        self.messages.append(message)

    @property
    def has_failed(self) -> bool:
        return bool(self.messages) and self.messages[0]["status"] >= 400

    def answer(self) -> idempotency.RecordedAnswer | None:
        """Return what can be repeated: JSON of a modest size, or nothing at all."""
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
        return idempotency.RecordedAnswer(self.messages[0]["status"], response)


def _read_request(scope: Scope) -> idempotency.IdempotentRequest | None:
    given = [value.decode("latin-1") for name, value in scope["headers"] if name == HEADER]
    principal = scope.get(PRINCIPAL_KEY)
    if not given or not isinstance(principal, Principal):
        return None
    if len(given) > 1 or not _KEY.fullmatch(given[0]):
        raise BadInput(
            "an Idempotency-Key is 1 to 128 printable ASCII characters, sent once",
            hint="use a random one",
        )
    what = b"\0".join(
        (scope["method"].encode(), scope["path"].encode(), scope["query_string"], scope[BODY_KEY])
    )
    return idempotency.IdempotentRequest(
        principal.user_id, given[0], hashlib.sha256(what).hexdigest()
    )


def _replay_answer(known: idempotency.RecordedAnswer) -> Response:
    if known.status == idempotency.UNANSWERED:
        made = known.response.get("made")
        raise WriteConflict(
            f"this request was carried out already: {made} exists, and its secret was told once"
            if made
            else "this request was carried out already; the server stopped or failed before its answer was kept",
            hint="look at what there is now, and use a new Idempotency-Key for a new request",
        )
    return _make_response(known, {"Idempotency-Replayed": "true"})


def _make_response(known: idempotency.RecordedAnswer, headers: dict[str, str]) -> Response:
    if "etag" in known.response:
        headers["ETag"] = known.response["etag"]
    body: Any = known.response["body"]
    return (
        Response(None, known.status, headers)
        if body is None
        else JSONResponse(body, known.status, headers)
    )
