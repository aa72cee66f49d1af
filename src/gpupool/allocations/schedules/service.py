"""Schedules for their users: add, list, pause, resume, remove, run now, history."""

from __future__ import annotations

from typing import Any, Final

import sqlalchemy as sa

from gpupool.allocations.schedules.instants import CronRule
from gpupool.allocations.schedules.rows import (
    SCHEDULE,
    TOPIC,
    Row,
    change_schedule,
    describe_schedule,
    pause_schedule,
    read_runs,
    record_run,
    remove_of_ended_users,
    remove_schedule,
    resume_schedule,
    tag_schedule,
)
from gpupool.allocations.schedules.runner import ScheduleRunner
from gpupool.allocations.services.jobs import JobService
from gpupool.allocations.services.keyed_jobs import describe_lost_right
from gpupool.allocations.services.owner_accounts import describe_account
from gpupool.allocations.store.schedule_tables import schedules
from gpupool.base.errors import (
    BadSchedule,
    NameTaken,
    NoPermission,
    StaleGeneration,
    TooManySchedules,
    UnknownSchedule,
    WrongState,
)
from gpupool.base.ids import new_id
from gpupool.model.tenant import Permission, Principal
from gpupool.store.database import Store
from gpupool.tenancy.service import TenancyService
from gpupool.wire.chains.schedules import (
    ScheduleChangeIn,
    ScheduleIn,
    ScheduleOut,
    ScheduleRunOut,
)
from gpupool.wire.fleet import RunAs
from gpupool.wire.submissions import JobIn

#: Schedules of one tenant at most.
MOST_SCHEDULES: Final = 200


