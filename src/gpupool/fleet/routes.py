"""Routes of nodes and devices, below /api/v1. Thin: parse, ask the service, answer."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Depends, Query, Request

from gpupool.api.late_routes import Router
from gpupool.fleet.lookup import MAX_LIMIT
from gpupool.fleet.service import FleetService
from gpupool.model.device import CardMode
from gpupool.model.tenant import Permission, Principal
from gpupool.tenancy.access import require_caller
from gpupool.wire.common import Page
from gpupool.wire.fleet import AdoptIn, DeviceOut, NodeIn, NodeOut
from gpupool.wire.modes import ModeIn, ModesIn, ModeSwitchOut

router = Router(tags=["fleet"])


def get_service(request: Request) -> FleetService:
    fleet: FleetService = request.app.state.fleet
    return fleet


Service = Annotated[FleetService, Depends(get_service)]
Reader = Annotated[Principal, Depends(require_caller(Permission.READ))]
Agent = Annotated[Principal, Depends(require_caller(Permission.SERVE_NODE))]
Manager = Annotated[Principal, Depends(require_caller(Permission.MANAGE_CARDS))]
After = Annotated[str | None, Query(max_length=255, description="`next` of the page before")]
Limit = Annotated[int, Query(ge=1, le=MAX_LIMIT)]


@router.get("/nodes")
def list_nodes(
    fleet: Service, _caller: Reader, after: After = None, limit: Limit = 100
) -> Page[NodeOut]:
    """Every node of the pool, in the order they came."""
    return fleet.list_nodes(after=after, limit=limit)


@router.get("/nodes/{node}")
def get_node(node: str, fleet: Service, _caller: Reader) -> NodeOut:
    """One node."""
    return fleet.get_node(node)


@router.put("/nodes/{node}")
def register_node(node: str, body: NodeIn, fleet: Service, caller: Agent) -> NodeOut:
    """A node's agent says what the node has. The same again changes nothing."""
    return fleet.register_node(node, body, caller)


@router.get("/devices")
def list_devices(
    fleet: Service,
    caller: Reader,
    after: After = None,
    limit: Limit = 100,
    model: Annotated[str | None, Query(max_length=63)] = None,
    state: Literal["observed", "adopted", "draining", "lost"] | None = None,
    node: Annotated[str | None, Query(max_length=63)] = None,
    health: Literal["ok", "warning", "failed", "unknown"] | None = None,
) -> Page[DeviceOut]:
    """Every card, by node and index. Only admins see the names of processes outside the pool."""
    return fleet.list_devices(
        caller, after=after, limit=limit, model=model, state=state, node=node, health=health
    )


@router.get("/devices/{device}")
def get_device(device: str, fleet: Service, caller: Reader) -> DeviceOut:
    """One card, by uuid, by `node:index`, or by its index where the pool has one node."""
    return fleet.get_device(device, caller)


@router.post("/devices/{device}/mode")
def switch_mode(device: str, body: ModeIn, fleet: Service, _caller: Manager) -> ModeSwitchOut:
    """Switch a card to another mode: it is drained, set up by its agent, and handed out again."""
    return fleet.modes.switch_mode(device, CardMode(body.mode), dry_run=body.dry_run)


@router.post("/devices/modes")
def switch_modes(body: ModesIn, fleet: Service, _caller: Manager) -> list[ModeSwitchOut]:
    """Switch several cards to one mode, all of them or none. Cards that are in it stay as they are;
    one that is in another mode than `expected` refuses the request with 409."""
    return fleet.modes.switch_modes(body.cards, CardMode(body.mode), dry_run=body.dry_run)


@router.post("/devices/adopt")
def adopt_devices(body: AdoptIn, fleet: Service, caller: Manager) -> list[DeviceOut]:
    """Let the pool hand these cards out: all of them or none."""
    return fleet.adopt_devices(body.devices, caller)


@router.post("/devices/release")
def release_devices(body: AdoptIn, fleet: Service, caller: Manager) -> list[DeviceOut]:
    """Stop handing these cards out: all or none. Refused while shares are on one, unless
    `drain`."""
    return fleet.release_devices(body.devices, body.drain, caller)
