"""Jobs for their users: submit, read, list, explain, stop, and note a checkpoint.

The service calls the packages that decide and write (`submission`, `views`, `stop`) in order; it
holds no state of its own.
"""

from __future__ import annotations

from collections.abc import Iterable

import sqlalchemy as sa

from gpupool.allocations.arrays import view
from gpupool.allocations.cache.ledger_cache import LedgerCache
from gpupool.allocations.dependencies.rows import read_dependencies
from gpupool.allocations.idle_suspension.policy import IdleSuspensionPolicy
from gpupool.allocations.lifecycle import job_reports
from gpupool.allocations.lifecycle.leases import Leases
from gpupool.allocations.placement.placer import Placer
from gpupool.allocations.placement.start_view import build_start_fields
from gpupool.allocations.stop import StopService, check_ownership
from gpupool.allocations.submission import validate
from gpupool.allocations.submission.advice_choice import (
    AdviceChoice,
    check_with_advice,
    choose_nothing,
)
from gpupool.allocations.submission.create import SubmissionWriter
from gpupool.allocations.submission.dependency_targets import add_dependencies
from gpupool.allocations.submission.idle_choice import reserve_moved_memory
from gpupool.allocations.submission.network_join import is_network_wanted
from gpupool.allocations.submission.submission import Submission
from gpupool.allocations.views import job as job_view
from gpupool.allocations.views import list as job_lookup
from gpupool.allocations.views.attempts import read_attempts
from gpupool.allocations.views.explain import explain_job
from gpupool.allocations.views.job_pages import JobFilter, read_page
from gpupool.allocations.views.job_search import JobSearch, search_jobs
from gpupool.allocations.views.mechanism_plan import plan_mechanism
from gpupool.base.errors import NotOneJob, OutputIsPrivate, WrongState
from gpupool.metering.service import MeteringService
from gpupool.metering.use import compute_use_columns
from gpupool.model.claim import SharingKind
from gpupool.model.job import ENDED, JobState
from gpupool.model.tenant import Principal
from gpupool.store.database import Store
from gpupool.tenancy.service import TenancyService
from gpupool.wire.fleet import RunAs
from gpupool.wire.jobs import ArrayOut, ExplainOut, JobOut, PlannedOut, SubmittedOut
from gpupool.wire.submissions import JobIn
from gpupool.wire.views.job_pages import JobPage, JobUseOut


