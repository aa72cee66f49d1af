"""Routes of jobs' output, below /api/v1, and what the host has to give for them: where the output lies."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Annotated, Any, Protocol

from fastapi import APIRouter, Query, Request
from starlette.concurrency import run_in_threadpool

from gpupool.allocations.answering import Reader, Service, Wait
from gpupool.allocations.arrays.references import topic_of
from gpupool.base.errors import NotFound
from gpupool.model.job import ENDED
from gpupool.tenancy.turns import waiting_aside
from gpupool.wire.jobs import JobOut, LogOut

router = APIRouter(tags=["jobs"])


@dataclass(frozen=True)
class Chunk:
    """A piece of a job's log."""

    data: bytes
    offset: int
    next_offset: int
    dropped_bytes: int


class Logs(Protocol):
    """Where jobs' output lies; the host gives one that reads the node's job directories."""

    def read(self, job: str, offset: int, limit: int) -> Chunk | None: ...

    async def changed(self, job: str, seconds: float) -> None: ...


@router.get("/jobs/{job}/logs")
async def logs(
    request: Request,
    job: str,
    allocations: Service,
    caller: Reader,
    offset: Annotated[int, Query(ge=-(2**62), le=2**62, description="negative: that many bytes from the end")] = 0,
    limit: Annotated[int, Query(ge=1, le=1 << 20)] = 1 << 16,
    wait_seconds: Wait = 0,
) -> LogOut:
    """A piece of a job's output, from a byte offset on: for its user, its tenant's admins and pool admins."""
    source: Logs = request.app.state.logs
    deadline = time.monotonic() + wait_seconds
    while True:
        now = await run_in_threadpool(allocations.job_with_output, job, caller)
        chunk = await run_in_threadpool(source.read, now.id, offset, limit)
        ended = now.state in ENDED
        left = deadline - time.monotonic()
        if ended or left <= 0 or (chunk is not None and chunk.data):
            return _log_out(now, chunk, offset, limit)
        with request.app.state.store.hub.ticket(topic_of(now.id)) as ticket:
            if (await run_in_threadpool(allocations.job_with_output, now.id, caller)).generation == now.generation:
                async with waiting_aside(request):
                    await _first(source.changed(now.id, left), ticket.wait(left))


async def _first(*waits: Awaitable[Any]) -> None:
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()


def _log_out(job: JobOut, chunk: Chunk | None, offset: int, limit: int) -> LogOut:
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
