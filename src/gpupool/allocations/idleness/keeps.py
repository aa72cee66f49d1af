"""Keeps: a person's word that an idle job is to stay, so often a day and for so long."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa

from gpupool.allocations.idleness.policies import TOPIC
from gpupool.allocations.idleness.policy import IdleRule
from gpupool.allocations.idleness.progress import close_spans, write_state
from gpupool.allocations.idleness.tables import idle_keeps
from gpupool.allocations.idleness.units import IdleUnit
from gpupool.base.errors import KeepsSpent, KeepTooLong, NoIdleRule
from gpupool.base.units import NANOS_PER_SECOND, format_instant, format_span
from gpupool.model.tenant import Principal
from gpupool.store.database import Store, WriteTransaction

#: Keeps are counted over this time.
DAY_NS: Final = 86_400 * NANOS_PER_SECOND


class KeepBook:
    """Counts and writes keeps."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def count_today(self, connection: sa.Connection, job_id: int, now_ns: int) -> int:
        """Count the keeps of a job in the last 24 hours."""
        return len(self._list_instants(connection, job_id, now_ns))

    def keep_unit(
        self,
        write: WriteTransaction,
        unit: IdleUnit,
        rule: IdleRule | None,
        caller: Principal,
        seconds: int | None,
    ) -> None:
        """Keep a unit, with the event. Raises NoIdleRule, KeepTooLong, KeepsSpent."""
        if rule is None:
            raise NoIdleRule(
                f"no idle policy is about job {unit.name}: nothing happens to it when it is idle",
                hint="gpupool idle policy list",
            )
        wanted = rule.keep_seconds if seconds is None else seconds
        if wanted > rule.keep_seconds and rule.keep_seconds:
            raise KeepTooLong(
                f"{format_span(wanted)} is longer than the {format_span(rule.keep_seconds)} that a "
                f"keep of job {unit.name} may last",
                hint=f"gpupool idle keep {unit.name} {format_span(rule.keep_seconds)}",
                seconds=wanted,
                most=rule.keep_seconds,
            )
        instants = self._list_instants(write.connection, unit.row_id, write.now_ns)
        most = rule.keeps_per_day if rule.keep_seconds else 0
        if len(instants) >= most:
            raise _refuse_keep(unit, instants, most)
        # Older ones count for nothing any more.
        write.execute(idle_keeps.delete().where(idle_keeps.c.at_ns <= write.now_ns - DAY_NS))
        until_ns = write.now_ns + wanted * NANOS_PER_SECOND
        write.insert(
            idle_keeps,
            job_id=unit.row_id,
            user_id=caller.user_id,
            at_ns=write.now_ns,
            until_ns=until_ns,
        )
        close_spans(write, unit.row_id)
        values = {"since_ns": write.now_ns, "act": None, "keep_until_ns": until_ns}
        write_state(write, unit.row_id, values)
        left = most - len(instants) - 1
        data = {"name": unit.name, "by": caller.user, "until_ns": until_ns, "left": left}
        write.event("job.idle-kept", unit.job, tenant_id=unit.tenant_id, data=data)
        write.announce(TOPIC, ("job", unit.job))

    @staticmethod
    def _list_instants(connection: sa.Connection, job_id: int, now_ns: int) -> list[int]:
        query = sa.select(idle_keeps.c.at_ns).where(
            idle_keeps.c.job_id == job_id, idle_keeps.c.at_ns > now_ns - DAY_NS
        )
        return list(connection.execute(query.order_by(idle_keeps.c.at_ns)).scalars())


def _refuse_keep(unit: IdleUnit, instants: list[int], most: int) -> KeepsSpent:
    if not most:
        return KeepsSpent(
            f"the idle policy of job {unit.name} allows no keep",
            hint="use the job: any work on its share begins the time anew",
            per_day=0,
        )
    next_ns = instants[0] + DAY_NS
    return KeepsSpent(
        f"job {unit.name} was kept {len(instants)} times in 24 hours, and {most} are allowed; it can "
        f"be kept again from {format_instant(next_ns)} on",
        hint="use the job: any work on its share begins the time anew",
        per_day=most,
        next_ns=next_ns,
    )
