"""Services for their users: create, list, show, change and remove."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import sqlalchemy as sa
from pydantic import ValidationError

from gpupool.allocations.service import Allocations
from gpupool.allocations.services.keyed_jobs import KeyedJobs
from gpupool.allocations.services.owner_accounts import describe_account
from gpupool.base.errors import (
    BadService,
    NameTaken,
    NoPermission,
    NotFound,
    TooManyServices,
    UnknownService,
)
from gpupool.base.ids import check_name, new_id
from gpupool.model.tenant import Principal
from gpupool.serving.controller import ServiceController
from gpupool.serving.costs import ServiceHolding, read_holdings
from gpupool.serving.jobs import PORT_TEXT, make_replica_job
from gpupool.serving.plans import bound_desired, plan_change
from gpupool.serving.rows import (
    SERVICE,
    TOPIC,
    Row,
    change_service,
    delete_of_ended_users,
    delete_service,
    read_events,
    read_replicas,
)
from gpupool.serving.sights import ServiceSight, make_owner
from gpupool.serving.steps import ServiceSteps
from gpupool.serving.tables import service_replicas, services
from gpupool.serving.traffic import ServiceLabels
from gpupool.serving.views import can_change, describe_service
from gpupool.store.database import Store
from gpupool.templates.service import TemplateService
from gpupool.tenancy.service import TenancyService
from gpupool.wire.common import Event
from gpupool.wire.fleet import RunAs
from gpupool.wire.serving.services import (
    ServiceAdd,
    ServiceChange,
    ServiceOut,
    ServicePlanOut,
    ServiceRule,
)
from gpupool.wire.submissions import JobIn
from gpupool.wire.templates.uses import TemplateUse
from gpupool.workspaces.service import WorkspaceService

#: Services of one tenant at most.
MOST_SERVICES: Final = 100
#: The port of a service that names none.
USUAL_PORT: Final = 8000


class ServingService:
    """Serves services. Thread-safe, but for `controller`, which is the event loop's."""

    def __init__(
        self,
        store: Store,
        tenancy: TenancyService,
        allocations: Allocations,
        templates: TemplateService,
        workspaces: WorkspaceService,
    ) -> None:
        self._store = store
        self._tenancy = tenancy
        self._jobs = allocations.jobs
        self._templates = templates
        self.broker = workspaces.broker
        self.note_activity = allocations.idleness.watch.activity.note
        store.commit_steps["services"] = delete_of_ended_users
        keyed = KeyedJobs(store, tenancy, allocations.jobs)
        self.steps = ServiceSteps(store, keyed, allocations.stops)
        self.controller = ServiceController(
            store, self.steps, workspaces.broker, allocations.metering
        )

    def render(self, body: ServiceAdd, caller: Principal) -> ServiceAdd:
        """Return the request with the job that its template makes; one with a job as it is.

        Raises:
            GpupoolError: As `TemplateService.render_replica` does.
        """
        if body.template is None:
            return body
        use = body.use or TemplateUse()
        made = self._templates.render_replica(caller, body.template, use, PORT_TEXT)
        rule = body.rule
        if rule.check_path is None and made.health is not None:
            # A template's path may be none for a check, as one with a blank.
            rule = _change_rule(rule.model_dump(), {"check_path": made.health})
        return body.model_copy(
            update={
                "job": made.job,
                "template": f"{body.template}@{made.version}"[:80],
                "port": body.port or made.port,
                "rule": rule,
            }
        )

    def add(self, body: ServiceAdd, caller: Principal, run_as: RunAs | None) -> ServiceOut:
        """Create a service of the caller, of a request that `render` has returned.

        Raises:
            BadService: The job is none for a service.
            NameTaken: The tenant has a service of that name.
            TooManyServices: The tenant has as many as it may.
            GpupoolError: The pool would refuse the job.
        """
        check_name(body.name, "service name")
        job = body.job
        if job is None:
            raise BadService("the service has no job", hint="name a command or a template")
        _check_job(job, caller)
        port = body.port or USUAL_PORT
        stored = job.model_dump(mode="json")
        self._jobs.plan_job(make_replica_job(stored, body.name, 1, port), caller, run_as)
        with self._store.write() as write:
            tenant = self._tenancy.resolve_tenant(write.connection, caller, None)
            mine = services.c.tenant_id == tenant.id
            names = set(write.execute(sa.select(services.c.name).where(mine)).scalars())
            if body.name in names:
                raise NameTaken(
                    f"tenant {tenant.name} has a service {body.name} already",
                    hint=f"choose another name, or  gpupool service delete {body.name}",
                )
            if len(names) >= MOST_SERVICES:
                raise TooManyServices(
                    f"tenant {tenant.name} has {len(names)} services, the limit is {MOST_SERVICES}",
                    hint="gpupool service list",
                    limit=MOST_SERVICES,
                )
            write.insert(
                services,
                public_id=new_id("v"),
                tenant_id=tenant.id,
                user_id=caller.user_id,
                name=body.name,
                template=body.template,
                rule=body.rule.model_dump(mode="json"),
                port=port,
                body=stored,
                run_as=describe_account(write.connection, caller, run_as),
                state="active",
                reason="",
                generation=1,
                desired=body.rule.min_replicas,
                next_number=1,
                failures=0,
                retry_ns=0,
                created_ns=write.now_ns,
            )
            write.event("service.created", body.name, tenant_id=tenant.id)
            write.announce(TOPIC)
            out = self._describe_one(write.connection, body.name, caller)
            write.answer(201, out.model_dump(mode="json"))
        return out

    def list_services(self, caller: Principal) -> list[ServiceOut]:
        """List the services that the caller may see, by name."""
        query = SERVICE.where(_scope(caller)).order_by(services.c.name, services.c.id)
        with self._store.read() as connection:
            rows = connection.execute(query).all()
            found = read_replicas(
                connection, service_replicas.c.service_id.in_([row.id for row in rows])
            )
            holdings = self._read_holdings(connection, rows)
        by_service: dict[int, list[Row]] = {row.id: [] for row in rows}
        reasons = dict[str, str]()
        for one in found:
            by_service[one.service_id].append(one)
            reasons[one.job] = one.job_reason or ""
        listed = list[ServiceOut]()
        for row in rows:
            why = reasons.__getitem__
            listed.append(
                self._describe(row, by_service[row.id], caller, why, holdings[row.id], full=False)
            )
        return listed

    def get(self, name: str, caller: Principal) -> ServiceOut:
        """Return a service with its replicas. Raises UnknownService."""
        with self._store.read() as connection:
            return self._describe_one(connection, name, caller)

    def list_events(self, name: str, caller: Principal, limit: int) -> list[Event]:
        """List the latest events of a service, the newest first. Raises UnknownService."""
        with self._store.read() as connection:
            return read_events(connection, _find(connection, name, caller), limit)

    def plan(self, name: str, body: ServiceChange, caller: Principal) -> ServicePlanOut:
        """Say what a change would do; change nothing. Raises as `change` does."""
        with self._store.read() as connection:
            row = _find_to_change(connection, name, caller)
            replicas = read_replicas(connection, service_replicas.c.service_id == row.id)
        return plan_change(row, replicas, _change_rule(row.rule, body.rule), self.controller.load)

    def change(self, name: str, body: ServiceChange, caller: Principal) -> ServiceOut:
        """Change bounds, checks or times of a service. Idempotent.

        Raises:
            UnknownService: The caller sees no such service.
            NoPermission: It is of another user, and the caller manages no tenant.
            BadService: The fields contradict each other.
        """
        with self._store.write() as write:
            row = _find_to_change(write.connection, name, caller)
            rule = _change_rule(row.rule, body.rule)
            change_service(
                write,
                row,
                rule=rule.model_dump(mode="json"),
                desired=bound_desired(rule, row.desired),
                # A new try for replicas that failed under the old rule.
                failures=0,
                retry_ns=0,
            )
            data = {"user": caller.user, **body.rule}
            write.event("service.changed", row.name, tenant_id=row.tenant_id, data=data)
            out = self._describe_one(write.connection, name, caller)
            write.answer(200, out.model_dump(mode="json"))
        return out

    def remove(self, name: str, caller: Principal) -> ServiceOut:
        """Let the replicas of a service end, and the service with the last one. Idempotent.

        Raises:
            UnknownService: The caller sees no such service.
            NoPermission: It is of another user, and the caller manages no tenant.
        """
        with self._store.write() as write:
            row = _find_to_change(write.connection, name, caller)
            delete_service(write, row, user=caller.user)
            out = self._describe_one(write.connection, name, caller)
            write.answer(200, out.model_dump(mode="json"))
        return out

    def _describe_one(self, connection: sa.Connection, name: str, caller: Principal) -> ServiceOut:
        row = _find(connection, name, caller)
        replicas = read_replicas(connection, service_replicas.c.service_id == row.id)
        why = partial(self._explain_wait, connection, row)
        holding = self._read_holdings(connection, [row])[row.id]
        return self._describe(row, replicas, caller, why, holding, full=True)

    def _read_holdings(
        self, connection: sa.Connection, rows: Sequence[Row]
    ) -> dict[int, ServiceHolding]:
        return read_holdings(connection, [row.id for row in rows], self._store.clock.now_ns())

    def _describe(
        self,
        row: Row,
        replicas: Sequence[Row],
        caller: Principal,
        why: Callable[[str], str],
        holding: ServiceHolding,
        *,
        full: bool,
    ) -> ServiceOut:
        load = self.controller.read_load(ServiceSight(row, replicas))
        return describe_service(
            row,
            replicas,
            self.controller.load,
            load,
            caller,
            why,
            recent=self.controller.traffic.read_recent(ServiceLabels(row.tenant, row.name)),
            holding=holding,
            with_replicas=full,
        )

    def _explain_wait(self, connection: sa.Connection, service: Row, job: str) -> str:
        try:
            return self._jobs.describe_job(connection, job, make_owner(service)).reason
        except NotFound:
            return ""


