"""Resizes of running jobs: write the new size, and read whether its node has applied it."""

from __future__ import annotations

from gpupool.allocations.agents import AgentService
from gpupool.allocations.cache.ledger_cache import LedgerCache
from gpupool.allocations.lifecycle.resize import (
    check_requested_size,
    describe_resize_effect,
    is_resize_applied,
    resize_job,
)
from gpupool.allocations.lifecycle.resize_headroom import JobResizeHeadroom
from gpupool.allocations.placement.placer import Placer
from gpupool.allocations.services.jobs import JobService
from gpupool.allocations.stop import check_ownership
from gpupool.allocations.views import job as job_view
from gpupool.allocations.views import list as job_lookup
from gpupool.metering.service import MeteringService
from gpupool.model.tenant import Principal
from gpupool.store import idempotency
from gpupool.store.database import Store
from gpupool.wire.jobs import ResizedOut, ResizeIn


class ResizeService:
    """Resizes running jobs on the cards they have. Thread-safe."""

    def __init__(
        self,
        store: Store,
        metering: MeteringService,
        cache: LedgerCache,
        placer: Placer,
        agents: AgentService,
        jobs: JobService,
    ) -> None:
        self._store = store
        self._metering = metering
        self._cache = cache
        self._placer = placer
        self._agents = agents
        self._jobs = jobs

    def resize_job(self, named: str, body: ResizeIn, principal: Principal) -> ResizedOut:
        """Write another size for a running job, on the cards it has. Idempotent.

        The size is checked and written in one transaction while placement pauses.

        Raises:
            NotFound: The caller's scope has no such job.
            NoPermission: The job belongs to another user, and the caller manages no tenant.
            WrongState: The job does not run.
            BadInput: The size makes sense for no card.
            RequestRejection: The cards or the quotas have too little; nothing is written then.
        """
        wanted = check_requested_size(body.gpu_milli, body.memory_bytes)
        with self._store.read() as connection:
            row = job_lookup.find_job(connection, principal, named)
        check_ownership([row], principal, "resize")
        self._agents.used_at_resize.pop(row.public_id, None)
        with self._placer.pause_placement() as snapshot, self._store.write() as write:
            headroom = JobResizeHeadroom(snapshot, write.now_ns)
            result = resize_job(write, self._metering, row.id, wanted, headroom)
            why = self._placer.planner.describe_wait
            answer = ResizedOut(
                job=job_view.read_job(write.connection, row.id, why),
                gpu_milli_before=result.milli_before,
                memory_bytes_before=result.bytes_before,
                changed=result.changed,
                applied=False,
            )
            if idempotency.get_pending_request() is not None:
                write.answer(200, answer.model_dump(mode="json"))
            write.note(lambda: self._cache.apply_change(result.granted))
        return self.read_resize_effect(answer)

    def read_resize_effect(self, answer: ResizedOut) -> ResizedOut:
        """Return the answer with what the node has reported since.

        An answer whose resize was followed by another one keeps its size.
        """
        with self._store.read() as connection:
            applied = is_resize_applied(connection, answer.job.id)
            why = self._placer.planner.describe_wait
            job = self._jobs.add_usage(job_view.read_job_by_id(connection, answer.job.id, why))
        if (job.gpu_milli, job.memory_bytes) != (answer.job.gpu_milli, answer.job.memory_bytes):
            note = f"another resize followed: {job.name} has {job.share} now"
            return answer.model_copy(update={"applied": applied, "note": note})
        used = self._agents.used_at_resize.get(answer.job.id) if applied else None
        note = describe_resize_effect(job, answer.memory_bytes_before, used)
        return answer.model_copy(
            update={"job": job, "applied": applied, "used_bytes": used, "note": note}
        )
