"""Routes of flow logs, below /api/v1. Thin: parse, ask the service, answer."""

from __future__ import annotations

import time
from typing import Annotated

from fastapi import Depends, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from gpupool.api.late_routes import Router
from gpupool.network.flows.records import build_topic
from gpupool.network.flows.service import FlowLogService
from gpupool.network.routes import Limit, Reader, Tenant, TenantManager
from gpupool.tenancy.turns import wait_idle
from gpupool.wire.network.flows import FlowLogIn, FlowLogOut, FlowRecordsOut

router = Router(tags=["networks"])

#: Seconds that a reader of records may wait for new ones.
_MOST_WAIT = 30.0


def get_flow_logs(request: Request) -> FlowLogService:
    service: FlowLogService = request.app.state.flow_logs
    return service


Service = Annotated[FlowLogService, Depends(get_flow_logs)]


@router.get("/networks/{network}/flow-logs")
def list_flow_logs(
    network: str, service: Service, caller: Reader, tenant: Tenant = None
) -> list[FlowLogOut]:
    """The flow logs of a network, by name."""
    return service.list_logs(caller, network, tenant)


@router.post("/networks/{network}/flow-logs", status_code=201)
def create_flow_log(
    network: str, body: FlowLogIn, service: Service, caller: TenantManager, tenant: Tenant = None
) -> FlowLogOut:
    """Log which packets of a network are allowed and denied, from now on."""
    return service.create_log(caller, network, body, tenant)


@router.get("/networks/{network}/flow-logs/{log}/records")
async def read_flow_records(
    request: Request,
    network: str,
    log: str,
    service: Service,
    caller: TenantManager,
    after: Annotated[
        int | None, Query(ge=0, le=2**62, description="`next` of the answer before")
    ] = None,
    limit: Limit = 100,
    wait_seconds: Annotated[
        float,
        Query(ge=0, le=_MOST_WAIT, description="answer at the latest after that many seconds"),
    ] = 0,
    tenant: Tenant = None,
) -> FlowRecordsOut:
    """Records of a flow log behind a cursor, or its last ones: for its tenant's admins."""

    def read() -> FlowRecordsOut:
        return service.read_records(caller, network, log, tenant, after=after, limit=limit)

    deadline = time.monotonic() + wait_seconds
    key = await run_in_threadpool(service.find_log, caller, network, log, tenant)
    while True:
        with request.app.state.store.notifier.subscribe(build_topic(key)) as ticket:
            found = await run_in_threadpool(read)
            left = deadline - time.monotonic()
            if found.records or left <= 0:
                return found
            async with wait_idle(request):
                await ticket.wait_for_commit(left)


@router.delete("/networks/{network}/flow-logs/{log}", status_code=204)
def delete_flow_log(
    network: str, log: str, service: Service, caller: TenantManager, tenant: Tenant = None
) -> Response:
    """Delete a flow log with its records."""
    service.delete_log(caller, network, log, tenant)
    return Response(status_code=204)