class JobService:
    """Serves jobs and arrays. Thread-safe; every call is a few short transactions."""

    def __init__(
        self,
        store: Store,
        tenancy: TenancyService,
        metering: MeteringService,
        cache: LedgerCache,
        placer: Placer,
        leases: Leases,
        writer: SubmissionWriter,
        stops: StopService,
        idle_suspension: IdleSuspensionPolicy,
    ) -> None:
        self._idle_suspension = idle_suspension
        self._store = store
        self._tenancy = tenancy
        self._metering = metering
        self._cache = cache
        self._placer = placer
        self._leases = leases
        self._writer = writer
        self._stops = stops
        #: The package that knows advice policies sets it.
        self.choose_advice: AdviceChoice = choose_nothing

    def submit_job(self, body: JobIn, principal: Principal, run_as: RunAs | None) -> SubmittedOut:
        """Write a job or an array and place what can be placed.

        Args:
            body: The request, with limits applied.
            principal: The caller.
            run_as: The local user that starts the command; None for the agent's own.

        Raises:
            GpupoolError: The rejection with its numbers. Nothing is written then.
        """
        submission = self._check(body, principal, run_as)
        answer = self._writer.create_submission(submission, principal, wait=body.wait)
        if body.attached:
            self._leases.renew_lease(submission.public_ids[0])
        return answer

    def plan_job(self, body: JobIn, principal: Principal, run_as: RunAs | None) -> PlannedOut:
        """Check a submission and say which mechanism it would get. Writes nothing.

        Args:
            body: The request, with limits applied.
            principal: The caller.
            run_as: The local user that would start the command.

        Raises:
            GpupoolError: The rejection with its numbers.
        """
        submission = self._check(body, principal, run_as)
        plan = plan_mechanism(self._cache.build_snapshot(), submission.shape, submission.tenant)
        return PlannedOut(share=str(submission.shape), count=submission.size, **dict(plan))

    def _check(self, body: JobIn, principal: Principal, run_as: RunAs | None) -> Submission:
        """Check a submission, with the share that an advice policy gives it."""
        with self._store.read() as connection:
            tenant = self._tenancy.resolve_tenant(connection, principal, body.tenant)
            in_network = is_network_wanted(connection, tenant.id, body.launch)
        self._placer.refresh_cache()
        now_ns = self._store.clock.now_ns()

        def check(one: JobIn) -> Submission:
            reserved = reserve_moved_memory(one, self._idle_suspension.rules)
            return validate.check_submission(
                reserved, principal, tenant, run_as, self._cache, now_ns, in_network=in_network
            )

        submission = check_with_advice(body, principal, self.choose_advice, check)
        if body.after:
            with self._store.read() as connection:
                return add_dependencies(connection, submission, body, principal)
        return submission

    def get_job(self, named: str, principal: Principal) -> JobOut:
        """Return a job by id, name or `last`, as the caller may see it.

        Raises:
            NotFound: The caller's scope has no such job.
            NotOneJob: The name is that of an array.
        """
        with self._store.read() as connection:
            job = self.describe_job(connection, named, principal)
            job = self.add_usage(job, processes=True)
            if job.attempt > 1:
                earlier = read_attempts(connection, job.id)
                job = job.model_copy(update={"attempts": earlier})
        return job_lookup.hide_content(principal, job)

    def get_job_with_output(self, named: str, principal: Principal) -> JobOut:
        """Return a job whose output the caller may read.

        Raises:
            NotFound: The caller's scope has no such job.
            OutputIsPrivate: The job belongs to another user of the tenant.
        """
        job = self.get_job(named, principal)
        if job.private:
            raise OutputIsPrivate(
                f"the output of {job.name} belongs to {job.user}",
                hint=f"{job.user}, a tenant-admin of {job.tenant} or a pool admin can read it",
            )
        return job

    def describe_job(self, connection: sa.Connection, named: str, principal: Principal) -> JobOut:
        """Describe a job, or a member of an array that has no row in `jobs` yet.

        Raises:
            NotFound: The caller's scope has no such job.
            NotOneJob: The name is that of an array.
        """
        found = job_lookup.find_job_or_member(connection, principal, named)
        if isinstance(found, job_lookup.UncreatedMember):
            return found.describe(self._placer.planner.describe_wait)
        return job_view.read_job(connection, found.id, self._placer.planner.describe_wait)

    def get_array(self, named: str, principal: Principal) -> ArrayOut:
        """Return an array as a whole, by id or name.

        Raises:
            NotFound: The caller's scope has no such array.
        """
        with self._store.read() as connection:
            row = job_lookup.find_array(connection, principal, named)
            next_member = self._cache.find_next_member(row.public_id)
            array = view.describe_array(
                connection, row, next_member, self._placer.planner.describe_wait
            )
            awaited = read_dependencies(connection, [row.claim_id])
            array = array.model_copy(update={"after": awaited.get(row.claim_id, [])})
        if job_lookup.can_see_content(principal, array.user):
            return array
        return array.model_copy(update={"command": [], "private": True})

    def search_jobs(
        self, principal: Principal, search: JobSearch, cursor: str | None, limit: int
    ) -> JobPage:
        """Return one page of a search, as `views.job_search.search_jobs` describes it."""
        why = self._placer.planner.describe_wait
        with self._store.read() as connection:
            found = search_jobs(connection, principal, search, cursor, limit, why)
        return found.model_copy(update={"items": self._complete_items(principal, found.items)})

    def list_jobs(
        self, principal: Principal, wanted: JobFilter, after: str | None, limit: int
    ) -> JobPage:
        """Return one page of the jobs that the caller may see.

        Args:
            principal: The caller.
            wanted: Which jobs to list.
            after: The cursor of the page before; None for the first page.
            limit: Jobs on the page at most.
        """
        with self._store.read() as connection:
            found = read_page(
                connection,
                principal,
                wanted,
                self._store.clock.now_ns(),
                after,
                limit,
                self._placer.planner.describe_wait,
            )
        return JobPage(items=self._complete_items(principal, found.items), next=found.next)

    def _complete_items(self, principal: Principal, jobs: Iterable[JobOut]) -> list[JobOut]:
        items = list[JobOut]()
        for job in jobs:
            items.append(job_lookup.hide_content(principal, self._add_current_state(job)))
        return items

    def _add_current_state(self, job: JobOut) -> JobOut:
        if job.state != "pending":
            return self.add_usage(job)
        name = job.id
        if job.jobs > 1:
            # The line of an array shows the start of the member that is placed first.
            name = self._cache.find_next_member(job.id) or job.id
        start = self._placer.planner.find_job_start(name)
        return job if start is None else job.model_copy(update=build_start_fields(*start))

    def add_usage(self, job: JobOut, *, processes: bool = False) -> JobOut:
        """Return the job with its latest usage sample while it runs, else unchanged.

        Args:
            job: The job as the ledger has it.
            processes: Whether to list its processes too.
        """
        if job.state != "running":
            return job
        held_milli = 0
        if SharingKind(job.sharing).promises_compute:
            held_milli = sum(seat.gpu_milli for seat in job.seats)
        held_bytes = sum(seat.memory_bytes for seat in job.seats)
        use = self._metering.compute_use(job.id, held_milli, held_bytes, processes=processes)
        return job if use is None else job.model_copy(update={"use": use})

    def list_use(self, named: str, principal: Principal) -> JobUseOut:
        """List what a running job used of its share since it started.

        Raises:
            NotFound: The caller's scope has no such job.
            NotOneJob: The name is that of an array.
        """
        with self._store.read() as connection:
            job = self.describe_job(connection, named, principal)
        held_milli = 0
        if SharingKind(job.sharing).promises_compute:
            held_milli = sum(seat.gpu_milli for seat in job.seats)
        # What is known of a job that has ended says nothing of its share.
        points = self._metering.samples.list_points(job.id) if job.state == "running" else []
        return JobUseOut(
            job=job.id,
            name=job.name,
            held_milli=held_milli,
            held_bytes=sum(seat.memory_bytes for seat in job.seats),
            **compute_use_columns(points, held_milli),
        )

    def explain_job(self, named: str, principal: Principal) -> ExplainOut:
        """Explain why a job waits, or why it runs where it runs.

        Of an array, the member that is placed next is explained.

        Raises:
            NotFound: The caller's scope has no such job or array.
        """
        with self._store.read() as connection:
            now_ns = self._store.clock.now_ns()
            array = None
            try:
                job = self.describe_job(connection, named, principal)
            except NotOneJob as error:
                array = self.get_array(error.details["array"], principal)
                job = self.describe_job(connection, array.next or array.last, principal)
            answer = explain_job(connection, job, principal, self._cache, self._placer, now_ns)
        # The first hint: what is said of idle jobs is nearer than what would help beside.
        hints = [*self._idle_suspension.list_claim_hints(job.id), *answer.hints]
        if job.advice is not None:
            hints.insert(0, job.advice.text)
        return answer.model_copy(update={"array": array, "hints": hints})

    def stop_job(self, named: str, principal: Principal, grace_s: int | None) -> list[JobOut]:
        """Request the end of a job, or of all live jobs of an array. Idempotent.

        Args:
            named: Id, name, array or `last`.
            principal: The caller.
            grace_s: Seconds between SIGTERM and SIGKILL; None for the node's default.

        Raises:
            NotFound: The caller's scope has no such job.
            NoPermission: The job belongs to another user, and the caller manages no tenant.
            WrongState: The job has ended.
        """
        return self._stops.stop_job(named, principal, grace_s)

    def record_checkpoint(self, named: str, principal: Principal) -> JobOut:
        """Note that a running job has saved its work now. Idempotent.

        Raises:
            NotFound: The caller's scope has no such job.
            NoPermission: The job belongs to another user.
            WrongState: The job does not run.
        """
        with self._store.read() as connection:
            row = job_lookup.find_job(connection, principal, named)
        check_ownership([row], principal, "speak for")
        with self._store.write() as write:
            state = job_reports.record_checkpoint(write, row.id)
            if state != JobState.RUNNING:
                raise WrongState(
                    f"job {row.name} is {state}: only what runs has work to save", hint="gpupool ps"
                )
            why = self._placer.planner.describe_wait
            job = job_view.read_job(write.connection, row.id, why)
            now_ns = write.now_ns
            write.note(lambda: self._cache.record_checkpoint(job.id, now_ns))
        return self.add_usage(job)


def is_settled(job: JobOut) -> bool:
    """Whether no quick change of the job is left: it runs, has ended, or its client can attach."""
    return job.state in ENDED or job.state == "running" or job.attach_socket is not None