def _check_job(job: JobIn, caller: Principal) -> None:
    """Raise BadService for what cannot be a replica."""
    unfit = {
        "--array": job.array is not None,
        "--gang": job.gang is not None,
        "--name": job.name is not None,
        "--after": bool(job.after),
        "a terminal": job.attached,
        "a virtual machine": job.launch.vm is not None,
    }
    found = [name for name, is_there in unfit.items() if is_there]
    if found:
        raise BadService(
            f"the job of a service has {found[0]}",
            hint="a replica is one job, named after the service:  gpupool service create --help",
        )
    if job.tenant not in (None, caller.tenant):
        raise BadService(
            f"a service is of its owner's tenant {caller.tenant}, not {job.tenant}",
            hint="leave out --tenant",
        )


def _change_rule(rule: Mapping[str, Any], changes: Mapping[str, Any]) -> ServiceRule:
    """Return the rule with the changed fields. Raises BadService where they contradict each other."""
    try:
        return ServiceRule.model_validate({**rule, **changes})
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "rule"
        raise BadService(
            f"{where}: {first['msg']}", hint="gpupool service update --help"
        ) from error


def _scope(caller: Principal) -> sa.ColumnElement[bool]:
    return sa.true() if caller.sees_all else services.c.tenant_id == caller.tenant_id


def _find(connection: sa.Connection, name: str, caller: Principal) -> Row:
    mine = sa.or_(services.c.name == name, services.c.public_id == name)
    # An admin sees those of all tenants: the own one comes first.
    own_first = (services.c.tenant_id != caller.tenant_id, services.c.id)
    query = SERVICE.where(_scope(caller), mine).order_by(*own_first).limit(1)
    row = connection.execute(query).one_or_none()
    if row is None:
        raise UnknownService(f"there is no service {name[:80]!r}", hint="gpupool service list")
    return row


def _find_to_change(connection: sa.Connection, name: str, caller: Principal) -> Row:
    row = _find(connection, name, caller)
    if not can_change(row, caller):
        raise NoPermission(
            f"service {row.name} belongs to {row.user}",
            hint=f"{row.user} or a tenant-admin can change it",
        )
    return row
