"""The audit log as its readers see it, and its work at the start, the end and in between."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa

from gpupool import __version__
from gpupool.audit_log.recorder import ActRecorder, build_own_facts
from gpupool.audit_log.retention import KEEP_DAYS, cut_old_records
from gpupool.base.errors import BadOption, NotFound, UnknownTenant
from gpupool.model.tenant import Principal, UserRole
from gpupool.store.acts import OBJECT_MARK, AuditEntry
from gpupool.store.database import Store
from gpupool.store.tables import audit_records, pool
from gpupool.tenancy.tables import tenants
from gpupool.wire.audit.records import AuditHeadOut, AuditRecordOut
from gpupool.wire.common import Page

#: Roles that see every record. An operator handles cards, not people.
READERS: Final = frozenset({UserRole.ADMIN, UserRole.AUDITOR})
_BODY: Final = (audit_records.c.body, audit_records.c.previous, audit_records.c.hash)


@dataclass(frozen=True)
class AuditQuery:
    """Which records: all that are given must fit."""

    since_ns: int | None = None
    until_ns: int | None = None
    user: str | None = None
    #: A part of method and route.
    action: str | None = None
    #: An id or a name, whole.
    subject: str | None = None
    tenant: str | None = None
    kind: str | None = None


class AuditService:
    """The audit log. Thread-safe."""

    def __init__(self, store: Store, keep_days: int = KEEP_DAYS) -> None:
        self._store = store
        self._announced_seq = 0
        self.keep_days = keep_days
        self.recorder = ActRecorder(store)

    def begin(self) -> None:
        """Record that a server starts, or that it starts on a restored log, and start the writer.

        `clean` says whether the server before ended in order: after a kill, refusals of its last
        second may lack, which nothing can count.
        """
        with self._store.write(freeing=True) as write:
            row = write.execute(sa.select(pool.c.event_epoch, pool.c.audit_epoch)).one()
            head = write.audit_head
            last = write.execute(
                sa.select(audit_records.c.kind).where(audit_records.c.seq == head.seq)
            ).scalar_one_or_none()
            data: dict[str, Any] = {
                "clean": last == "stop" or head.seq == 0,
                "epoch": row.event_epoch,
                "version": __version__,
            }
            kind = "start"
            if head.seq and row.audit_epoch != row.event_epoch:
                # The log goes on behind the last record of the backup.
                kind = "restore"
                data |= {
                    "earlier_epoch": row.audit_epoch,
                    "head_seq": head.seq,
                    "head_hash": head.hash,
                }
            write.audit(AuditEntry(build_own_facts(kind, data)))
            write.execute(pool.update().values(audit_epoch=row.event_epoch))
        self.recorder.start()

    def close(self) -> None:
        """Write what waits and record that the server ends."""
        self.recorder.close()
        with self._store.write(freeing=True) as write:
            write.audit(AuditEntry(build_own_facts("stop", {})))

    def keep(self) -> int:
        """Cut old months, and put the head into the event log, from where others can note it.

        Returns:
            How many records were cut.
        """
        cut = cut_old_records(self._store, self.keep_days)
        with self._store.write() as write:
            head = write.audit_head
            if head.seq > self._announced_seq:
                write.event("audit.head", str(head.seq), data={"hash": head.hash})
        self._announced_seq = head.seq
        return cut

    def read_head(self, caller: Principal) -> AuditHeadOut:
        """Return the last record's number and hash. Raises NotFound for other roles."""
        if caller.role not in READERS:
            raise _make_refusal()
        self.recorder.flush()
        count = sa.select(sa.func.count(), sa.func.min(audit_records.c.seq))
        with self._store.read() as connection:
            row = connection.execute(sa.select(pool.c.audit_seq, pool.c.audit_hash)).one()
            records, first_seq = connection.execute(count.select_from(audit_records)).one()
            at_ns = connection.execute(
                sa.select(audit_records.c.at_ns).where(audit_records.c.seq == row.audit_seq)
            ).scalar_one_or_none()
        return AuditHeadOut(
            seq=row.audit_seq,
            hash=row.audit_hash,
            at_ns=at_ns,
            first_seq=first_seq,
            records=records,
            keep_days=self.keep_days,
        )

    def list_records(
        self, caller: Principal, query: AuditQuery, order: str, after: str | None, limit: int
    ) -> Page[AuditRecordOut]:
        """List the records that the caller may see: all, or those of the own tenant.

        Raises:
            NotFound: the caller is neither admin, auditor nor an admin of a tenant.
            UnknownTenant: there is no such tenant in the caller's scope.
        """
        if caller.role not in READERS and caller.role is not UserRole.TENANT_ADMIN:
            raise _make_refusal()
        # What was refused a moment ago is seen.
        self.recorder.flush()
        is_newest = order == "newest"
        seq = audit_records.c.seq
        selected: Any = sa.select(*_BODY, seq).order_by(seq.desc() if is_newest else seq)
        if after is not None:
            last = _parse_after(after)
            selected = selected.where(seq < last if is_newest else seq > last)
        with self._store.read() as connection:
            selected = _apply_query(selected, query, _make_tenant_finder(connection, caller))
            if caller.role not in READERS:
                selected = selected.where(audit_records.c.tenant_id == caller.tenant_id)
            rows = connection.execute(selected.limit(limit + 1)).all()
        items = [_read_record(row, caller) for row in rows[:limit]]
        return Page(items=items, next=str(items[-1].seq) if len(rows) > limit else None)


