"""Routes of the pair of gateways, below /api/v1. Thin: parse, ask the service, answer."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request, Response

from gpupool.api.late_routes import Router
from gpupool.network.gateways.drills import GatewayDrillService
from gpupool.network.gateways.service import GatewayPairService
from gpupool.network.routes import PoolManager, Reader, Tenant
from gpupool.wire.network.gateways import GatewayDrillOut, GatewayPairIn, GatewayPairOut

router = Router(tags=["networks"])


def get_gateway_pairs(request: Request) -> GatewayPairService:
    pairs: GatewayPairService = request.app.state.gateway_pairs
    return pairs


def get_gateway_drills(request: Request) -> GatewayDrillService:
    drills: GatewayDrillService = request.app.state.gateway_drills
    return drills


Pairs = Annotated[GatewayPairService, Depends(get_gateway_pairs)]
Drills = Annotated[GatewayDrillService, Depends(get_gateway_drills)]


@router.get("/network-gateways")
def get_gateway_pair(pairs: Pairs, _caller: Reader) -> GatewayPairOut:
    """The pair of machines that serves gateways: which one is active, since when and why."""
    return pairs.get_pair()


@router.put("/network-gateways")
def set_gateway_pair(body: GatewayPairIn, pairs: Pairs, _caller: PoolManager) -> GatewayPairOut:
    """Put the gateways of all networks on a pair of machines. The same again changes nothing."""
    return pairs.set_pair(body)


@router.delete("/network-gateways", status_code=204)
def delete_gateway_pair(pairs: Pairs, _caller: PoolManager) -> Response:
    """Put the gateways of all networks on the centre again."""
    pairs.delete_pair()
    return Response(status_code=204)


@router.put("/network-gateways/{node}/drain")
def drain_gateway(node: str, pairs: Pairs, _caller: PoolManager) -> GatewayPairOut:
    """Give the gateways of a machine of the pair to the other one, and keep them there."""
    return pairs.set_drain(node, wanted=True)


@router.delete("/network-gateways/{node}/drain")
def undrain_gateway(node: str, pairs: Pairs, _caller: PoolManager) -> GatewayPairOut:
    """Let a machine of the pair take gateways again. Moves none by itself."""
    return pairs.set_drain(node, wanted=False)


@router.post("/networks/{network}/gateway/drills", status_code=201)
def start_gateway_drill(
    network: str, drills: Drills, caller: PoolManager, tenant: Tenant = None
) -> GatewayDrillOut:
    """Move the gateways to the other machine and back, and measure it with probes."""
    return drills.start(caller, network, tenant)


@router.get("/network-gateway-drills/{drill}")
def get_gateway_drill(drill: str, drills: Drills, _caller: PoolManager) -> GatewayDrillOut:
    """One drill, by its id."""
    return drills.get(drill)
