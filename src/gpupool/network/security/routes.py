"""Routes of security groups, below /api/v1. Thin: parse, ask the service, answer."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request, Response

from gpupool.api.late_routes import Router
from gpupool.network.routes import Reader, Tenant, TenantManager
from gpupool.network.security.service import SecurityGroupService
from gpupool.wire.network.security_groups import SecurityGroupIn, SecurityGroupOut, SecurityRuleIn

router = Router(tags=["networks"])


def get_groups(request: Request) -> SecurityGroupService:
    groups: SecurityGroupService = request.app.state.security_groups
    return groups


Service = Annotated[SecurityGroupService, Depends(get_groups)]


@router.get("/networks/{network}/security-groups")
def list_security_groups(
    network: str, service: Service, caller: Reader, tenant: Tenant = None
) -> list[SecurityGroupOut]:
    """Security groups of a network with their rules, by name."""
    return service.list_groups(caller, network, tenant)


@router.post("/networks/{network}/security-groups", status_code=201)
def create_security_group(
    network: str,
    body: SecurityGroupIn,
    service: Service,
    caller: TenantManager,
    tenant: Tenant = None,
) -> SecurityGroupOut:
    """Create a security group; its members reach each other."""
    return service.create_group(caller, network, body, tenant)


@router.delete("/networks/{network}/security-groups/{group}", status_code=204)
def delete_security_group(
    network: str, group: str, service: Service, caller: TenantManager, tenant: Tenant = None
) -> Response:
    """Delete a security group. Refused while jobs are in it or will be, or a rule names it."""
    service.delete_group(caller, network, group, tenant)
    return Response(status_code=204)


@router.post("/networks/{network}/security-groups/{group}/rules", status_code=201)
def create_security_rule(
    network: str,
    group: str,
    body: SecurityRuleIn,
    service: Service,
    caller: TenantManager,
    tenant: Tenant = None,
) -> SecurityGroupOut:
    """Let packets reach a security group. The same again changes nothing."""
    return service.create_rule(caller, network, group, body, tenant)


@router.delete("/networks/{network}/security-groups/{group}/rules/{rule}", status_code=204)
def delete_security_rule(
    network: str,
    group: str,
    rule: str,
    service: Service,
    caller: TenantManager,
    tenant: Tenant = None,
) -> Response:
    """Delete a rule of a security group."""
    service.delete_rule(caller, network, group, rule, tenant)
    return Response(status_code=204)