def _apply_query(selected: Any, query: AuditQuery, find_tenant_id: Callable[[str], int]) -> Any:
    columns = audit_records.c
    if query.since_ns is not None:
        selected = selected.where(columns.at_ns >= query.since_ns)
    if query.until_ns is not None:
        selected = selected.where(columns.at_ns < query.until_ns)
    if query.user is not None:
        selected = selected.where(columns.user_name == query.user)
    if query.action is not None:
        selected = selected.where(columns.action.contains(query.action, autoescape=True))
    if query.subject is not None:
        line = f"{OBJECT_MARK}{query.subject}{OBJECT_MARK}"
        selected = selected.where(columns.objects.contains(line, autoescape=True))
    if query.kind is not None:
        selected = selected.where(columns.kind == query.kind)
    if query.tenant is not None:
        selected = selected.where(columns.tenant_id == find_tenant_id(query.tenant))
    return selected


def _make_tenant_finder(connection: sa.Connection, caller: Principal) -> Callable[[str], int]:
    def find_tenant_id(name: str) -> int:
        # Also a deleted one: its records are kept.
        wanted = sa.select(tenants.c.id).where(tenants.c.name == name)
        if caller.role not in READERS:
            wanted = wanted.where(tenants.c.id == caller.tenant_id)
        found = connection.execute(wanted.order_by(tenants.c.id.desc()).limit(1)).scalar()
        if found is None:
            raise UnknownTenant(f"no tenant {name[:80]!r}", hint="gpupool tenant list")
        return int(found)

    return find_tenant_id


def _read_record(row: sa.Row[Any], caller: Principal) -> AuditRecordOut:
    record = json.loads(row.body)
    if caller.role not in READERS and record.get("tenant") != caller.tenant:
        # Where the pool's admins work from is not the tenant's to know.
        record["source"] = None
    return AuditRecordOut.model_validate({**record, "previous": row.previous, "hash": row.hash})


def _parse_after(after: str) -> int:
    if not after.isascii() or not after.isdigit() or len(after) > 18:
        raise BadOption("`after` is no `next` of a page before", hint="begin without it")
    return int(after)


def _make_refusal() -> NotFound:
    return NotFound(
        "there is no audit log for this role", hint="admins, auditors and tenants' admins read it"
    )
