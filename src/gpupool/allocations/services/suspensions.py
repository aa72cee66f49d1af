"""Suspends and resumes of running jobs: write the wish, and read what became of it."""

from __future__ import annotations

from gpupool.allocations.cache.ledger_cache import LedgerCache
from gpupool.allocations.lifecycle.resize_headroom import JobResizeHeadroom
from gpupool.allocations.lifecycle.suspension import resume_job, suspend_job
from gpupool.allocations.placement.placer import Placer
from gpupool.allocations.stop import check_ownership
from gpupool.allocations.views import job as job_view
from gpupool.allocations.views import list as job_lookup
from gpupool.metering.service import MeteringService
from gpupool.model.suspension import UNDERWAY
from gpupool.model.tenant import Principal
from gpupool.store.database import Store
from gpupool.wire.jobs import JobOut


class SuspensionService:
    """Suspends and resumes running jobs. Thread-safe."""

    def __init__(
        self, store: Store, metering: MeteringService, cache: LedgerCache, placer: Placer
    ) -> None:
        self._store = store
        self._metering = metering
        self._cache = cache
        self._placer = placer

    def suspend_job(self, named: str, principal: Principal) -> JobOut:
        """Ask for the job's memory to be moved to the host. Idempotent.

        Raises:
            NotFound: The caller's scope has no such job.
            NoPermission: The job belongs to another user, and the caller manages no tenant.
            WrongState: The job does not run.
            RequestRejection: No driver can suspend a job of its kind.
        """
        job = self._find_job(named, principal, "suspend")
        with self._store.write() as write:
            asked = suspend_job(write, job)
            if asked is not None:
                write.note(lambda: self._cache.apply_change(asked))
            return job_view.read_job(write.connection, job, self._placer.planner.describe_wait)

    def resume_job(self, named: str, principal: Principal) -> JobOut:
        """Take the job's seats again and ask for its memory to be moved back. Idempotent.

        Raises:
            NotFound: The caller's scope has no such job.
            NoPermission: The job belongs to another user, and the caller manages no tenant.
            WrongState: The job does not live.
            RequestRejection: The cards or the quotas have too little now; nothing is written.
        """
        job = self._find_job(named, principal, "resume")
        with self._placer.pause_placement() as snapshot, self._store.write() as write:
            headroom = JobResizeHeadroom(snapshot, write.now_ns)
            granted = resume_job(write, self._metering, job, headroom)
            if granted is not None:
                write.note(lambda: self._cache.apply_change(granted))
            return job_view.read_job(write.connection, job, self._placer.planner.describe_wait)

    def _find_job(self, named: str, principal: Principal, verb: str) -> int:
        with self._store.read() as connection:
            row = job_lookup.find_job(connection, principal, named)
        check_ownership([row], principal, verb)
        return int(row.id)


def is_answered(job: JobOut) -> bool:
    """Whether the job's node has said what became of the last wish."""
    return job.suspension is None or job.suspension.state not in UNDERWAY
