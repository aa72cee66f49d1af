"""Schedules for their users: add, list, pause, resume, remove, run now, history."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa

from gpupool.allocations.schedules.instants import CronRule
from gpupool.allocations.schedules.rows import (
    SCHEDULE,
    TOPIC,
    Row,
    describe_schedule,
    pause_schedule,
    read_runs,
    record_run,
    resume_schedule,
)
from gpupool.allocations.schedules.runner import ScheduleRunner
from gpupool.allocations.services.jobs import JobService
from gpupool.allocations.store.schedule_tables import schedules
from gpupool.base.errors import (
    BadSchedule,
    NameTaken,
    NoPermission,
    TooManySchedules,
    UnknownSchedule,
    WrongState,
)
from gpupool.base.ids import new_id
from gpupool.model.tenant import Permission, Principal
from gpupool.store.database import Store
from gpupool.tenancy.service import TenancyService
from gpupool.wire.chains.schedules import ScheduleIn, ScheduleOut, ScheduleRunOut
from gpupool.wire.fleet import RunAs

#: Schedules of one tenant at most.
MOST_SCHEDULES: Final = 200


class ScheduleService:
    """Serves schedules. Thread-safe; every call is a few short transactions."""

    def __init__(self, store: Store, tenancy: TenancyService, jobs: JobService) -> None:
        self._store = store
        self._tenancy = tenancy
        self._jobs = jobs
        self.runner = ScheduleRunner(store, jobs)

    def add(self, body: ScheduleIn, principal: Principal, run_as: RunAs | None) -> ScheduleOut:
        """Add a schedule of the caller.

        Raises:
            BadSchedule: The expression, the zone or the job is none for a schedule.
            NameTaken: The tenant has a schedule of that name.
            TooManySchedules: The tenant has as many as it may.
            GpupoolError: The pool would refuse the job.
        """
        if body.job.attached or body.job.name is not None or body.job.after:
            raise BadSchedule(
                "the job of a schedule has no --name, no --after and no terminal",
                hint="its jobs are named after the schedule and the instant",
            )
        if body.job.tenant not in (None, principal.tenant):
            raise BadSchedule(
                f"a schedule is of its owner's tenant {principal.tenant}, not {body.job.tenant}",
                hint="leave out --tenant",
            )
        rule = CronRule(body.cron, body.time_zone)
        rule.check(self._store.clock.now_ns())
        self._jobs.plan_job(body.job, principal, run_as)
        with self._store.write() as write:
            tenant = self._tenancy.resolve_tenant(write.connection, principal, None)
            mine = schedules.c.tenant_id == tenant.id
            names = set(write.execute(sa.select(schedules.c.name).where(mine)).scalars())
            if body.name in names:
                raise NameTaken(
                    f"tenant {tenant.name} has a schedule {body.name} already",
                    hint=f"choose another name, or  gpupool schedule remove {body.name}",
                )
            if len(names) >= MOST_SCHEDULES:
                raise TooManySchedules(
                    f"tenant {tenant.name} has {len(names)} schedules, the limit is "
                    f"{MOST_SCHEDULES}",
                    hint="gpupool schedule list",
                    limit=MOST_SCHEDULES,
                )
            write.insert(
                schedules,
                public_id=new_id("s"),
                tenant_id=tenant.id,
                user_id=principal.user_id,
                name=body.name,
                cron=body.cron,
                time_zone=body.time_zone,
                overlap=body.overlap,
                deadline_s=body.deadline_seconds,
                body=body.job.model_dump(mode="json"),
                run_as=None if run_as is None else run_as.model_dump(mode="json"),
                state="active",
                reason="",
                next_ns=rule.find_next(write.now_ns),
                created_ns=write.now_ns,
            )
            write.event("schedule.created", body.name, tenant_id=tenant.id)
            write.announce(TOPIC)
            out = describe_schedule(_find(write.connection, body.name, principal), has_command=True)
            write.answer(201, out.model_dump(mode="json"))
        return out

    def list_schedules(self, principal: Principal) -> list[ScheduleOut]:
        """List the schedules that the caller may see, by name."""
        query = SCHEDULE.where(_scope(principal)).order_by(schedules.c.name, schedules.c.id)
        with self._store.read() as connection:
            rows = connection.execute(query).all()
        return [describe_schedule(row, has_command=_can_change(row, principal)) for row in rows]

    def get(self, name: str, principal: Principal) -> ScheduleOut:
        """Return a schedule. Raises UnknownSchedule."""
        with self._store.read() as connection:
            row = _find(connection, name, principal)
        return describe_schedule(row, has_command=_can_change(row, principal))

    def list_runs(self, name: str, principal: Principal, limit: int) -> list[ScheduleRunOut]:
        """List what became of the latest instants, the last one first. Raises UnknownSchedule."""
        with self._store.read() as connection:
            return read_runs(connection, _find(connection, name, principal).id, limit)

    def pause(self, name: str, principal: Principal) -> ScheduleOut:
        """Pause a schedule: its instants pass. Idempotent. Raises UnknownSchedule, NoPermission."""
        with self._store.write() as write:
            row = _find_to_change(write.connection, name, principal)
            if row.state == "active":
                pause_schedule(write, row, f"paused by {principal.user}")
            return describe_schedule(_find(write.connection, name, principal), has_command=True)

    def resume(self, name: str, principal: Principal) -> ScheduleOut:
        """Let a schedule go on with the next instant from now. Idempotent.

        Raises:
            UnknownSchedule: The caller sees no such schedule.
            NoPermission: It is of another user, and the caller manages no tenant.
            WrongState: Its owner has left.
        """
        with self._store.write() as write:
            row = _find_to_change(write.connection, name, principal)
            if row.disabled_ns is not None or row.retired_ns is not None:
                raise WrongState(
                    f"the owner {row.user} of schedule {name} has left",
                    hint="its new owner adds it again:  gpupool schedule add",
                )
            if row.state != "active":
                rule = CronRule(row.cron, row.time_zone)
                resume_schedule(write, row, rule.find_next(write.now_ns))
            return describe_schedule(_find(write.connection, name, principal), has_command=True)

    def remove(self, name: str, principal: Principal) -> None:
        """Remove a schedule and its history; its jobs go on. Raises UnknownSchedule, NoPermission."""
        with self._store.write() as write:
            row = _find_to_change(write.connection, name, principal)
            write.execute(schedules.delete().where(schedules.c.id == row.id))
            write.event("schedule.removed", name, tenant_id=row.tenant_id)
            write.announce(TOPIC)

    def run_now(self, name: str, principal: Principal) -> ScheduleRunOut:
        """Submit its job now, as its owner, whether it is paused or not.

        Raises:
            UnknownSchedule: The caller sees no such schedule.
            NoPermission: It is of another user, and the caller manages no tenant.
        """
        with self._store.read() as connection:
            row = _find_to_change(connection, name, principal)
        now_ns = self._store.clock.now_ns()
        run = self.runner.submit_run(row, now_ns, now_ns)
        by_hand = run.model_copy(update={"text": run.text or f"run by {principal.user}"})
        with self._store.write() as write:
            record_run(write, row, by_hand)
        return by_hand


def _scope(principal: Principal) -> sa.ColumnElement[bool]:
    return sa.true() if principal.sees_all else schedules.c.tenant_id == principal.tenant_id


def _can_change(row: Row, principal: Principal) -> bool:
    return row.user_id == principal.user_id or principal.has_permission(Permission.MANAGE_TENANT)


def _find(connection: sa.Connection, name: str, principal: Principal) -> Row:
    mine = sa.or_(schedules.c.name == name, schedules.c.public_id == name)
    # An admin sees those of all tenants: the own one comes first.
    own_first = (schedules.c.tenant_id != principal.tenant_id, schedules.c.id)
    query = SCHEDULE.where(_scope(principal), mine).order_by(*own_first).limit(1)
    row = connection.execute(query).one_or_none()
    if row is None:
        raise UnknownSchedule(f"there is no schedule {name!r}", hint="gpupool schedule list")
    return row


def _find_to_change(connection: sa.Connection, name: str, principal: Principal) -> Row:
    row = _find(connection, name, principal)
    if not _can_change(row, principal):
        raise NoPermission(
            f"schedule {name} belongs to {row.user}",
            hint=f"{row.user} or a tenant-admin can change it",
        )
    return row
