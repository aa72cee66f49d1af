"""Brings the replicas of a service to what it should have, one transaction for each change.

Every step is idempotent: it reads what is there, and the job of a replica is submitted under a key
of service and number. A server that dies between two of them goes on with the next look. Blocks;
one thread at a time calls it (`controller`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

import sqlalchemy as sa

from gpupool.allocations.ledger import stop_reasons
from gpupool.allocations.services.keyed_jobs import KeyedJobs, describe_lost_right
from gpupool.allocations.services.owner_accounts import OwnerAccounts
from gpupool.allocations.stop import StopService
from gpupool.allocations.store.tables import jobs
from gpupool.base.errors import GpupoolError, ServiceUnavailable
from gpupool.base.units import NANOS_PER_SECOND, format_duration
from gpupool.model.job import ENDED as JOB_ENDED
from gpupool.serving.jobs import make_replica_job
from gpupool.serving.replicas import (
    DRAINING,
    ENDED,
    LIVE,
    READY,
    STARTING,
    WANTED,
    ReplicaFact,
    choose_victims,
)
from gpupool.serving.rows import (
    SERVICE,
    Row,
    add_replicas,
    change_service,
    drain_replica,
    end_replica,
    read_agents,
    read_replicas,
    remove_service,
    set_replica,
)
from gpupool.serving.scaling import decide
from gpupool.serving.sights import (
    ServiceFacts,
    ServiceSight,
    count_wanted,
    is_drain_over,
    make_key,
    make_owner,
    make_rule,
)
from gpupool.serving.tables import service_replicas, services
from gpupool.store.database import Store

logger = logging.getLogger(__name__)

#: Between two submissions of a replica that the pool refuses.
REFUSAL_PAUSE_NS: Final = 10 * NANOS_PER_SECOND


class ServiceSteps:
    """The steps of a look."""

    def __init__(self, store: Store, keyed: KeyedJobs, stops: StopService) -> None:
        self._store = store
        self._keyed = keyed
        self._stops = stops

    def read(self) -> list[ServiceSight]:
        """Read every service with its replicas, those too that ended last."""
        with self._store.read() as connection:
            rows = connection.execute(SERVICE.order_by(services.c.id)).all()
            found = read_replicas(connection) if rows else []
            running = [one.job for one in found if one.job_state == "running"]
            agents = read_agents(connection, running) if running else {}
        by_service: dict[int, list[Row]] = {row.id: [] for row in rows}
        for one in found:
            by_service[one.service_id].append(one)
        return [ServiceSight(row, by_service[row.id], agents) for row in rows]

    def read_one(self, service: int) -> ServiceSight | None:
        """Read a service again; None: it was removed."""
        with self._store.read() as connection:
            row = connection.execute(SERVICE.where(services.c.id == service)).one_or_none()
            replicas = read_replicas(connection, service_replicas.c.service_id == service)
        return None if row is None else ServiceSight(row, replicas)

    def apply(self, sight: ServiceSight, facts: ServiceFacts) -> int | None:
        """Take every step that is due. Returns what the load needs; None: it is not known.

        Raises:
            ServiceUnavailable: The store takes no changes now.
        """
        needed: int | None = None

        def scale(seen: ServiceSight) -> bool:
            nonlocal needed
            has_changed, needed = self._scale(seen, facts)
            return has_changed

        steps: tuple[Callable[[ServiceSight], bool], ...] = (
            self._record_ends,
            lambda seen: self._record_health(seen, facts),
            scale,
            self._match_number,
            self._submit_wanted,
            lambda seen: self._end_drained(seen, facts),
            self._remove_empty,
        )
        for step in steps:
            if step(sight):
                read = self.read_one(sight.service.id)
                if read is None:
                    break
                sight = read
        return needed

    def _record_ends(self, sight: ServiceSight) -> bool:
        """Note the replicas whose jobs have ended by themselves or were stopped."""
        ended = list[Row]()
        for one in sight.replicas:
            is_gone = one.job is not None and (one.job_state is None or one.job_state in JOB_ENDED)
            if one.state != ENDED and is_gone:
                ended.append(one)
        for one in ended:
            reason = one.reason if one.state == DRAINING else f"its job {one.job} ended by itself"
            if one.state != DRAINING and one.job_reason:
                reason = f"its job {one.job} ended: {one.job_reason}"
            with self._store.write() as write:
                end_replica(write, sight.service, one, reason)
        return bool(ended)

    def _record_health(self, sight: ServiceSight, facts: ServiceFacts) -> bool:
        """Let healthy replicas serve, and end those that are not."""
        rule = sight.rule
        now_ns = self._store.clock.now_ns()
        has_changed = False
        for one in sight.list_states(STARTING, READY):
            found = facts.health.get(one.number)
            values: dict[str, object] = {}
            drain = ""
            if one.job_state != "running":
                # It was preempted, suspended or requeued: its job waits and starts again.
                if one.state == READY:
                    values = {"state": STARTING, "reason": f"its job is {one.job_state}"}
            elif found is not None and not found.fault:
                if one.state == STARTING:
                    values = {"state": READY, "reason": "", "ready_ns": one.ready_ns or now_ns}
            elif one.state == READY and found is not None:
                if found.failures >= rule.check_failures:
                    drain = f"{found.failures} checks failed: {found.fault}"
            elif one.state == STARTING:
                limit_ns = rule.start_seconds * NANOS_PER_SECOND
                fault = "" if found is None else found.fault
                if one.started_ns is not None and now_ns - one.started_ns > limit_ns:
                    drain = f"not healthy within {format_duration(rule.start_seconds)}: {fault}"
                elif fault and fault != one.reason:
                    values = {"reason": fault[:400]}
            if not values and not drain:
                continue
            has_changed = True
            with self._store.write() as write:
                if drain:
                    drain_replica(write, sight.service, one, drain, is_fault=True)
                else:
                    set_replica(write, one, **values)
        return has_changed

    def _scale(self, sight: ServiceSight, facts: ServiceFacts) -> tuple[bool, int | None]:
        service = sight.service
        if service.state != "active":
            return False, None
        found = decide(
            make_rule(sight.rule),
            service.desired,
            facts.measure,
            facts.waiting,
            facts.history,
            self._store.clock.now_ns(),
        )
        if found.replicas == service.desired:
            return False, found.needed
        load = facts.measure.total
        with self._store.write() as write:
            values = {"desired": found.replicas, "scaled_ns": write.now_ns}
            if change_service(write, service, **values):
                data = {
                    "from": service.desired,
                    "to": found.replicas,
                    "load": None if load is None else round(load, 2),
                    "waiting": facts.waiting,
                }
                write.event("service.scaled", service.name, tenant_id=service.tenant_id, data=data)
        return True, found.needed

    def _match_number(self, sight: ServiceSight) -> bool:
        """Add replicas, or end those that are too many."""
        service = sight.service
        desired = count_wanted(service)
        live = sight.list_states(*LIVE)
        if len(live) < desired:
            if self._store.clock.now_ns() < service.retry_ns:
                return False
            with self._store.write() as write:
                return bool(add_replicas(write, service, desired - len(live)))
        facts = [ReplicaFact(one.number, one.state) for one in live]
        victims = set(choose_victims(facts, len(live) - desired))
        reason = _describe_surplus(service)
        for one in live:
            if one.number in victims:
                with self._store.write() as write:
                    drain_replica(write, service, one, reason)
        return bool(victims)

    def _submit_wanted(self, sight: ServiceSight) -> bool:
        has_changed = False
        for one in sight.list_states(WANTED):
            key = make_key(sight.service, one)
            job = self._keyed.find(sight.service.user_id, key)
            if job is None and self._store.clock.now_ns() < sight.service.retry_ns:
                break
            try:
                job = job or self._submit(sight.service, one, key)
            except ServiceUnavailable:
                raise
            except GpupoolError as error:
                self._note_refusal(sight.service, str(error))
                return True
            has_changed = True
            with self._store.write() as write:
                set_replica(write, one, job=job, state=STARTING)
                if sight.service.reason:
                    mine = services.c.id == sight.service.id
                    write.execute(services.update().where(mine).values(reason=""))
        return has_changed

    def _submit(self, service: Row, replica: Row, key: str) -> str:
        body = make_replica_job(service.body, service.name, replica.number, replica.port)
        owner = OwnerAccounts(make_owner(service), service.unix_uid, service.run_as_uid)
        return self._keyed.submit(key, body, owner, service.run_as)

    def _note_refusal(self, service: Row, reason: str) -> None:
        with self._store.write() as write:
            retry_ns = write.now_ns + REFUSAL_PAUSE_NS
            mine = services.c.id == service.id
            values = {"reason": reason[:400], "retry_ns": retry_ns}
            write.execute(services.update().where(mine).values(**values))
            if reason[:400] != service.reason:
                data = {"reason": reason}
                write.event("service.refused", service.name, tenant_id=service.tenant_id, data=data)

    def _end_drained(self, sight: ServiceSight, facts: ServiceFacts) -> bool:
        """Stop the jobs of replicas without requests, or whose time for them is over."""
        has_changed = False
        now_ns = self._store.clock.now_ns()
        for one in sight.list_states(DRAINING):
            job = one.job or self._keyed.find(sight.service.user_id, make_key(sight.service, one))
            if job is None:
                with self._store.write() as write:
                    end_replica(write, sight.service, one, one.reason)
                has_changed = True
                continue
            if one.job is None:
                with self._store.write() as write:
                    set_replica(write, one, job=job)
                has_changed = True
            is_over = is_drain_over(sight.rule, one, now_ns)
            if one.stop_requested is None and (is_over or not facts.requests.get(one.number)):
                has_changed |= self._stop(job)
        return has_changed

    def _stop(self, job: str) -> bool:
        live = sa.select(jobs.c.id).where(
            jobs.c.public_id == job,
            jobs.c.stop_requested.is_(None),
            jobs.c.state.not_in([str(state) for state in sorted(JOB_ENDED)]),
        )
        with self._store.read() as connection:
            found = list(connection.execute(live).scalars())
        self._stops.stop_jobs(found, stop_reasons.SERVICE, None)
        return bool(found)

    def _remove_empty(self, sight: ServiceSight) -> bool:
        if sight.service.state != "deleting" or any(one.state != ENDED for one in sight.replicas):
            return False
        with self._store.write() as write:
            remove_service(write, sight.service)
        return True


def _describe_surplus(service: Row) -> str:
    if service.state != "active":
        return "the service is removed"
    return describe_lost_right(service) or f"scaled to {service.desired}"
