"""What agents are given to do for the jobs on their nodes, and what they tell of it, taken in.

A batch of reports is passed on to whom it concerns: samples to the meter, ends and starts to `progress`, cards to the
fleet; and what that changed to the mirror and the leases. An agent has nothing to say of others' jobs.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import nullcontext

import sqlalchemy as sa

from gpupool.allocations import node_work, progress
from gpupool.allocations.leases import Leases
from gpupool.allocations.mirror import Mirror
from gpupool.allocations.tables import allocations, jobs
from gpupool.allocations.unsettled import UnsettledGangs
from gpupool.base.errors import DiskFull
from gpupool.fleet.service import Fleet
from gpupool.fleet.tables import nodes
from gpupool.metering.service import Metering
from gpupool.store import replay
from gpupool.store.database import Store
from gpupool.tenancy.tables import tenants
from gpupool.wire.fleet import JobSample, ReportIn, ReportsIn, ReportsOut, WorkPage

logger = logging.getLogger(__name__)

REPORTS_AT_ONCE = 100
"""Reports that one transaction takes in: 100 ends of members of a gang take 42 to 49 ms of a
processor, 1,000 took 330 to 357."""


class Agents:
    """Thread-safe. `used_at_resize`: by job, the card memory in use when its new limits came into force."""

    def __init__(
        self,
        store: Store,
        fleet: Fleet,
        metering: Metering,
        mirror: Mirror,
        leases: Leases,
        gangs: UnsettledGangs,
    ) -> None:
        self._store, self._fleet, self._metering = store, fleet, metering
        self._mirror, self._leases, self._gangs = mirror, leases, gangs
        self._began_ns = store.clock.now_ns()
        self.used_at_resize: dict[str, int | None] = {}

    def work(self, node: str, after: int) -> WorkPage:
        """What the agent of a node has to do since the cursor; after=0 also lists all that is held."""
        with self._store.read() as connection:
            cursor, work = node_work.work_for(connection, self._fleet.agent_of(node), after)
        live = [item.allocation for item in work] if after == 0 else None
        return WorkPage(cursor=cursor, work=work, live=live)

    def reports(self, node: str, body: ReportsIn) -> ReportsOut:
        """Take in what a node tells, part by part. Idempotent: telling it twice changes nothing.

        An agent that gets no answer tells all of it again, so that a failure between two parts loses nothing. Nothing
        has to stay whole: an agent may as well tell each report by itself.
        """
        self._fleet.seen(node)
        agent = self._fleet.agent_of(node)
        # Samples first: the last one of a job comes with the report of its end, which closes its books.
        self._metering.note(*self._of_agent(agent, body.jobs))
        stale = self._take_all(agent, body.reports)
        if body.ready:
            self._fleet.mark_ready(node)
        if body.devices:
            self._fleet.observe(node, body.devices)
        self._keep_books()
        return ReportsOut(stale=stale)

    def _keep_books(self) -> None:
        """Also without samples: a heartbeat is when the books are folded."""
        try:
            self._metering.keep_up()
        except DiskFull as error:  # what is due stays so; the agent has nothing to tell again for it
            logger.warning("the books are behind: %s", error.message)

    def _of_agent(self, agent: str, samples: Sequence[JobSample]) -> tuple[list[JobSample], dict[str, str]]:
        """Samples of jobs that this agent's nodes hold, and whose sums may be added up, with the tenants.

        An agent has nothing to say of others' jobs. What a job used before this server began is not its to count.
        """
        if not samples:
            return [], {}
        query = (
            sa.select(jobs.c.public_id, jobs.c.placed_ns, tenants.c.name.label("tenant"))
            .join(allocations, allocations.c.job_id == jobs.c.id)
            .join(nodes, nodes.c.id == allocations.c.node_id)
            .join(tenants, tenants.c.id == jobs.c.tenant_id)
            .where(jobs.c.public_id.in_([sample.job for sample in samples]), nodes.c.agent == agent)
        )
        with self._store.read() as connection:
            known = {row.public_id: row for row in connection.execute(query)}
        heard = self._metering.latest()
        counted = {
            job: row.tenant for job, row in known.items() if job in heard or (row.placed_ns or 0) >= self._began_ns
        }
        return [sample for sample in samples if sample.job in known], counted

    def _take_all(self, agent: str, reports: Sequence[ReportIn]) -> list[str]:
        """Take in reports part by part; a key of the request is recorded with the last part."""
        stale = list[str]()
        for first in range(0, len(reports), REPORTS_AT_ONCE):
            end = first + REPORTS_AT_ONCE
            with replay.aside() if end < len(reports) else nullcontext():
                stale += self._take(agent, reports[first:end])
        return stale

    def _take(self, agent: str, reports: Sequence[ReportIn]) -> list[str]:
        """Take in a part of what a node tells, with all that follows from it; those of the reports that are stale."""
        with self._store.write(freeing=True) as write:
            told = progress.take(write, self._metering, self._fleet, agent, reports, self._mirror.seconds)
            write.note(lambda: self._note(told))
        for gang in told.unsettled:
            self._gangs.stop_members(gang)
        self._leases.drop(told.ended)
        self._metering.forget_samples(told.rerun.values())
        self.used_at_resize |= told.used
        for job, used in told.used.items():
            if used is not None:
                self._metering.note_memory(job, used)
        for job in told.ended:
            self.used_at_resize.pop(job, None)
        if told.granted.cards or told.requeued:
            self._store.hub.publish({"queue"})
        return told.stale

    def _note(self, told: progress.Told) -> None:
        for job, seconds in told.done.items():
            self._mirror.note_done(job, seconds)
        self._mirror.note_granted(told.granted)
        self._mirror.note_leaving(told.leaving)
        self._mirror.dequeue(told.dequeued)
        if told.requeued:
            self._mirror.enqueue(told.requeued, again=True)
        self._mirror.note_ended(told.ended)
