"""Routes of load balancers, below /api/v1. Thin: parse, ask the service, answer."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request, Response

from gpupool.api.late_routes import Router
from gpupool.network.balancing.proxies import ProxyService
from gpupool.network.balancing.service import LoadBalancerService
from gpupool.network.routes import Reader, Tenant, TenantManager
from gpupool.wire.network.load_balancers import (
    CertificateIn,
    DrainIn,
    LoadBalancerIn,
    LoadBalancerOut,
)

router = Router(tags=["networks"])


def get_balancers(request: Request) -> LoadBalancerService:
    balancers: LoadBalancerService = request.app.state.load_balancers
    return balancers


def get_proxies(request: Request) -> ProxyService:
    proxies: ProxyService = request.app.state.http_balancers
    return proxies


Service = Annotated[LoadBalancerService, Depends(get_balancers)]
Proxies = Annotated[ProxyService, Depends(get_proxies)]


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


@router.get("/networks/{network}/load-balancers/{balancer}")
def get_load_balancer(
    network: str, balancer: str, proxies: Proxies, caller: Reader, tenant: Tenant = None
) -> LoadBalancerOut:
    """A load balancer, with the state of each job behind it where it answers HTTP."""
    return proxies.get_balancer(caller, network, balancer, tenant)


@router.put("/networks/{network}/load-balancers/{balancer}/certificate")
def set_certificate(
    network: str,
    balancer: str,
    body: CertificateIn,
    proxies: Proxies,
    caller: TenantManager,
    tenant: Tenant = None,
) -> LoadBalancerOut:
    """Replace the certificate of a load balancer of HTTP. Connections go on."""
    return proxies.set_certificate(caller, network, balancer, body, tenant)


@router.post("/networks/{network}/load-balancers/{balancer}/drains")
def drain_backend(
    network: str,
    balancer: str,
    body: DrainIn,
    proxies: Proxies,
    caller: TenantManager,
    tenant: Tenant = None,
) -> LoadBalancerOut:
    """Give a job behind a load balancer of HTTP no new requests."""
    return proxies.drain(caller, network, balancer, body, tenant)


@router.delete("/networks/{network}/load-balancers/{balancer}/drains/{job}")
def end_drain(
    network: str,
    balancer: str,
    job: str,
    proxies: Proxies,
    caller: TenantManager,
    tenant: Tenant = None,
) -> LoadBalancerOut:
    """Give a job behind a load balancer of HTTP new requests again."""
    return proxies.end_drain(caller, network, balancer, job, tenant)
