"""The request behind a write: its record in the audit log commits with its effect.

A context variable, as `store.idempotency` has one: the layer that sees requests sets it, and the
store writes the record in the request's first transaction. Knows no user and no HTTP. Decision 0106.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from gpupool.store.tables import audit_records
from gpupool.wire.audit.chain import ChainHead, compute_hash, write_canonical

if TYPE_CHECKING:
    from gpupool.store.write_transaction import WriteTransaction

#: Between the objects of a record in their column; no name has it.
OBJECT_MARK: Final = "\n"


@dataclass(frozen=True)
class AuditEntry:
    """A record before it has a number: its fields, and the tenant whose admins see it."""

    facts: Mapping[str, Any]
    tenant_id: int | None = None


@dataclass(frozen=True)
class ActActor:
    """The user that a login turned out to be of."""

    user: str
    tenant: str
    tenant_id: int
    role: str


class PendingAct(Protocol):
    """A request that is under way and may change something."""

    def describe(self, write: WriteTransaction) -> AuditEntry | None:
        """Return its record; None where it needs none, or has one already."""

    def mark_committed(self) -> None:
        """Note that the record is in the log."""

    def name_actor(self, actor: ActActor) -> None:
        """Note as which user the request logs in."""

    def name_object(self, name: str) -> None:
        """Note what the request is about, where its address does not say."""


current: ContextVar[PendingAct | None] = ContextVar("gpupool_act", default=None)


def name_actor(actor: ActActor) -> None:
    """Note as which user the running request logs in, if it is recorded."""
    act = current.get()
    if act is not None:
        act.name_actor(actor)


def name_object(name: str) -> None:
    """Note what the running request is about, if it is recorded. Never text that may be secret."""
    act = current.get()
    if act is not None:
        act.name_object(name)


def build_rows(
    entries: Sequence[AuditEntry], head: ChainHead, now_ns: int
) -> tuple[list[dict[str, Any]], ChainHead]:
    """Build the rows of new records behind `head`; return them and the new head."""
    rows = []
    for entry in entries:
        record = {**entry.facts, "seq": head.seq + 1, "at_ns": now_ns}
        body = write_canonical(record)
        digest = compute_hash(head.hash, body)
        rows.append(
            {
                "seq": record["seq"],
                "at_ns": now_ns,
                "kind": record["kind"],
                "user_name": record.get("user"),
                "tenant_id": entry.tenant_id,
                "action": record.get("action") or "",
                "objects": _join_objects(record.get("objects") or ()),
                "body": body,
                "previous": head.hash,
                "hash": digest,
            }
        )
        head = ChainHead(record["seq"], digest)
    return rows, head


def insert_rows(write: WriteTransaction, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write the rows in the transaction of their effect."""
    write.execute(_INSERT, list(rows))


def _join_objects(objects: Sequence[str]) -> str:
    return OBJECT_MARK + OBJECT_MARK.join(objects) + OBJECT_MARK if objects else ""


# Made once: SQLAlchemy takes longer to make a statement than SQLite to run it.
_INSERT: Final = audit_records.insert()
