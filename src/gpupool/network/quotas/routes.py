"""Routes of quotas for objects of networks, below /api/v1. Thin: parse, ask the service, answer."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from gpupool.api.late_routes import Router
from gpupool.network.quotas.service import NetworkQuotaService
from gpupool.network.routes import PoolManager, Reader
from gpupool.wire.network.quotas import NetworkQuotaIn, NetworkQuotaOut

router = Router(tags=["networks"])


def get_quotas(request: Request) -> NetworkQuotaService:
    quotas: NetworkQuotaService = request.app.state.network_quotas
    return quotas


Service = Annotated[NetworkQuotaService, Depends(get_quotas)]


@router.get("/tenants/{tenant}/network-quota")
def list_network_quotas(tenant: str, service: Service, caller: Reader) -> list[NetworkQuotaOut]:
    """What a tenant may have at most of networks and their parts, and what it has."""
    return service.list_quotas(caller, tenant)


@router.put("/tenants/{tenant}/network-quota")
def set_network_quotas(
    tenant: str, body: NetworkQuotaIn, service: Service, caller: PoolManager
) -> list[NetworkQuotaOut]:
    """Set what a tenant may have at most. What it has already stays."""
    return service.set_quotas(caller, tenant, body)
