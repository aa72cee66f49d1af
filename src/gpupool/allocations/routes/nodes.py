"""Routes of agents, below /api/v1: the work of their nodes, and their reports. Thin: parse, ask,
answer."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request
from starlette.concurrency import run_in_threadpool

from gpupool.allocations.routes.dependencies import Cursor, Service, Wait, read_until
from gpupool.api.late_routes import Router
from gpupool.model.tenant import Permission, Principal
from gpupool.tenancy.access import require_caller
from gpupool.wire.fleet import ReportsIn, ReportsOut, WorkPage

router = Router(tags=["jobs"])
Agent = Annotated[Principal, Depends(require_caller(Permission.SERVE_NODE))]


@router.get("/nodes/{node}/work", tags=["agents"])
async def work(
    request: Request,
    node: str,
    allocations: Service,
    caller: Agent,
    after: Cursor = 0,
    wait_seconds: Wait = 0,
) -> WorkPage:
    """What an agent has to do since the cursor. With after=0 everything its nodes hold, at once."""

    # That a silent node is back is written to the ledger, so it takes a thread; else the heartbeat
    # is only remembered.
    if allocations.fleet.is_silent(node):
        await run_in_threadpool(allocations.fleet.record_heartbeat, node)
    else:
        allocations.fleet.record_heartbeat(node)
    return await read_until(
        request,
        ("node", allocations.fleet.find_agent(node)),
        wait_seconds if after else 0,
        lambda: allocations.agents.read_work(node, after),
        lambda page: bool(page.work or page.modes or page.network),
    )


@router.post("/nodes/{node}/reports", tags=["agents"])
def reports(node: str, body: ReportsIn, allocations: Service, caller: Agent) -> ReportsOut:
    """What became of a node's allocations, cards and jobs. Telling it twice changes nothing."""
    return allocations.agents.apply_reports(node, body)
