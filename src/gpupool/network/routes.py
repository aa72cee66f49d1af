"""Routes of networks, below /api/v1. Thin: parse, ask the service, answer."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Depends, Query, Request, Response

from gpupool.api.late_routes import Router
from gpupool.model.tenant import Permission, Principal
from gpupool.network.engine_service import NetworkEngineService
from gpupool.network.peerings import PeeringService
from gpupool.network.reach_service import ReachService
from gpupool.network.reachability import Traffic
from gpupool.network.service import NetworkService
from gpupool.tenancy.access import require_caller
from gpupool.wire.common import Page
from gpupool.wire.network.networks import (
    NetworkEngineIn,
    NetworkEngineOut,
    NetworkIn,
    NetworkOut,
    PeeringIn,
    PeeringOut,
    ReachOut,
    SubnetIn,
)

router = Router(tags=["networks"])


def get_service(request: Request) -> NetworkService:
    service: NetworkService = request.app.state.networks
    return service


def get_engine(request: Request) -> NetworkEngineService:
    engine: NetworkEngineService = request.app.state.network_engine
    return engine


def get_peerings(request: Request) -> PeeringService:
    peerings: PeeringService = request.app.state.network_peerings
    return peerings


def get_reaches(request: Request) -> ReachService:
    reaches: ReachService = request.app.state.network_reaches
    return reaches


Service = Annotated[NetworkService, Depends(get_service)]
Peerings = Annotated[PeeringService, Depends(get_peerings)]
Reaches = Annotated[ReachService, Depends(get_reaches)]
Engine = Annotated[NetworkEngineService, Depends(get_engine)]
Reader = Annotated[Principal, Depends(require_caller(Permission.READ))]
TenantManager = Annotated[Principal, Depends(require_caller(Permission.MANAGE_TENANT))]
PoolManager = Annotated[Principal, Depends(require_caller(Permission.MANAGE_POOL))]
After = Annotated[str | None, Query(max_length=200, description="`next` of the page before")]
Limit = Annotated[int, Query(ge=1, le=1000)]
Tenant = Annotated[str | None, Query(max_length=63, description="of another tenant (admins)")]


@router.get("/networks")
def list_networks(
    service: Service, caller: Reader, after: After = None, limit: Limit = 100
) -> Page[NetworkOut]:
    """Networks by id: all of them for an admin, else those of the caller's tenant."""
    return service.list_networks(caller, after, limit)


@router.post("/networks", status_code=201)
def create_network(body: NetworkIn, service: Service, caller: TenantManager) -> NetworkOut:
    """Create a virtual private cloud with its subnets."""
    return service.create_network(caller, body)


@router.get("/networks/{network}")
def get_network(
    network: str, service: Service, caller: Reader, tenant: Tenant = None
) -> NetworkOut:
    """One network with the jobs in it, by name or id."""
    return service.get_network(caller, network, tenant)


@router.delete("/networks/{network}", status_code=204)
def delete_network(
    network: str, service: Service, caller: TenantManager, tenant: Tenant = None
) -> Response:
    """Delete a network with its subnets. Refused while jobs are in it."""
    service.delete_network(caller, network, tenant)
    return Response(status_code=204)


@router.post("/networks/{network}/subnets", status_code=201)
def create_subnet(
    network: str, body: SubnetIn, service: Service, caller: TenantManager, tenant: Tenant = None
) -> NetworkOut:
    """Add a subnet to a network."""
    return service.create_subnet(caller, network, body, tenant)


@router.delete("/networks/{network}/subnets/{subnet}", status_code=204)
def delete_subnet(
    network: str, subnet: str, service: Service, caller: TenantManager, tenant: Tenant = None
) -> Response:
    """Delete a subnet of a network. Refused while jobs are in it, and for the last one."""
    service.delete_subnet(caller, network, subnet, tenant)
    return Response(status_code=204)


