"""Routes of jobs' output, below /api/v1, and the interface by which the host provides it."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import AsyncIterator, Awaitable
from dataclasses import dataclass
from typing import Annotated, Any, Protocol

from fastapi import Header, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from gpupool.allocations.arrays.references import build_topic
from gpupool.allocations.routes import streaming
from gpupool.allocations.routes.dependencies import Reader, Service, Wait
from gpupool.allocations.service import Allocations
from gpupool.allocations.views.attempts import find_log_part
from gpupool.api.late_routes import Router
from gpupool.base.errors import NoPermission, NotFound, NotLoggedIn
from gpupool.model.job import ENDED
from gpupool.model.tenant import Permission, Principal
from gpupool.tenancy.access import recheck_caller
from gpupool.tenancy.turns import wait_idle
from gpupool.wire.jobs import JobOut, LogOut

router = Router(tags=["jobs"])


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

    async def wait_for_change(self, job: str, known: int, seconds: float) -> None:
        """Wait until the log is longer than `known` bytes, or the time is over."""


@router.get(
    "/jobs/{job}/logs",
    response_model=LogOut,
    responses={200: {"content": {streaming.MEDIA_TYPE: streaming.SCHEMA}}},
)
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
    last_event: Annotated[
        str | None,
        Header(
            alias="Last-Event-ID",
            max_length=20,
            description="`id` of the last event that a browser had; goes before `offset`",
        ),
    ] = None,
    attempt: Annotated[
        int | None,
        Query(ge=1, le=1000, description="what that attempt wrote; offsets count in the whole log"),
    ] = None,
) -> LogOut | Response:
    """A piece of a job's output, from a byte offset on: for its user, its tenant's admins and pool
    admins.

    With `Accept: text/event-stream` pieces come as they are written, then an event `end`.
    """
    reader = LogReader(request, allocations, limit, attempt)
    if not streaming.accepts_events(request):
        return await reader.read(job, caller, offset, wait_seconds)
    offset = streaming.read_position(last_event, offset)
    # Before the stream begins, so that a job that is not found is answered with an error status.
    first = await reader.read(job, caller, offset, 0)
    return streaming.respond(_stream_pieces(reader, job, first))


async def _stream_pieces(reader: LogReader, job: str, piece: LogOut) -> AsyncIterator[str]:
    # With its number also where it is empty: a browser that resumes goes on from there.
    yield streaming.format_event("message", piece.model_dump(), piece.next_offset)
    while not piece.ended and not await reader.request.is_disconnected():
        try:
            caller = await recheck_caller(reader.request, Permission.READ)
            piece = await reader.read(job, caller, piece.next_offset, streaming.HEARTBEAT_SECONDS)
        except (NotLoggedIn, NoPermission, NotFound):
            return  # the next request gets the error: this one has its status already
        if piece.data or piece.ended:
            yield streaming.format_event("message", piece.model_dump(), piece.next_offset)
        else:
            yield streaming.HEARTBEAT
    if piece.ended:
        yield streaming.format_event("end", {})


class LogReader:
    """Reads pieces of a job's output for one request, and waits for more of it."""

    def __init__(
        self, request: Request, allocations: Allocations, limit: int, attempt: int | None = None
    ) -> None:
        self.request = request
        self._attempt = attempt
        self._allocations = allocations
        self._limit = limit
        self._source: JobLogs = request.app.state.logs

    async def read(self, job: str, caller: Principal, offset: int, seconds: float) -> LogOut:
        """Read a piece, waiting for it at most so long."""
        deadline = time.monotonic() + seconds
        jobs = self._allocations.jobs
        while True:
            now = await run_in_threadpool(jobs.get_job_with_output, job, caller)
            if self._attempt is not None:
                first, end = find_log_part(now, self._attempt)
                if end is not None:
                    return await run_in_threadpool(self._read_part, now, offset, first, end)
                offset = max(offset, first) if offset >= 0 else offset
            chunk = await run_in_threadpool(self._source.read, now.id, offset, self._limit)
            left = deadline - time.monotonic()
            if now.state in ENDED or left <= 0 or (chunk is not None and chunk.data):
                return _build_answer(now, chunk, offset, self._limit)
            known = 0 if chunk is None else chunk.next_offset
            notifier = self.request.app.state.store.notifier
            with notifier.subscribe(build_topic(now.id)) as ticket:
                # Read again after the subscription: a job that has ended in between announces
                # nothing more, and its log does not grow.
                again = await run_in_threadpool(jobs.get_job_with_output, now.id, caller)
                if again.generation == now.generation:
                    async with wait_idle(self.request):
                        await _wait_for_first(
                            self._source.wait_for_change(now.id, known, left),
                            ticket.wait_for_commit(left),
                        )

    def _read_part(self, job: JobOut, offset: int, first: int, end: int) -> LogOut:
        """Read of the part of an attempt that writes no more."""
        begin = max(first, end + offset if offset < 0 else offset)
        limit = min(self._limit, end - begin)
        chunk = self._source.read(job.id, begin, limit) if limit > 0 else None
        if chunk is None or chunk.offset >= end:
            return LogOut(data="", offset=begin, next_offset=begin, ended=True)
        data = chunk.data[: end - chunk.offset]
        following = chunk.offset + len(data)
        return LogOut(
            data=base64.b64encode(data).decode(),
            offset=chunk.offset,
            next_offset=following,
            dropped_bytes=chunk.dropped_bytes,
            ended=following >= end,
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
                f"job {job.name} has no log: its output went to its client",
                hint="gpupool run --keep-output  and  gpupool submit  keep it",
            )
        return LogOut(data="", offset=max(0, offset), next_offset=max(0, offset), ended=ended)
    return LogOut(
        data=base64.b64encode(chunk.data).decode(),
        offset=chunk.offset,
        next_offset=chunk.next_offset,
        dropped_bytes=chunk.dropped_bytes,
        ended=ended and len(chunk.data) < limit,
    )
