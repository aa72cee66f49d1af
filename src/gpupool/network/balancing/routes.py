"""Routes of load balancers, below /api/v1. Thin: parse, ask the service, answer."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from gpupool.network.balancing.service import LoadBalancerService
from gpupool.network.routes import Reader, Tenant, TenantManager
from gpupool.wire.load_balancers import LoadBalancerIn, LoadBalancerOut

router = APIRouter(tags=["networks"])


def get_balancers(request: Request) -> LoadBalancerService:
    balancers: LoadBalancerService = request.app.state.load_balancers
    return balancers


Service = Annotated[LoadBalancerService, Depends(get_balancers)]


@router.get("/networks/{network}/load-balancers")
def list_load_balancers(
    network: str, service: Service, caller: Reader, tenant: Tenant = None
) -> list[LoadBalancerOut]:
    """Load balancers of a network with the jobs behind them, by name."""
    return service.list_balancers(caller, network, tenant)


@router.post("/networks/{network}/load-balancers", status_code=201)
def create_load_balancer(
    network: str,
    body: LoadBalancerIn,
    service: Service,
    caller: TenantManager,
    tenant: Tenant = None,
) -> LoadBalancerOut:
    """Create a load balancer: one address behind which jobs of the network serve."""
    return service.create_balancer(caller, network, body, tenant)


@router.delete("/networks/{network}/load-balancers/{balancer}", status_code=204)
def delete_load_balancer(
    network: str, balancer: str, service: Service, caller: TenantManager, tenant: Tenant = None
) -> Response:
    """Delete a load balancer. The jobs behind it go on."""
    service.delete_balancer(caller, network, balancer, tenant)
    return Response(status_code=204)
