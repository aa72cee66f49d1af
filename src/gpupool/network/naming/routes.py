"""Routes of DNS records, below /api/v1. Thin: parse, ask the service, answer."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request, Response

from gpupool.api.late_routes import Router
from gpupool.network.naming.service import DnsRecordService
from gpupool.network.routes import Reader, Tenant, TenantManager
from gpupool.wire.network.dns_records import DnsRecordIn, DnsRecordOut

router = Router(tags=["networks"])


def get_records(request: Request) -> DnsRecordService:
    records: DnsRecordService = request.app.state.dns_records
    return records


Service = Annotated[DnsRecordService, Depends(get_records)]


@router.get("/networks/{network}/dns-records")
def list_dns_records(
    network: str, service: Service, caller: Reader, tenant: Tenant = None
) -> list[DnsRecordOut]:
    """DNS records of a network, by name. The names of jobs are not among them."""
    return service.list_records(caller, network, tenant)


@router.post("/networks/{network}/dns-records", status_code=201)
def create_dns_record(
    network: str,
    body: DnsRecordIn,
    service: Service,
    caller: TenantManager,
    tenant: Tenant = None,
) -> DnsRecordOut:
    """Let a name of a network have an address."""
    return service.create_record(caller, network, body, tenant)


@router.delete("/networks/{network}/dns-records/{name}/{address}", status_code=204)
def delete_dns_record(
    network: str,
    name: str,
    address: str,
    service: Service,
    caller: TenantManager,
    tenant: Tenant = None,
) -> Response:
    """Delete a DNS record."""
    service.delete_record(caller, network, name, address, tenant)
    return Response(status_code=204)
