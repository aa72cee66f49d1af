"""Routes of jobs' output, below /api/v1, and the interface by which the host provides it."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Annotated, Any, Protocol

from fastapi import APIRouter, Query, Request
from starlette.concurrency import run_in_threadpool

from gpupool.allocations.arrays.references import build_topic
from gpupool.allocations.routes.dependencies import Reader, Service, Wait
from gpupool.base.errors import NotFound
from gpupool.model.job import ENDED
from gpupool.tenancy.turns import give_turn_aside
from gpupool.wire.jobs import JobOut, LogOut

router = APIRouter(tags=["jobs"])


@dataclass(frozen=True)
class LogChunk:
    """A piece of a job's log."""

    data: bytes
    #: Byte of the log at which the piece begins.
    offset: int
    #: Byte from which the next piece is read.
    next_offset: int
    #: Bytes that were trimmed from the log before this piece.
    dropped_bytes: int


class JobLogs(Protocol):
    """The logs of jobs; the host provides one that reads the node's job directories."""

    def read(self, job: str, offset: int, limit: int) -> LogChunk | None:
        """Read a piece of a log; None if the job has none."""

    async def wait_for_change(self, job: str, seconds: float) -> None:
        """Wait until the log grows, or the time is over."""


@router.get("/jobs/{job}/logs")
async def logs(
    request: Request,
    job: str,
    allocations: Service,
    caller: Reader,
    offset: Annotated[
        int, Query(ge=-(2**62), le=2**62, description="negative: that many bytes from the end")
    ] = 0,
    limit: Annotated[int, Query(ge=1, le=1 << 20)] = 1 << 16,
    wait_seconds: Wait = 0,
) -> LogOut:
    """A piece of a job's output, from a byte offset on: for its user, its tenant's admins and pool
    admins."""
    source: JobLogs = request.app.state.logs
    deadline = time.monotonic() + wait_seconds
    while True:
        now = await run_in_threadpool(allocations.jobs.get_job_with_output, job, caller)
        chunk = await run_in_threadpool(source.read, now.id, offset, limit)
        ended = now.state in ENDED
        left = deadline - time.monotonic()
        if ended or left <= 0 or (chunk is not None and chunk.data):
            return _build_answer(now, chunk, offset, limit)
        with request.app.state.store.notifier.subscribe(build_topic(now.id)) as ticket:
            # Read again after the subscription: a job that has ended in between announces nothing
            # more, and its log does not grow.
            again = await run_in_threadpool(allocations.jobs.get_job_with_output, now.id, caller)
            if again.generation == now.generation:
                async with give_turn_aside(request):
                    await _wait_for_first(
                        source.wait_for_change(now.id, left), ticket.wait_for_commit(left)
                    )


async def _wait_for_first(*waits: Awaitable[Any]) -> None:
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()


def _build_answer(job: JobOut, chunk: LogChunk | None, offset: int, limit: int) -> LogOut:
    ended = job.state in ENDED
    if chunk is None:
        if job.attached and job.state != "pending":
            raise NotFound(
                f"job {job.name} has no log: its output went to its client's terminal",
                hint="gpupool submit  keeps a log",
            )
        return LogOut(data="", offset=max(0, offset), next_offset=max(0, offset), ended=ended)
    return LogOut(
        data=base64.b64encode(chunk.data).decode(),
        offset=chunk.offset,
        next_offset=chunk.next_offset,
        dropped_bytes=chunk.dropped_bytes,
        ended=ended and len(chunk.data) < limit,
    )
