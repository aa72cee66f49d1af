"""Jobs from submission to the last report: the room's door.

Puts together intake, placing, the ledger, progress and reading; each decides or writes by itself, this only calls them
in order and keeps the mirror informed. Agents have a door of their own (`agents`).
"""

from __future__ import annotations

from collections.abc import Callable

import sqlalchemy as sa

from gpupool.allocations import (
    defragmenting,
    intake,
    job_view,
    making_moves,
    progress,
    reading,
    reserving,
)
from gpupool.allocations.agents import Agents
from gpupool.allocations.arrays import view
from gpupool.allocations.arrivals import Arrivals
from gpupool.allocations.capacity_view import capacity
from gpupool.allocations.event_feed import EventFeed
from gpupool.allocations.event_log import check_resumable, event_epoch, read_events
from gpupool.allocations.explaining import explain_job
from gpupool.allocations.growing import Beside
from gpupool.allocations.job_pages import Filter, page
from gpupool.allocations.leases import Leases
from gpupool.allocations.limits import PENDING_LIMITS, PendingGate, PendingLimits
from gpupool.allocations.mirror import Mirror
from gpupool.allocations.overdue import Overdue
from gpupool.allocations.placing import Placer
from gpupool.allocations.queueing import queue_of
from gpupool.allocations.quiet_moves import QuietMoves
from gpupool.allocations.quota_report import quota_tree
from gpupool.allocations.resizing import check_wanted, is_applied, resize_job, resize_note
from gpupool.allocations.shapes import check_shape
from gpupool.allocations.start_view import start_fields
from gpupool.allocations.stopping import Stopping, check_may, live_jobs
from gpupool.allocations.tables import IS_LIVE, NOT_MADE, jobs
from gpupool.allocations.unsettled import UnsettledGangs
from gpupool.base.errors import NotOneJob, OutputIsPrivate, WrongState
from gpupool.fleet.service import Fleet
from gpupool.metering.service import Metering
from gpupool.model.job import ENDED, LIVE, JobState
from gpupool.model.job_limits import USUAL, JobLimits
from gpupool.model.tenant import Principal
from gpupool.scheduling.policies import DEFAULT
from gpupool.scheduling.quiet_defrag import Budget
from gpupool.scheduling.victims import GENTLE, PreemptionRules
from gpupool.store import replay
from gpupool.store.database import Store
from gpupool.tenancy.service import Tenancy
from gpupool.wire.capacity import CapacityOut
from gpupool.wire.common import Event, Page
from gpupool.wire.defrag import DefragIn, DefragOut, MovesIn, MovesOut, RebalanceIn, RebalanceOut
from gpupool.wire.fleet import RunAs
from gpupool.wire.jobs import ArrayOut, ExplainOut, JobIn, JobOut, QueuedOut, ResizedOut, ResizeIn, SubmittedOut
from gpupool.wire.people import QuotaTreeOut
from gpupool.wire.reservations import ReservationIn, ReservationOut


