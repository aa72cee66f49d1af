"""Serves agents: the work of their nodes, and what they report.

A batch of reports goes to its owners: samples to the meter, starts and ends to `job_reports`, cards
to the fleet, and the changes to the cache and the leases. Reports about jobs of other agents are
ignored.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import nullcontext

import sqlalchemy as sa

from gpupool.allocations.cache.ledger_cache import LedgerCache
from gpupool.allocations.faults.recording import record_faults
from gpupool.allocations.lifecycle import job_reports, node_work
from gpupool.allocations.lifecycle.leases import Leases
from gpupool.allocations.store.tables import allocations, jobs
from gpupool.allocations.submission.unsettled_gangs import UnsettledGangs
from gpupool.base.errors import DiskFull
from gpupool.fleet.service import FleetService
from gpupool.fleet.tables import mode_switches, nodes
from gpupool.metering.service import MeteringService
from gpupool.model.allocation import AllocationState
from gpupool.model.job import ENDED
from gpupool.network.engine_service import NetworkEngineService
from gpupool.network.machines.tables import network_machines
from gpupool.network.planes.agent_evidence import AgentEvidence
from gpupool.store import idempotency
from gpupool.store.database import Store
from gpupool.tenancy.tables import tenants
from gpupool.wire.fleet import ReportIn, ReportsIn, ReportsOut, WorkPage
from gpupool.wire.modes import ModeWork
from gpupool.wire.samples import JobSample

logger = logging.getLogger(__name__)

#: Whether there is work of other kinds than jobs behind a cursor, of any agent.
_RARE_WORK = sa.union_all(
    *(
        sa.select(table.c.work_seq).where(table.c.work_seq > sa.bindparam("after"))
        for table in (mode_switches, network_machines)
    )
).limit(1)

_LATER = allocations.alias("later")
#: The newest allocations of jobs, on nodes of an agent; none of a job that waits to run again.
_PRESENT_RUNS = (
    sa.select(
        jobs.c.public_id,
        jobs.c.placed_ns,
        allocations.c.public_id.label("allocation"),
        tenants.c.name.label("tenant"),
    )
    .join(allocations, allocations.c.job_id == jobs.c.id)
    .join(nodes, nodes.c.id == allocations.c.node_id)
    .join(tenants, tenants.c.id == jobs.c.tenant_id)
    .where(
        jobs.c.public_id.in_(sa.bindparam("jobs", expanding=True)),
        nodes.c.agent == sa.bindparam("of_agent"),
        sa.or_(allocations.c.state != AllocationState.RELEASED, jobs.c.state.in_(sorted(ENDED))),
        ~sa.exists().where(_LATER.c.job_id == allocations.c.job_id, _LATER.c.id > allocations.c.id),
    )
)
_REPORTED_RUNS = (
    sa.select(jobs.c.public_id, allocations.c.public_id.label("allocation"))
    .join(allocations, allocations.c.job_id == jobs.c.id)
    .where(allocations.c.public_id.in_(sa.bindparam("allocations", expanding=True)))
)

#: Reports in one transaction at most, which blocks all other writers. 100 ends of members of a gang
#: take 42 to 49 ms of a processor, 1,000 took 330 to 357.
REPORTS_AT_ONCE = 100


class AgentService:
    """Work and reports of agents. Thread-safe.

    `used_at_resize` is the card memory in use, by job, when its new limits were applied.
    """

    def __init__(
        self,
        store: Store,
        fleet: FleetService,
        metering: MeteringService,
        cache: LedgerCache,
        leases: Leases,
        gangs: UnsettledGangs,
        engine: NetworkEngineService,
    ) -> None:
        self._engine = engine
        self._plane_readings = AgentEvidence(store)
        self._store = store
        self._fleet = fleet
        self._metering = metering
        self._cache = cache
        self._leases = leases
        self._gangs = gangs
        self._began_ns = store.clock.now_ns()
        self.used_at_resize: dict[str, int | None] = {}

    def read_work(self, node: str, after: int) -> WorkPage:
        """Read what the agent of a node has to do since the cursor; 0 lists all allocations too."""
        agent = self._fleet.find_agent(node)
        self._engine.admit_agent(agent)
        with self._store.read() as connection:
            cursor, work = node_work.read_work(connection, agent, after)
            switches = list[tuple[int, ModeWork]]()
            engine_cursor = after
            engine = None
            # An agent asks for each of its jobs, and seldom is there more than jobs.
            if connection.execute(_RARE_WORK, {"after": after}).first() is not None:
                switches = self._fleet.modes.read_ready(connection, agent, after)
                engine_cursor, engine = self._engine.read_work(connection, agent, after)
        live = [item.allocation for item in work] if after == 0 else None
        cursor = max(cursor, engine_cursor, *(seq for seq, _ in switches), after)
        return WorkPage(
            cursor=cursor,
            modes=[switch for _, switch in switches],
            network=engine,
            work=work,
            live=live,
        )

    def apply_reports(self, node: str, body: ReportsIn) -> ReportsOut:
        """Apply what a node reports, in several transactions. Idempotent.

        An agent without an answer sends everything again, so a failure between two transactions
        loses nothing.

        Returns:
            The allocations whose reports are stale.
        """
        self._fleet.record_heartbeat(node)
        agent = self._fleet.find_agent(node)
        # Samples first: the last one of a job comes with the report of its end, which closes its
        # books.
        own_samples, owners = self._filter_samples(agent, body)
        self._metering.note_samples(own_samples, owners)
        if any(sample.idle_milliseconds is not None for sample in body.jobs):
            self._store.notifier.publish_topics({"idle"})
        stale = self._apply_in_parts(agent, body.reports)
        if body.ready:
            self._fleet.mark_ready(node)
        if body.devices:
            cards = self._fleet.record_observations(node, body.devices)
            self._metering.note_power(cards, body.devices, own_samples)
        # After the reports: a job that an XID ended is named with its end.
        if body.faults:
            with self._store.write() as write:
                record_faults(write, agent, body.faults)
        if body.modes:
            self._fleet.modes.apply_reports(node, body.modes)
        if body.network is not None:
            self._engine.apply_report(agent, body.network)
        if body.planes is not None:
            self._plane_readings.apply_reading(agent, body.planes)
        self._plane_readings.end_old_readings()
        self._fold_books()
        return ReportsOut(stale=stale)

    def _fold_books(self) -> None:
        # Also without samples: a heartbeat is when the books are folded.
        try:
            self._metering.write_and_fold()
        except DiskFull as error:
            # What is due stays due, and the agent need not send its reports again for it.
            logger.warning("the books are behind: %s", error.message)

    def _filter_samples(
        self, agent: str, body: ReportsIn
    ) -> tuple[list[JobSample], dict[str, str]]:
        """Return the samples of this agent's own jobs, and the tenants of jobs whose use is added.

        Samples of other agents' jobs are dropped, and those of a run before the present one: the
        books have its use. The use of a job that was placed before this server began is added only
        from its second sample on: the sums before are counted already.
        """
        samples = body.jobs
        if not samples:
            return [], {}
        asked = {"jobs": [sample.job for sample in samples], "of_agent": agent}
        with self._store.read() as connection:
            known = {row.public_id: row for row in connection.execute(_PRESENT_RUNS, asked)}
            reported = {"allocations": [report.allocation for report in body.reports]}
            # An agent repeats a body whose answer was lost; the job may have started again by then.
            for run in connection.execute(_REPORTED_RUNS, reported) if body.reports else ():
                if run.public_id in known and known[run.public_id].allocation != run.allocation:
                    del known[run.public_id]
        heard = self._metering.get_latest_samples()
        counted = dict[str, str]()
        for job, row in known.items():
            if job in heard or (row.placed_ns or 0) >= self._began_ns:
                counted[job] = row.tenant
        return [sample for sample in samples if sample.job in known], counted

    def _apply_in_parts(self, agent: str, reports: Sequence[ReportIn]) -> list[str]:
        """Take in reports part by part; a key of the request is recorded with the last part."""
        stale = list[str]()
        for first in range(0, len(reports), REPORTS_AT_ONCE):
            end = first + REPORTS_AT_ONCE
            with idempotency.defer_key() if end < len(reports) else nullcontext():
                stale += self._apply_part(agent, reports[first:end])
        return stale

    def _apply_part(self, agent: str, reports: Sequence[ReportIn]) -> list[str]:
        """Apply a part of the reports, with all that follows from it; return the stale ones."""
        # `freeing`: a full disk must not keep cards from being released.
        with self._store.write(freeing=True) as write:
            effects = job_reports.apply_reports(
                write, self._metering, self._fleet, agent, reports, self._cache.estimate_seconds
            )
            write.note(lambda: self._update_cache(effects))
        # After the commit, which has marked these gangs: a server that is killed here leaves marks
        # that the next one settles.
        for gang in effects.unsettled:
            self._gangs.stop_members(gang)
        self._leases.drop_leases(effects.ended)
        self._metering.forget_samples(effects.rerun.values())
        self.used_at_resize |= effects.used
        for job, used in effects.used.items():
            if used is not None:
                self._metering.note_memory(job, used)
        for job in effects.ended:
            self.used_at_resize.pop(job, None)
        if effects.granted.cards or effects.granted.hosts or effects.requeued or effects.emptied:
            self._store.notifier.publish_topics({"queue"})
        return effects.stale

    def _update_cache(self, effects: job_reports.ReportEffects) -> None:
        # First, while the cache still has the holders of the seats.
        for job, seconds in effects.done.items():
            self._cache.record_runtime(job, seconds)
        for emptied in effects.emptied:
            self._cache.apply_change(emptied)
        self._cache.apply_change(effects.granted)
        self._cache.record_leaving_jobs(effects.leaving)
        self._cache.dequeue_jobs(effects.dequeued)
        # They had their turn once, so they lead their classes.
        if effects.requeued:
            self._cache.enqueue_jobs(effects.requeued, again=True)
        self._cache.drop_migrations(effects.ended)
