"""Runs the periodic tasks of a leading server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from gpupool.allocations.lifecycle.overdue import LOOK_SECONDS
from gpupool.allocations.migration import automatic
from gpupool.audit_log import retention
from gpupool.base.silence import mark_busy
from gpupool.server.config import ServiceSet


async def watch_silence(services: ServiceSet) -> None:
    """Detect silent nodes, with one timer for the next node that can become silent."""
    while True:
        with mark_busy():
            seconds = await asyncio.to_thread(services.fleet.check_silence)
        await asyncio.sleep(seconds)


async def move_quietly(services: ServiceSet) -> None:
    """Move jobs together at quiet times, within the pool's budget of moves."""
    while True:
        await asyncio.sleep(automatic.LOOK_SECONDS)
        with mark_busy(automatic.BUSY_SECONDS):
            await asyncio.to_thread(services.allocations.quiet_moves.run_if_quiet)


async def resolve_overdue(services: ServiceSet) -> None:
    """Stop or retry jobs that make no progress, and settle gangs that a failure left."""
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        with mark_busy():
            await asyncio.to_thread(services.allocations.overdue.resolve_overdue_jobs)
            await asyncio.to_thread(services.allocations.unsettled.settle_all)


async def keep_audit(services: ServiceSet) -> None:
    """Cut old months of the audit log, and announce its head."""
    seconds = retention.FIRST_LOOK_SECONDS
    while True:
        await asyncio.sleep(seconds)
        with mark_busy(retention.BUSY_SECONDS):
            await asyncio.to_thread(services.audit.keep)
        seconds = retention.LOOK_SECONDS


def list_tasks(services: ServiceSet) -> list[tuple[str, Callable[[], Awaitable[None]]]]:
    """List the periodic tasks of a leading server, by the names under which they are supervised."""
    found: list[tuple[str, Callable[[], Awaitable[None]]]] = [
        ("node-silence", partial(watch_silence, services)),
        ("overdue-jobs", partial(resolve_overdue, services)),
        ("audit-log", partial(keep_audit, services)),
        ("services", services.serving.controller.run),
    ]
    if services.allocations.quiet_moves.budget is not None:
        found.append(("quiet-moves", partial(move_quietly, services)))
    return found