class Allocations:
    """Thread-safe; every call is a few short transactions and waits for nothing else."""

    def __init__(
        self,
        store: Store,
        tenancy: Tenancy,
        fleet: Fleet,
        metering: Metering,
        *,
        policy: str = DEFAULT,
        rules: PreemptionRules = GENTLE,
        job_limits: JobLimits = USUAL,
        pending_limits: PendingLimits = PENDING_LIMITS,
        quiet_budget: Budget | None = None,
        on_error: Callable[[BaseException], None] = lambda _error: None,
    ) -> None:
        self.store, self.tenancy, self.fleet, self.metering = store, tenancy, fleet, metering
        self.job_limits = job_limits
        self.mirror = Mirror(policy, store.clock.now_ns)
        self.placer = Placer(store, self.mirror, metering, on_error, rules)
        self.quiet_moves = QuietMoves(store, self.mirror, self.placer, quiet_budget)
        self.leases = Leases(self._lease_ended)
        self.unsettled = UnsettledGangs(store, self.mirror)
        self.agents = Agents(store, fleet, metering, self.mirror, self.leases, self.unsettled)
        self.event_feed = EventFeed(store)
        gate = PendingGate(self.mirror, pending_limits)
        self._arrivals = Arrivals(store, tenancy, self.placer, self.unsettled, gate)
        self._stopping = Stopping(store, self.mirror, self.leases, self.unsettled, self.placer.planner.why)
        self.overdue = Overdue(store, self._stopping.stop_jobs)

    def start(self) -> None:
        """Settle what a server that was killed left, read what waits, lease attached jobs anew, begin to place."""
        self.unsettled.settle()
        self.placer.start()
        with self.store.read() as connection:
            attached = connection.execute(sa.select(jobs.c.public_id).where(IS_LIVE, jobs.c.attached)).scalars()
            self.leases.start(attached.all())

    def close(self) -> None:
        self.leases.close()
        self.placer.close()

    # --- submitting ------------------------------------------------------------------------

    def submit(self, body: JobIn, principal: Principal, run_as: RunAs | None) -> SubmittedOut:
        """Take in a job or an array and place what can be placed. Raises the refusal, leaving nothing."""
        with self.store.read() as connection:
            tenant = self.tenancy.resolve_tenant(connection, principal, body.tenant)
        self.placer.refresh()
        submission = intake.check(body, principal, tenant, run_as, self.mirror, self.store.clock.now_ns())
        told = self._arrivals.take_in(submission, principal, wait=body.wait)
        if body.attached:
            self.leases.renew(submission.public_ids[0])
        return told

    # --- reading ---------------------------------------------------------------------------

    def job(self, named: str, principal: Principal) -> JobOut:
        with self.store.read() as connection:
            job = self._in_use(self._shown(connection, named, principal), processes=True)
        return reading.shown(principal, job)

    def job_with_output(self, named: str, principal: Principal) -> JobOut:
        """The job, for whoever wants its output. Raises NotFound; OutputIsPrivate where it is a colleague's."""
        job = self.job(named, principal)
        if job.private:
            raise OutputIsPrivate(
                f"the output of {job.name} belongs to {job.user}",
                hint=f"{job.user}, a tenant-admin of {job.tenant} or a pool admin can read it",
            )
        return job

    def _shown(self, connection: sa.Connection, named: str, principal: Principal) -> JobOut:
        """A job, or a member of an array that is no job yet. Raises NotFound, NotOneJob."""
        found, why = reading.look_up(connection, principal, named), self.placer.planner.why
        return found.out(why) if isinstance(found, reading.Unmade) else job_view.one(connection, found.id, why)

    def array(self, named: str, principal: Principal) -> ArrayOut:
        """An array as a whole. Raises NotFound."""
        with self.store.read() as connection:
            row = reading.find_array(connection, principal, named)
            following = self.mirror.next_of(row.public_id)
            shown = view.describe_array(connection, row, following, self.placer.planner.why)
        if reading.may_see_inside(principal, shown.user):
            return shown
        return shown.model_copy(update={"command": [], "private": True})

    def list_jobs(self, principal: Principal, wanted: Filter, after: str | None, limit: int) -> Page[JobOut]:
        with self.store.read() as connection:
            found = page(
                connection, principal, wanted, self.store.clock.now_ns(), after, limit, self.placer.planner.why
            )
        shown = [reading.shown(principal, self._as_it_is(job)) for job in found.items]
        return found.model_copy(update={"items": shown})

    def _as_it_is(self, job: JobOut) -> JobOut:
        """The job with its latest sample, or while it waits with its start."""
        if job.state != "pending":
            return self._in_use(job)
        # A line of an array is that of the member whose turn comes first.
        told = self.placer.planner.start_of_job((self.mirror.next_of(job.id) or job.id) if job.jobs > 1 else job.id)
        return job.model_copy(update=start_fields(*told)) if told else job

    def _in_use(self, job: JobOut, *, processes: bool = False) -> JobOut:
        """The job with its latest sample, while it runs."""
        if job.state != "running":
            return job
        held_milli = 0 if job.sharing == "best-effort" else sum(seat.gpu_milli for seat in job.seats)
        held_bytes = sum(seat.memory_bytes for seat in job.seats)
        use = self.metering.use_of(job.id, held_milli, held_bytes, processes=processes)
        return job if use is None else job.model_copy(update={"use": use})

    def explain(self, named: str, principal: Principal) -> ExplainOut:
        with self.store.read() as connection:
            now_ns, array = self.store.clock.now_ns(), None
            try:
                job = self._shown(connection, named, principal)
            except NotOneJob as error:
                array = self.array(error.details["array"], principal)
                job = self._shown(connection, array.next or array.last, principal)
            told = explain_job(connection, job, principal, self.mirror, self.placer, now_ns)
            return told.model_copy(update={"array": array})

    def quotas(self, principal: Principal) -> QuotaTreeOut:
        """Who may hold, holds, borrows and lends what, as far as the caller may see it."""
        self.placer.refresh()
        return quota_tree(self.mirror.snapshot(), principal)

    def capacity(self, caller: Principal | None = None) -> CapacityOut:
        """What the pool could still give, as it is now, and what quotas leave the caller's tenant."""
        self.placer.refresh()
        return capacity(self.mirror.snapshot(), caller.tenant if caller else None)

    # --- moving -----------------------------------------------------------------------------

    def plan_defrag(self, asked: DefragIn) -> DefragOut:
        """What to move so that whole cards of one node come free together. Moves nothing."""
        return defragmenting.plan_defrag(self.store, self.placer.seen(), asked)

    def plan_rebalance(self, asked: RebalanceIn) -> RebalanceOut:
        """Which shares to move so that the cards they are on are loaded more alike. Moves nothing."""
        return defragmenting.plan_rebalance(self.store, self.placer.seen(), asked)

    def move(self, asked: MovesIn) -> MovesOut:
        """Make these moves, all or none. Raises NotFound, WrongState, Conflict."""
        return making_moves.apply(self.store, self.mirror, self.placer, asked)

    def queue_counts(self) -> dict[str, int]:
        """Live jobs by state."""
        with self.store.read() as connection:
            query = sa.select(jobs.c.state, sa.func.count()).where(IS_LIVE).group_by(jobs.c.state)
            found = {str(state): 0 for state in LIVE} | {row[0]: row[1] for row in connection.execute(query)}
            found[JobState.PENDING] += connection.execute(NOT_MADE).scalar_one()
            return found

    def queue(self, principal: Principal, limit: int) -> list[QueuedOut]:
        """What waits, in the order of its turn."""
        self.placer.refresh()
        with self.store.read() as connection:
            snapshot, now_ns = self.mirror.snapshot(), self.store.clock.now_ns()
            return queue_of(connection, snapshot, self.placer, principal, now_ns, limit)

    # --- reservations ----------------------------------------------------------------------

    def reserve(self, body: ReservationIn, principal: Principal) -> ReservationOut:
        """Hold capacity from a time on. Raises BadDuration, NameTaken, Refused's classes; then nothing is held."""
        shape = check_shape(body.shape)
        with self.store.read() as connection:
            tenant = self.tenancy.resolve_tenant(connection, principal, body.tenant)
        self.placer.refresh()
        view = self.mirror.snapshot()
        intake.refuse_any(reserving.check(body, shape, tenant, view, self.store.clock.now_ns()))
        with self.store.write() as write:
            out = reserving.insert(write, body, shape, tenant, principal)
            write.answer(201, out.model_dump(mode="json"))
        return out

    def list_reservations(self, principal: Principal, *, everything: bool) -> list[ReservationOut]:
        with self.store.read() as connection:
            return reserving.list_all(connection, principal, self.store.clock.now_ns(), everything=everything)

    def end_reservation(self, name: str, tenant: str | None, principal: Principal) -> ReservationOut:
        with self.store.write() as write:
            out = reserving.end(write, name, self.tenancy.resolve_tenant(write.connection, principal, tenant))
            write.answer(200, out.model_dump(mode="json"))
        return out

    # --- stopping --------------------------------------------------------------------------

    def stop(self, named: str, principal: Principal, grace_s: int | None) -> list[JobOut]:
        """Ask for the end of a job, or of all live jobs of an array. Raises NotFound, NotAllowed, WrongState."""
        return self._stopping.stop(named, principal, grace_s)

    def stop_all(self, principal: Principal, why: str, grace_s: int | None) -> int:
        """Stop every live job the caller may stop; how many that were."""
        return self._stopping.stop_all(principal, why, grace_s)

    def _lease_ended(self, public_ids: list[str]) -> None:
        with self.store.read() as connection:
            live = live_jobs(connection, public_ids)
        self._stopping.stop_jobs(live, "lease", None)

    # --- resizing --------------------------------------------------------------------------

    def resize(self, named: str, body: ResizeIn, principal: Principal) -> ResizedOut:
        """Give a running job another size on the cards it has. Idempotent.

        Raises NotFound, NotAllowed, WrongState, BadInput's and Refused's classes, and changes nothing then.
        """
        wanted = check_wanted(body.gpu_milli, body.memory_bytes)
        with self.store.read() as connection:
            row = reading.find(connection, principal, named)
        check_may([row], principal, "resize")
        self.agents.used_at_resize.pop(row.public_id, None)
        with self.placer.standing_still() as snapshot, self.store.write() as write:
            done = resize_job(write, self.metering, row.id, wanted, Beside(snapshot, write.now_ns))
            told = ResizedOut(
                job=job_view.one(write.connection, row.id, self.placer.planner.why),
                gpu_milli_before=done.milli_before,
                memory_bytes_before=done.bytes_before,
                changed=done.changed,
                applied=False,
            )
            if replay.pending() is not None:
                write.answer(200, told.model_dump(mode="json"))
            write.note(lambda: self.mirror.note_granted(done.granted))
        return self.resized(told)

    def saved(self, named: str, principal: Principal) -> JobOut:
        """A job says that its work is saved now. Raises NotFound, NotAllowed, WrongState where it does not run."""
        with self.store.read() as connection:
            row = reading.find(connection, principal, named)
        check_may([row], principal, "speak for")
        with self.store.write() as write:
            state = progress.note_saved(write, row.id)
            if state != JobState.RUNNING:
                raise WrongState(f"job {row.name} is {state}: only what runs has work to save", hint="gpupool ps")
            job, now_ns = job_view.one(write.connection, row.id, self.placer.planner.why), write.now_ns
            write.note(lambda: self.mirror.note_saved(job.id, now_ns))
        return self._in_use(job)

    def resized(self, told: ResizedOut) -> ResizedOut:
        """The same answer with what the node has said since; it keeps its size when another resize followed."""
        with self.store.read() as connection:
            applied = is_applied(connection, told.job.id)
            job = self._in_use(job_view.find_public(connection, told.job.id, self.placer.planner.why))
        if (job.gpu_milli, job.memory_bytes) != (told.job.gpu_milli, told.job.memory_bytes):
            note = f"another resize followed: {job.name} has {job.share} now"
            return told.model_copy(update={"applied": applied, "note": note})
        used = self.agents.used_at_resize.get(told.job.id) if applied else None
        note = resize_note(job, told.memory_bytes_before, used)
        return told.model_copy(update={"job": job, "applied": applied, "used_bytes": used, "note": note})

    # --- events ----------------------------------------------------------------------------

    def events(self, principal: Principal, after: int, limit: int, epoch: str | None = None) -> list[Event]:
        """The log from there on: the pool's own events and those of the caller's tenant. Raises EventsReset."""
        with self.store.read() as connection:
            check_resumable(connection, after, epoch)
            return read_events(connection, principal, after, limit)

    def event_epoch(self) -> str:
        """The id of the event log; it changes only while no server has the pool."""
        with self.store.read() as connection:
            return event_epoch(connection)


def is_settled(job: JobOut) -> bool:
    """Nothing quick is left to wait for: it runs, has ended, or its client can attach."""
    return job.state in ENDED or job.state == "running" or job.attach_socket is not None
