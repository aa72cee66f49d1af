"""The route that previews a submission: what would become of it, and nothing is written."""

from __future__ import annotations

from fastapi import Request
from starlette.concurrency import run_in_threadpool

from gpupool.allocations.routes.dependencies import Runner, Service
from gpupool.allocations.routes.unknown_cards import judge_with_cards
from gpupool.allocations.submission.user_queue import UserQueue
from gpupool.allocations.submission.validate import (
    IMPOSSIBLE,
    apply_job_limits,
    check_container,
)
from gpupool.api.late_routes import Router
from gpupool.tenancy.access import peer_of
from gpupool.tenancy.peer_limits import read_peer_limits
from gpupool.wire.submissions import JobIn
from gpupool.wire.views.previews import PreviewOut

router = Router(tags=["jobs"])
#: One preview of a user at a time: each plans as the placer does.
_turns = UserQueue()


@router.post("/jobs/preview")
async def preview(
    request: Request, body: JobIn, allocations: Service, caller: Runner
) -> PreviewOut:
    """What would become of a submission: it fits on these cards, it waits and why, or it would be
    refused. Writes nothing; 20 at once and 5 a second for each user."""
    allocations.previews.budget.spend(caller.user_id)
    peer = peer_of(request)

    def preview_now() -> PreviewOut:
        run_as = allocations.tenancy.run_as(caller, peer)
        own = read_peer_limits(peer, run_as.uid if run_as else None)
        allowed = check_container(body, allocations.container_policy)
        limited = apply_job_limits(allowed, allocations.job_limits, own)
        return allocations.previews.preview_job(limited, caller, run_as)

    async with _turns.wait_turn(caller.user_id):
        try:
            return await judge_with_cards(request, preview_now)
        except IMPOSSIBLE as error:
            return await run_in_threadpool(
                allocations.previews.describe_refusal, body, caller, error
            )
