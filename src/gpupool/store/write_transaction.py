"""One open write transaction: what is added to the log, announced, and answered with its commit."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import sqlalchemy as sa

from gpupool.store import idempotency
from gpupool.store.acts import AuditEntry, build_rows, insert_rows
from gpupool.store.tables import events, pool
from gpupool.wire.audit.chain import ChainHead

# Made once: SQLAlchemy takes longer to make a statement than SQLite to run it.
_SET_POOL = pool.update()


@cache
def _insert_statement(table: sa.Table) -> sa.Insert:
    return table.insert()


@dataclass
class WriteTransaction:
    """An open write transaction: its connection, its instant, and what it will announce."""

    connection: sa.Connection
    now_ns: int
    pool_generation: int
    #: The last record of the audit log before this transaction.
    audit_head: ChainHead = field(default_factory=ChainHead)
    _entries: list[AuditEntry] = field(default_factory=list)
    _events: list[dict[str, Any]] = field(default_factory=list)
    _topics: set[Hashable] = field(default_factory=set)
    _notes: list[Callable[[], object]] = field(default_factory=list)
    _touched: bool = False
    _answer: idempotency.RecordedAnswer | None = None

    def execute(self, statement: Any, parameters: Any = None) -> sa.CursorResult[Any]:
        return self.connection.execute(statement, parameters)

    def insert(self, table: sa.Table, **values: Any) -> int:
        """Add one row; return the number it got as its key."""
        key = self.connection.execute(_insert_statement(table), values).inserted_primary_key
        assert key is not None
        return int(key[0])

    def event(
        self,
        kind: str,
        subject: str,
        *,
        tenant_id: int | None = None,
        data: Mapping[str, Any] | None = None,
    ) -> None:
        """Add to the event log; numbered at commit, in the order of the calls."""
        self._events.append(
            {
                "kind": kind,
                "subject": subject,
                "tenant_id": tenant_id,
                "data": dict(data or {}),
                "at_ns": self.now_ns,
            }
        )

    def audit(self, entry: AuditEntry) -> None:
        """Add a record to the audit log; numbered and hashed at commit, in the order of calls."""
        self._entries.append(entry)

    def list_events(self, first: int = 0) -> Sequence[Mapping[str, Any]]:
        """List the events so far, from the `first` on: `kind`, `subject`, `tenant_id`, `data`."""
        return self._events[first:]

    def announce(self, *topics: Hashable) -> None:
        """Wake the waiters for these topics, once committed."""
        self._topics.update(topics)

    def note(self, note: Callable[[], object]) -> None:
        """Call this once committed, before the answer is sent and before the next write begins.

        So a copy in memory follows the ledger in the order of its commits. It must not write.
        """
        self._notes.append(note)

    def subjects(self) -> frozenset[str]:
        """Return what this write is about: kinds of its events, and topics by their first word."""
        topics = (topic[0] if isinstance(topic, tuple) else topic for topic in self._topics)
        return frozenset([*(str(event["kind"]) for event in self._events), *map(str, topics)])

    def touch_ledger(self) -> int:
        """Say that this transaction changes the ledger; return the pool's new generation."""
        self._touched = True
        return self.pool_generation + 1

    def read_answer_status(self) -> int | None:
        """Return the status that `answer` set; None: no answer, or one with a secret."""
        status = idempotency.UNANSWERED if self._answer is None else self._answer.status
        return None if status == idempotency.UNANSWERED else status

    def answer(self, status: int, body: Any, *, generation: int | None = None) -> None:
        """Set what a repetition of this request gets; `body` is JSON-ready, `generation` its ETag.

        See `store.idempotency`.
        """
        self._answer = idempotency.RecordedAnswer(
            status, {"body": body} | idempotency.build_generation_etag(generation)
        )

    def answer_once(self, made: str) -> None:
        """Say that the answer holds a secret.

        A repetition is told that `made` exists, never the secret.
        """
        self._answer = idempotency.RecordedAnswer(idempotency.UNANSWERED, {"made": made})


def finish_write(write: WriteTransaction, last_seq: int) -> int:
    """Write the events, numbered from the log's last one, audit records, and the pool's own row.

    Returns:
        The number of the last event.
    """
    rows = [{**row, "seq": last_seq + 1 + n} for n, row in enumerate(write._events)]
    if rows:
        write.execute(_insert_statement(events), rows)
    values: dict[str, Any] = {
        "event_seq": last_seq + len(rows),
        "ledger_ns": write.now_ns,
        "generation": write.pool_generation + (1 if write._touched else 0),
    }
    if write._entries:
        records, head = build_rows(write._entries, write.audit_head, write.now_ns)
        insert_rows(write, records)
        values |= {"audit_seq": head.seq, "audit_hash": head.hash}
    write.execute(_SET_POOL, values)
    return last_seq + len(rows)
