"""Routes of streams and visits, below /api/v1, and those by which agents bring streams."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from gpupool.api.late_routes import Router
from gpupool.model.tenant import Permission, Principal
from gpupool.tenancy.access import require_caller, scope_peer
from gpupool.wire.workspaces import StreamIn, StreamOut, VisitIn, VisitOut, WorkspaceProgramOut
from gpupool.workspaces.pipes import BufferedPipeEnd, PipeEnd, join_ends
from gpupool.workspaces.programs import list_workspace_programs
from gpupool.workspaces.service import WorkspaceService
from gpupool.workspaces.streams import HelloReader, OpenStream, receive_stream
from gpupool.workspaces.upgrade import SWITCH_HEAD, require_upgrade
from gpupool.workspaces.web_socket import WebSocketEnd, is_web_socket, require_web_socket

router = Router(tags=["workspaces"])
Runner = Annotated[Principal, Depends(require_caller(Permission.RUN))]
Agent = Annotated[Principal, Depends(require_caller(Permission.SERVE_NODE))]


async def get_workspaces(request: Request) -> WorkspaceService:
    workspaces: WorkspaceService = request.app.state.workspaces
    return workspaces


Service = Annotated[WorkspaceService, Depends(get_workspaces)]


@router.get("/workspace-programs")
def list_programs(service: Service, _caller: Runner) -> list[WorkspaceProgramOut]:
    """Programs that a person works in through a browser, each with the command of its job."""
    return list_workspace_programs(is_one_machine=service.broker.is_one_machine())


@router.post("/jobs/{job}/streams", status_code=201)
def create_stream(job: str, body: StreamIn, service: Service, caller: Runner) -> StreamOut:
    """Prepare a stream into a running job of the caller: to a port, a socket or a new program."""
    return service.prepare_stream(job, body, caller)


@router.get("/streams/{stream}", status_code=101, response_class=Response)
async def open_stream(request: Request, stream: str, service: Service, caller: Runner) -> Response:
    """Open a prepared stream, once: 101 Switching Protocols, then bytes in both directions.

    A page of the console asks for a WebSocket instead, and gets the same bytes in its messages.
    """
    end: PipeEnd
    if is_web_socket(request):
        upgrade, head = require_web_socket(request)
        end = WebSocketEnd()
    else:
        upgrade = require_upgrade(request)
        head = SWITCH_HEAD
        end = BufferedPipeEnd()
    opened = await service.open_prepared(stream, caller)
    upgrade.switch(head, end)
    join_ends(end, opened.end)
    return _make_switched_answer()


@router.post("/jobs/{job}/visits", status_code=201)
async def create_visit(job: str, body: VisitIn, service: Service, caller: Runner) -> VisitOut:
    """Make a link that opens a page of a running job of the caller, once, in one browser."""
    return await service.make_visit(job, body, caller)


@router.get("/nodes/{node}/relay", status_code=101, tags=["agents"], response_class=Response)
async def listen_for_streams(
    request: Request, node: str, service: Service, caller: Agent
) -> Response:
    """Listen for the streams that an agent is to bring: 101, then one line of JSON for each."""
    upgrade = require_upgrade(request)
    agent = await run_in_threadpool(service.find_agent, node)
    is_local = scope_peer(request.scope) is not None
    upgrade.switch(SWITCH_HEAD, service.broker.add_agent(agent, is_local=is_local))
    return _make_switched_answer()


@router.get(
    "/nodes/{node}/relay/{stream}", status_code=101, tags=["agents"], response_class=Response
)
async def bring_stream(
    request: Request, node: str, stream: str, service: Service, caller: Agent
) -> Response:
    """Bring a stream that the server awaits: 101, one line of JSON, then its bytes."""
    upgrade = require_upgrade(request)
    broker = service.broker
    broker.check_awaited(service.find_agent(node), stream)
    connection = upgrade.take_socket(SWITCH_HEAD)
    if connection is not None:
        broker.bring_stream(stream, await receive_stream(connection))
        return _make_switched_answer()

    def note_arrival(opened: OpenStream) -> None:
        broker.bring_stream(stream, opened)

    upgrade.switch(SWITCH_HEAD, HelloReader(note_arrival))
    return _make_switched_answer()


def _make_switched_answer() -> Response:
    """Return what is counted as the answer: the connection carries bytes by now."""
    return Response(status_code=101)
