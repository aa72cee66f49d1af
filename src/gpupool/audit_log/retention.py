"""Cuts whole old months off the audit log. A checkpoint record attests what was cut."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

import sqlalchemy as sa

from gpupool.audit_log.recorder import build_own_facts
from gpupool.base.units import NANOS_PER_SECOND
from gpupool.store.acts import AuditEntry
from gpupool.store.database import Store
from gpupool.store.tables import audit_records
from gpupool.wire.audit.chain import CHECKPOINT

#: Days for which records are kept at least; a year and the month in which an audit looks at it.
KEEP_DAYS: Final = 400
#: Records of one transaction: it holds every other change up.
CUT_AT_ONCE: Final = 5000
#: Seconds from the start of a server to the first look, and between two.
FIRST_LOOK_SECONDS: Final = 600.0
LOOK_SECONDS: Final = 6 * 3600.0
#: What the first cut of a long log may take.
BUSY_SECONDS: Final = 600.0


def find_cut(now_ns: int, keep_days: int) -> int:
    """Return the instant up to which records are cut: the begin of a month (UTC)."""
    oldest = datetime.fromtimestamp(now_ns // NANOS_PER_SECOND, UTC) - timedelta(days=keep_days)
    begin = datetime(oldest.year, oldest.month, 1, tzinfo=UTC)
    return int(begin.timestamp()) * NANOS_PER_SECOND


def cut_old_records(store: Store, keep_days: int, most: int = CUT_AT_ONCE) -> int:
    """Cut what is older than the retention, `most` records at a time; return how many.

    Each step is one transaction with its checkpoint: a crash between two leaves a whole log.
    """
    count = 0
    while True:
        done = _cut_step(store, find_cut(store.clock.now_ns(), keep_days), most)
        count += done
        if done < most:
            return count


def _cut_step(store: Store, before_ns: int, most: int) -> int:
    old = (
        sa.select(audit_records.c.seq, audit_records.c.hash, audit_records.c.at_ns)
        .where(audit_records.c.at_ns < before_ns)
        .order_by(audit_records.c.seq)
        .limit(most)
    )
    with store.read() as connection:
        if connection.execute(old.limit(1)).first() is None:
            return 0
    with store.write(freeing=True) as write:
        rows = write.execute(old).all()
        # The newest record stays: a log whose last record is cut could not be told from an empty one.
        rows = [row for row in rows if row.seq < write.audit_head.seq]
        if not rows:
            return 0
        last = rows[-1]
        write.execute(audit_records.delete().where(audit_records.c.seq <= last.seq))
        data = {
            "cut_seq": last.seq,
            "cut_hash": last.hash,
            "cut_records": len(rows),
            "first_ns": rows[0].at_ns,
            "last_ns": last.at_ns,
        }
        write.audit(AuditEntry(build_own_facts(CHECKPOINT, data)))
    return len(rows)