class ScheduleService:
    """Serves schedules. Thread-safe; every call is a few short transactions."""

    def __init__(self, store: Store, tenancy: TenancyService, jobs: JobService) -> None:
        self._store = store
        self._tenancy = tenancy
        self._jobs = jobs
        self.runner = ScheduleRunner(store, tenancy, jobs)
        store.commit_steps["schedules"] = remove_of_ended_users

    def add(self, body: ScheduleIn, principal: Principal, run_as: RunAs | None) -> ScheduleOut:
        """Add a schedule of the caller.

        Raises:
            BadSchedule: The expression, the zone or the job is none for a schedule.
            NameTaken: The tenant has a schedule of that name.
            TooManySchedules: The tenant has as many as it may.
            GpupoolError: The pool would refuse the job.
        """
        _check_job(body.job, principal.tenant)
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
                run_as=describe_account(write.connection, principal, run_as),
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
        return self.get_tagged(name, principal)[0]

    def get_tagged(self, name: str, principal: Principal) -> tuple[ScheduleOut, int]:
        """Return a schedule and the tag that a change names. Raises UnknownSchedule."""
        with self._store.read() as connection:
            row = _find(connection, name, principal)
        return _describe(row, principal), _tag(row, principal)

    def list_instants(self, cron: str, time_zone: str, count: int) -> list[int]:
        """List the next instants of an expression, in ns. Raises BadSchedule."""
        return CronRule(cron, time_zone).list_next(self._store.clock.now_ns(), count)

    def change(
        self,
        name: str,
        body: ScheduleChangeIn,
        principal: Principal,
        run_as: RunAs | None,
        tag: int | None,
    ) -> tuple[ScheduleOut, int]:
        """Change when a schedule submits, or what. Idempotent.

        Args:
            name: Its name or id.
            body: The schedule from now on.
            principal: The caller.
            run_as: The local account of the caller; it starts the commands of a job that changes.
            tag: Of what the caller read; None: whatever it is.

        Raises:
            UnknownSchedule: The caller sees no such schedule.
            NoPermission: It is of another user and the caller manages no tenant; or the job of
                another user would change.
            StaleGeneration: It was changed since.
            BadSchedule: The expression, the zone or the job is none for a schedule.
            GpupoolError: The pool would refuse the job.
        """
        rule = CronRule(body.cron, body.time_zone)
        rule.check(self._store.clock.now_ns())
        with self._store.read() as connection:
            row = _find_to_change(connection, name, principal)
        values: dict[str, Any] = body.model_dump(include={"cron", "time_zone", "overlap"})
        values["deadline_s"] = body.deadline_seconds
        if body.job is not None:
            if not _is_owner(row, principal):
                raise NoPermission(
                    f"the job of schedule {row.name} runs as {row.user}, not as {principal.user}",
                    hint=f"change its times alone, or ask {row.user}",
                )
            _check_job(body.job, row.tenant)
            self._jobs.plan_job(body.job, principal, run_as)
            values["body"] = body.job.model_dump(mode="json")
        with self._store.write() as write:
            row = _find_to_change(write.connection, row.public_id, principal)
            if body.job is not None:
                values["run_as"] = describe_account(write.connection, principal, run_as)
            now = _tag(row, principal)
            if tag is not None and tag != now:
                raise StaleGeneration(
                    f"schedule {row.name} was changed since it was read",
                    hint=f"look again: gpupool schedule show {row.name}",
                )
            if (row.cron, row.time_zone) != (body.cron, body.time_zone):
                # An instant of the same expression that has come is still made up for.
                values["next_ns"] = rule.find_next(write.now_ns)
            change_schedule(write, row, values)
            row = _find(write.connection, row.public_id, principal)
            out = _describe(row, principal)
            write.answer(200, out.model_dump(mode="json"))
        return out, _tag(row, principal)

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
            WrongState: Its owner has left, or may not run jobs.
            BadSchedule: Its time zone is not known on this server.
        """
        with self._store.write() as write:
            row = _find_to_change(write.connection, name, principal)
            _check_owner(row)
            if row.state != "active":
                rule = CronRule(row.cron, row.time_zone)
                rule.check(write.now_ns)
                resume_schedule(write, row, rule.find_next(write.now_ns))
            return describe_schedule(_find(write.connection, name, principal), has_command=True)

    def remove(self, name: str, principal: Principal) -> None:
        """Remove a schedule and its history; its jobs go on. Raises UnknownSchedule, NoPermission."""
        with self._store.write() as write:
            row = _find_to_change(write.connection, name, principal)
            remove_schedule(write, row)

    def run_now(self, name: str, principal: Principal) -> ScheduleRunOut:
        """Submit its job now, as its owner, whether it is paused or not.

        Raises:
            UnknownSchedule: The caller sees no such schedule.
            NoPermission: It is of another user, and the caller manages no tenant.
            WrongState: Its owner has left, or may not run jobs.
        """
        with self._store.read() as connection:
            row = _find_to_change(connection, name, principal)
        _check_owner(row)
        now_ns = self._store.clock.now_ns()
        run = self.runner.submit_run(row, now_ns, now_ns)
        by_hand = run.model_copy(update={"text": run.text or f"run by {principal.user}"})
        with self._store.write() as write:
            record_run(write, row, by_hand)
        return by_hand


def _scope(principal: Principal) -> sa.ColumnElement[bool]:
    return sa.true() if principal.sees_all else schedules.c.tenant_id == principal.tenant_id


def _is_owner(row: Row, principal: Principal) -> bool:
    return bool(row.user_id == principal.user_id)


def _can_change(row: Row, principal: Principal) -> bool:
    return _is_owner(row, principal) or principal.has_permission(Permission.MANAGE_TENANT)


def _describe(row: Row, principal: Principal) -> ScheduleOut:
    is_owner = _is_owner(row, principal)
    return describe_schedule(row, has_command=_can_change(row, principal), has_job=is_owner)


def _tag(row: Row, principal: Principal) -> int:
    return tag_schedule(row, has_job=_is_owner(row, principal))


def _check_owner(row: Row) -> None:
    """Raise WrongState where the job of a schedule may not run as its owner."""
    lost = describe_lost_right(row)
    if lost:
        raise WrongState(
            f"schedule {row.name} submits no job: {lost}",
            hint=f"a tenant-admin hands it over: gpupool user handover {row.user} --to USER",
        )


def _check_job(job: JobIn, tenant: str) -> None:
    if job.attached or job.name is not None or job.after:
        raise BadSchedule(
            "the job of a schedule has no --name, no --after and no terminal",
            hint="its jobs are named after the schedule and the instant",
        )
    if job.tenant not in (None, tenant):
        raise BadSchedule(
            f"a schedule is of its owner's tenant {tenant}, not {job.tenant}",
            hint="leave out --tenant",
        )


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
