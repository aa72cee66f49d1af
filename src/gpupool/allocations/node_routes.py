"""Routes of agents, below /api/v1: what their nodes have to do, and what became of it. Thin: parse, ask, answer."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from starlette.concurrency import run_in_threadpool

from gpupool.allocations.answering import Cursor, Service, Wait, until
from gpupool.model.tenant import Permission, Principal
from gpupool.tenancy.access import require
from gpupool.wire.fleet import ReportsIn, ReportsOut, WorkPage

router = APIRouter(tags=["jobs"])
Agent = Annotated[Principal, Depends(require(Permission.SERVE_NODE))]


@router.get("/nodes/{node}/work", tags=["agents"])
async def work(
    request: Request, node: str, allocations: Service, caller: Agent, after: Cursor = 0, wait_seconds: Wait = 0
) -> WorkPage:
    """What an agent has to do since the cursor. With after=0 everything its nodes hold, at once."""

    if allocations.fleet.is_silent(node):  # then it is written that the node is back; else it is only remembered
        await run_in_threadpool(allocations.fleet.seen, node)
    else:
        allocations.fleet.seen(node)
    return await until(
        request,
        ("node", allocations.fleet.agent_of(node)),
        wait_seconds if after else 0,
        lambda: allocations.agents.work(node, after),
        lambda page: bool(page.work),
    )


@router.post("/nodes/{node}/reports", tags=["agents"])
def reports(node: str, body: ReportsIn, allocations: Service, caller: Agent) -> ReportsOut:
    """What became of a node's allocations, cards and jobs. Telling it twice changes nothing."""
    return allocations.agents.reports(node, body)
