"""Idempotency keys: the record of a request is written in the transaction of its effect."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from gpupool.base.errors import IdempotencyMismatch, WriteConflict
from gpupool.base.units import NANOS_PER_SECOND
from gpupool.store.tables import idempotency

KEEP_NS = 24 * 3600 * NANOS_PER_SECOND
#: Rows that are cleared with each new one: more than come, and few enough for its transaction to
#: stay short.
FORGOTTEN_AT_ONCE = 100
#: Status of a row whose request took effect and whose answer is not (or must not be) known.
UNANSWERED = 0

_MINE = sa.and_(
    idempotency.c.user_id == sa.bindparam("of_user"), idempotency.c.key == sa.bindparam("of_key")
)
_FIND = sa.select(idempotency).where(_MINE, idempotency.c.created_ns > sa.bindparam("before_ns"))
_OLD = (
    sa.select(idempotency.c.user_id, idempotency.c.key)
    .where(idempotency.c.created_ns <= sa.bindparam("before_ns"))
    .order_by(idempotency.c.created_ns)
    .limit(FORGOTTEN_AT_ONCE)
)
_FORGET = idempotency.delete().where(sa.tuple_(idempotency.c.user_id, idempotency.c.key).in_(_OLD))
#: The old row in the place of a new key, however many older ones there are. A statement of its own:
#: PostgreSQL would read the whole table for both at once.
_FORGET_MINE = idempotency.delete().where(
    _MINE, idempotency.c.created_ns <= sa.bindparam("before_ns")
)
_RECORD = idempotency.insert()
_ANSWER = idempotency.update().where(_MINE)


@dataclass(frozen=True)
class RecordedAnswer:
    """The answer that a repetition of the request gets.

    `response` holds the `body` and, where there was one, the `etag`. With `status` UNANSWERED,
    `response["made"]` may name what exists.
    """

    status: int = UNANSWERED
    response: dict[str, Any] = field(default_factory=dict)


@dataclass
class IdempotentRequest:
    """One request with an Idempotency-Key. Not shared between requests.

    `kept` is true once the row of the key is committed.
    """

    user_id: int
    key: str
    request_sha256: str
    kept: bool = False
    closed: bool = False
    #: What the effect's own transaction recorded as its answer.
    answer: RecordedAnswer | None = None

    @property
    def is_secret(self) -> bool:
        return self.answer is not None and "made" in self.answer.response

    def mark_committed(self, answer: RecordedAnswer | None) -> None:
        """Note that the answer is on disk."""
        self.kept = True
        self.answer = answer or self.answer


def build_generation_etag(generation: int | None) -> dict[str, str]:
    """Build the entry of `RecordedAnswer.response` that repeats the first generation."""
    return {} if generation is None else {"etag": f'"{generation}"'}


current: ContextVar[IdempotentRequest | None] = ContextVar("gpupool_ask", default=None)


def get_pending_request() -> IdempotentRequest | None:
    """Return the request whose key the running transaction has to record; None without a key."""
    ask = current.get()
    return None if ask is None or ask.closed else ask


@contextmanager
def defer_key() -> Iterator[None]:
    """Leave the key to a later transaction of the same request while the block runs.

    A crash in between leaves a part of the effect and no key, so the repetition does the rest.
    """
    token = current.set(None)
    try:
        yield
    finally:
        current.reset(token)


def record_answer(
    connection: sa.Connection, ask: IdempotentRequest, answer: RecordedAnswer | None, now_ns: int
) -> None:
    """Write the key, or its answer if the row exists, inside the transaction of the effect.

    Args:
        connection: The transaction of the effect; the caller commits it.
        ask: The request.
        answer: The answer to repeat; None if there is none yet.
        now_ns: `Store.running_ns`, in which keys do not age while no server runs.
    """
    if ask.kept:
        if answer is not None:
            _set_answer(connection, ask, answer)
        return
    mine = {"of_user": ask.user_id, "of_key": ask.key}
    connection.execute(_FORGET, {"before_ns": now_ns - KEEP_NS})
    connection.execute(_FORGET_MINE, {**mine, "before_ns": now_ns - KEEP_NS})
    found = answer or RecordedAnswer()
    row = {
        "user_id": ask.user_id,
        "key": ask.key,
        "request_sha256": ask.request_sha256,
        "created_ns": now_ns,
    }
    try:
        connection.execute(_RECORD, {**row, "status": found.status, "response": found.response})
    except IntegrityError as error:  # only another server on the same store can have come first
        raise WriteConflict(
            "a request with this Idempotency-Key was carried out meanwhile", hint="repeat it"
        ) from error


def _set_answer(connection: sa.Connection, ask: IdempotentRequest, answer: RecordedAnswer) -> None:
    mine = {"of_user": ask.user_id, "of_key": ask.key}
    connection.execute(_ANSWER, {**mine, "status": answer.status, "response": answer.response})


def find_answer(
    connection: sa.Connection, ask: IdempotentRequest, now_ns: int
) -> RecordedAnswer | None:
    """Return the recorded answer of the key, or None if the key is new.

    Raises:
        IdempotencyMismatch: The key belongs to another request.
    """
    mine = {"of_user": ask.user_id, "of_key": ask.key}
    row = connection.execute(_FIND, {**mine, "before_ns": now_ns - KEEP_NS}).one_or_none()
    if row is None:
        return None
    if row.request_sha256 != ask.request_sha256:
        raise IdempotencyMismatch(
            "this Idempotency-Key was used for another request in the last 24 hours",
            hint="send a new key with a new request",
        )
    return RecordedAnswer(row.status, row.response)