@router.put("/networks/{network}/gateway")
def create_gateway(
    network: str, service: Service, caller: TenantManager, tenant: Tenant = None
) -> NetworkOut:
    """Let the jobs of a network reach what lies outside of the pool."""
    return service.create_gateway(caller, network, tenant)


@router.delete("/networks/{network}/gateway")
def delete_gateway(
    network: str, service: Service, caller: TenantManager, tenant: Tenant = None
) -> NetworkOut:
    """Cut the jobs of a network off from what lies outside of the pool."""
    return service.delete_gateway(caller, network, tenant)


@router.put("/networks/{network}/default")
def set_default_network(
    network: str, service: Service, caller: TenantManager, tenant: Tenant = None
) -> NetworkOut:
    """Let jobs of the tenant that name no network join this one."""
    return service.set_default(caller, network, tenant, wanted=True)


@router.delete("/networks/{network}/default")
def clear_default_network(
    network: str, service: Service, caller: TenantManager, tenant: Tenant = None
) -> NetworkOut:
    """Let jobs of the tenant that name no network join none."""
    return service.set_default(caller, network, tenant, wanted=False)


@router.get("/networks/{network}/peerings")
def list_peerings(
    network: str, service: Peerings, caller: Reader, tenant: Tenant = None
) -> list[PeeringOut]:
    """Peerings of a network: those it asked for, and those it is asked for."""
    return service.list_peerings(caller, network, tenant)


@router.post("/networks/{network}/peerings", status_code=201)
def request_peering(
    network: str, body: PeeringIn, service: Peerings, caller: TenantManager, tenant: Tenant = None
) -> PeeringOut:
    """Ask the owner of another network for a peering."""
    return service.request_peering(caller, network, body.accepter, tenant)


@router.post("/networks/{network}/peerings/{peering}/accept")
def accept_peering(
    network: str, peering: str, service: Peerings, caller: TenantManager, tenant: Tenant = None
) -> PeeringOut:
    """Accept a peering that a network is asked for. The same again changes nothing."""
    return service.accept_peering(caller, network, peering, tenant)


@router.delete("/networks/{network}/peerings/{peering}", status_code=204)
def revoke_peering(
    network: str, peering: str, service: Peerings, caller: TenantManager, tenant: Tenant = None
) -> Response:
    """End a peering, or a request for one, from either side."""
    service.revoke_peering(caller, network, peering, tenant)
    return Response(status_code=204)


@router.get("/networks/{network}/reach")
def get_reach(
    network: str,
    service: Reaches,
    caller: Reader,
    source: Annotated[str, Query(max_length=200, description="address or DNS name of a job")],
    target: Annotated[str, Query(max_length=200, description="address, or name in the network")],
    protocol: Literal["tcp", "udp", "icmp"] = "tcp",
    port: Annotated[int | None, Query(ge=1, le=65535, description="null: every port")] = None,
    ipv6: Annotated[bool, Query(description="a name stands for its IPv6 address")] = False,
    tenant: Tenant = None,
) -> ReachOut:
    """Whether a job of a network reaches a target, and which object decides."""
    traffic = Traffic(protocol, port, is_ipv6=ipv6)
    return service.describe_reach(caller, network, source, target, traffic, tenant)


@router.get("/network-engine")
def get_network_engine(engine: Engine, _caller: Reader) -> NetworkEngineOut:
    """The engine that carries networks: whether it is ready, and why not."""
    return engine.get_state()


@router.put("/network-engine")
def enable_network_engine(
    engine: Engine, _caller: PoolManager, body: NetworkEngineIn | None = None
) -> NetworkEngineOut:
    """Start the engine on the pool's machine. The same again changes nothing."""
    return engine.enable(body)


@router.delete("/network-engine")
def disable_network_engine(
    engine: Engine,
    _caller: PoolManager,
    leaves_rows: Annotated[
        bool, Query(description="do not wait until an OVN of others has none of the pool's rows")
    ] = False,
) -> NetworkEngineOut:
    """End the engine and remove all of it. Refused while jobs are in networks."""
    return engine.disable(leaves_rows=leaves_rows)
