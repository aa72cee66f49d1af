"""Submits the jobs of schedules when their instants come.

One thread sleeps until the next instant. Only the server that leads has it. A crash between the
submission and its record repeats the submission with the same key, which gives the same job.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Hashable
from typing import Final

import sqlalchemy as sa

from gpupool.allocations.schedules.instants import CronRule
from gpupool.allocations.schedules.last_runs import ScheduledRun, find_live_run
from gpupool.allocations.schedules.rows import (
    IS_ACTIVE,
    SCHEDULE,
    TOPIC,
    Row,
    pause_schedule,
    record_run,
)
from gpupool.allocations.services.jobs import JobService
from gpupool.allocations.services.keyed_jobs import KeyedJobs, describe_lost_right
from gpupool.allocations.services.owner_accounts import OwnerAccounts
from gpupool.allocations.store.schedule_tables import schedules
from gpupool.base.errors import GpupoolError, ServiceUnavailable, WrongState
from gpupool.base.silence import mark_busy
from gpupool.base.supervision import SupervisedThread
from gpupool.base.units import NANOS_PER_SECOND, format_duration
from gpupool.model.tenant import Principal, UserRole
from gpupool.store.database import Store
from gpupool.tenancy.service import TenancyService
from gpupool.wire.chains.dependencies import DependencyIn
from gpupool.wire.chains.schedules import ScheduleRunOut
from gpupool.wire.submissions import JobIn

logger = logging.getLogger(__name__)

#: Seconds between two looks at most: a clock may be set.
_LOOK_SECONDS: Final = 60.0
#: Schedules that one look submits at most.
_AT_ONCE: Final = 100


class ScheduleRunner:
    """Runs schedules. Thread-safe; `look` may be called without the thread."""

    def __init__(self, store: Store, tenancy: TenancyService, jobs: JobService) -> None:
        self._store = store
        self._jobs = jobs
        self._keyed = KeyedJobs(store, tenancy, jobs)
        self._looking = threading.Lock()
        self._wake = threading.Event()
        self._closing = False
        self._thread = SupervisedThread("schedules", self._run)
        store.notifier.add_listener(self._listen)

    def start(self) -> None:
        """Start the thread; it looks at once."""
        self._thread.start()
        self._wake.set()

    def close(self) -> None:
        """Stop the thread after the look in progress."""
        self._closing = True
        self._thread.stop()
        self._wake.set()
        self._thread.join()

    def _listen(self, topics: frozenset[Hashable]) -> None:
        if TOPIC in topics:
            self._wake.set()

    def _run(self) -> None:
        while not self._closing:
            self._wake.wait(self._compute_pause())
            self._wake.clear()
            if not self._closing:
                with mark_busy():
                    self.look()
                self._thread.mark_well()

    def _compute_pause(self) -> float:
        query = sa.select(sa.func.min(schedules.c.next_ns)).where(IS_ACTIVE)
        with self._store.read() as connection:
            next_ns = connection.execute(query).scalar_one()
        if next_ns is None:
            return _LOOK_SECONDS
        left: float = (next_ns - self._store.clock.now_ns()) / NANOS_PER_SECOND
        return min(_LOOK_SECONDS, max(0.0, left))

    def look(self) -> None:
        """Run the schedules whose instant has come. Idempotent."""
        with self._looking:
            now_ns = self._store.clock.now_ns()
            due = SCHEDULE.where(IS_ACTIVE, schedules.c.next_ns <= now_ns)
            with self._store.read() as connection:
                rows = connection.execute(due.order_by(schedules.c.next_ns).limit(_AT_ONCE)).all()
            for row in rows:
                self._run_due(row, now_ns)

    def _run_due(self, row: Row, now_ns: int) -> None:
        lost = describe_lost_right(row)
        if lost:
            self._pause(row, lost)
            return
        try:
            due = CronRule(row.cron, row.time_zone).list_due(row.next_ns, now_ns)
        except (KeyError, ValueError, OSError):
            # The tz database of this machine has less than the one of `schedule add`. The schedules
            # of others go on.
            self._pause(row, f"its time zone {row.time_zone} is not known on this server")
            return
        run = self._decide_run(row, due.last_ns, now_ns)
        if due.earlier:
            text = f"{due.earlier} instants before it were missed"
            run = run.model_copy(update={"text": f"{run.text}; {text}" if run.text else text})
        with self._store.write() as write:
            record_run(write, row, run, due.next_ns)

    def _decide_run(self, row: Row, due_ns: int, now_ns: int) -> ScheduleRunOut:
        late_s = (now_ns - due_ns) // NANOS_PER_SECOND
        if late_s > row.deadline_s:
            text = f"{format_duration(late_s)} late, {format_duration(row.deadline_s)} are allowed"
            return ScheduleRunOut(due_ns=due_ns, at_ns=now_ns, outcome="missed", text=text)
        return self.submit_run(row, due_ns, now_ns)

    def submit_run(self, row: Row, due_ns: int, now_ns: int) -> ScheduleRunOut:
        """Submit the job of an instant, as the rule of overlaps has it. Idempotent.

        Raises:
            ServiceUnavailable: The store takes no changes now; nothing is submitted.
        """
        key = f"schedule/{row.public_id}/{due_ns}"
        known = self._keyed.find(row.user_id, key)
        principal = _make_owner(row)
        body = JobIn.model_validate({**row.body, "name": _name_job(row.name, due_ns)})
        with self._store.read() as connection:
            live = find_live_run(connection, row)
        if known is None and live is not None and row.overlap == "skip":
            text = f"{row.last_job} has not ended"
            return ScheduleRunOut(due_ns=due_ns, at_ns=now_ns, outcome="skipped", text=text)
        if live is not None:
            body.after.append(DependencyIn(job=live.public_id, condition="any"))
        try:
            owner = OwnerAccounts(principal, row.unix_uid, row.run_as_uid)
            job = known or self._keyed.submit(key, body, owner, row.run_as)
        except ServiceUnavailable:
            raise
        except GpupoolError as error:
            return ScheduleRunOut(
                due_ns=due_ns, at_ns=now_ns, outcome="refused", text=str(error)[:400]
            )
        text = ""
        if live is not None and job != row.last_job and row.overlap == "replace":
            # Behind the submission: one that is refused leaves the last job alone.
            text = self._stop_run(live)
        return ScheduleRunOut(due_ns=due_ns, at_ns=now_ns, outcome="submitted", job=job, text=text)

    def _stop_run(self, run: ScheduledRun) -> str:
        """Stop a run of the schedule; return why it goes on. Raises ServiceUnavailable."""
        try:
            # As its own user: a handover may have given the schedule to another one.
            self._jobs.stop_job(run.stop_id, run.owner, None)
        except ServiceUnavailable:
            raise
        except WrongState:
            return ""  # It has ended meanwhile.
        except GpupoolError as error:
            return str(error)[:400]
        return ""

    def _pause(self, row: Row, reason: str) -> None:
        logger.warning("schedule %s of tenant %s is paused: %s", row.name, row.tenant, reason)
        with self._store.write() as write:
            pause_schedule(write, row, reason)


def _make_owner(row: Row) -> Principal:
    return Principal(
        row.user_id,
        row.user,
        row.tenant_id,
        row.tenant,
        UserRole(row.role),
        project=row.default_project,
    )


def _name_job(schedule: str, due_ns: int) -> str:
    """Name the job of an instant in UTC, so that an hour that comes twice gives two names."""
    from datetime import UTC, datetime

    at = datetime.fromtimestamp(due_ns // NANOS_PER_SECOND, UTC)
    return f"{schedule[:44]}-{at:%Y%m%d-%H%M%S}"
