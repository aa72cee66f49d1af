"""Requests that must take effect once: the idempotency record, written with the effect.

A client that got no answer repeats its request under the same key. What makes that safe is
that the record `this key has been used` commits in the *same transaction* as the effect: the
server puts an `Ask` into a context variable around the request, and `Store.write` lets it add
its row when it commits. So after kill -9 at any instant either both exist or neither.

The answer joins the row as early as it can:

* a service that calls `write.answer(status, body)` has its answer committed with the effect;
* for every other, the server records the answer when the response is complete. A crash in
  between leaves a row without an answer; a repetition is then told that the request was
  carried out, and still never carried out twice.

`write.answer_once(...)` is for answers that hold a secret: the row says what was made, the
secret is not kept. A request that is refused or fails leaves no row, because it changed
nothing; its repetition is judged anew. Rows are kept for `KEEP_NS` and cleared by later ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from gpupool.base.errors import Conflict, IdempotencyMismatch
from gpupool.store.tables import idempotency

KEEP_NS = 24 * 3600 * 10**9
FORGOTTEN_AT_ONCE = 100
"""Rows that are cleared with each new one: more than come, and few enough for its transaction to stay short."""
UNANSWERED = 0
"""Status of a row whose request took effect and whose answer is not (or must not be) known."""

_MINE = sa.and_(idempotency.c.user_id == sa.bindparam("of_user"), idempotency.c.key == sa.bindparam("of_key"))
_FIND = sa.select(idempotency).where(_MINE, idempotency.c.created_ns > sa.bindparam("before_ns"))
_OLD = (
    sa.select(idempotency.c.user_id, idempotency.c.key)
    .where(idempotency.c.created_ns <= sa.bindparam("before_ns"))
    .order_by(idempotency.c.created_ns)
    .limit(FORGOTTEN_AT_ONCE)
)
_FORGET = idempotency.delete().where(sa.tuple_(idempotency.c.user_id, idempotency.c.key).in_(_OLD))
_RECORD = idempotency.insert()
_ANSWER = idempotency.update().where(_MINE)


@dataclass(frozen=True)
class Answer:
    """What a repetition gets: `response` holds its `body` and, where it had one, its `etag`.

    `status` UNANSWERED: `response["made"]` may say what there is.
    """

    status: int = UNANSWERED
    response: dict[str, Any] = field(default_factory=dict)


@dataclass
class Ask:
    """One request under a key. `kept` once its row is committed; never shared by two requests."""

    user_id: int
    key: str
    request_sha256: str
    kept: bool = False
    closed: bool = False
    answer: Answer | None = None
    """What the effect's own transaction recorded as its answer."""

    @property
    def is_secret(self) -> bool:
        return self.answer is not None and "made" in self.answer.response

    def committed(self, answer: Answer | None) -> None:
        self.kept, self.answer = True, answer or self.answer


def etag_of_generation(generation: int | None) -> dict[str, str]:
    """The entry of `Answer.response` that makes a repetition name the generation which the first answer named."""
    return {} if generation is None else {"etag": f'"{generation}"'}


current: ContextVar[Ask | None] = ContextVar("gpupool_ask", default=None)


def pending() -> Ask | None:
    """The request whose key the running transaction has to record, if there is one."""
    ask = current.get()
    return None if ask is None or ask.closed else ask


@contextmanager
def aside() -> Iterator[None]:
    """Writes inside the block are only a part of what the request does: its key is recorded with a later one.

    A crash in between leaves that part and no key, so that a repetition goes on with the rest.
    """
    token = current.set(None)
    try:
        yield
    finally:
        current.reset(token)


def record(connection: sa.Connection, ask: Ask, answer: Answer | None, now_ns: int) -> None:
    """Inside the transaction of the effect: add the row, or its answer when the row is there.

    `now_ns` here and in `find`: the time of `Store.running_ns`, in which keys do not age while no server runs.
    """
    if ask.kept:
        if answer is not None:
            _set_answer(connection, ask, answer)
        return
    connection.execute(_FORGET, {"before_ns": now_ns - KEEP_NS})
    found = answer or Answer()
    row = {"user_id": ask.user_id, "key": ask.key, "request_sha256": ask.request_sha256, "created_ns": now_ns}
    try:
        connection.execute(_RECORD, {**row, "status": found.status, "response": found.response})
    except IntegrityError as error:  # only another server on the same store can have come first
        raise Conflict("a request with this Idempotency-Key was carried out meanwhile", hint="repeat it") from error


def _set_answer(connection: sa.Connection, ask: Ask, answer: Answer) -> None:
    mine = {"of_user": ask.user_id, "of_key": ask.key}
    connection.execute(_ANSWER, {**mine, "status": answer.status, "response": answer.response})


def find(connection: sa.Connection, ask: Ask, now_ns: int) -> Answer | None:
    """The answer recorded for this key, None when it is new. Raises IdempotencyMismatch."""
    mine = {"of_user": ask.user_id, "of_key": ask.key}
    row = connection.execute(_FIND, {**mine, "before_ns": now_ns - KEEP_NS}).one_or_none()
    if row is None:
        return None
    if row.request_sha256 != ask.request_sha256:
        raise IdempotencyMismatch(
            "this Idempotency-Key was used for another request in the last 24 hours",
            hint="send a new key with a new request",
        )
    return Answer(row.status, row.response)
