"""Takes a submission in as a route got it: limits of its sender, containers that the pool allows."""

from __future__ import annotations

from fastapi import Request

from gpupool.allocations.routes.unknown_cards import judge_with_cards
from gpupool.allocations.service import Allocations
from gpupool.allocations.submission.user_queue import UserQueue
from gpupool.allocations.submission.validate import apply_job_limits, check_container
from gpupool.model.tenant import Principal
from gpupool.tenancy.access import peer_of
from gpupool.tenancy.peer_limits import read_peer_limits
from gpupool.wire.jobs import SubmittedOut
from gpupool.wire.submissions import JobIn

#: A gang is checked and written in many steps: several of one user at once would have most turns of
#: the pool.
_gangs = UserQueue()


async def submit_body(
    request: Request, body: JobIn, allocations: Allocations, caller: Principal
) -> SubmittedOut:
    """Submit a job, an array or a gang for the caller of the request.

    Raises:
        GpupoolError: The refusal, with its numbers. Nothing is written then.
    """

    def take_in() -> SubmittedOut:
        peer = peer_of(request)
        run_as = allocations.tenancy.run_as(caller, peer)
        own = read_peer_limits(peer, run_as.uid if run_as else None)
        allowed = check_container(body, allocations.container_policy)
        return allocations.jobs.submit_job(
            apply_job_limits(allowed, allocations.job_limits, own), caller, run_as
        )

    if body.gang is None:
        return await judge_with_cards(request, take_in)
    async with _gangs.wait_turn(caller.user_id):
        return await judge_with_cards(request, take_in)
