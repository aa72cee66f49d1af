"""Routes of the boundary's firewall, below /api/v1. Thin: parse, ask the service, answer."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request, Response

from gpupool.api.late_routes import Router
from gpupool.network.firewall.service import FirewallService
from gpupool.network.routes import PoolManager, Reader
from gpupool.wire.network.firewall import FirewallRuleIn, FirewallRuleOut

router = Router(tags=["networks"])


def get_firewall(request: Request) -> FirewallService:
    firewall: FirewallService = request.app.state.firewall
    return firewall


Service = Annotated[FirewallService, Depends(get_firewall)]


@router.get("/network-firewall")
def list_firewall_rules(service: Service, caller: Reader) -> list[FirewallRuleOut]:
    """Rules for what gateways pass, in their order; without those of other tenants' networks."""
    return service.list_rules(caller)


@router.post("/network-firewall", status_code=201)
def create_firewall_rule(
    body: FirewallRuleIn, service: Service, caller: PoolManager
) -> FirewallRuleOut:
    """Write a rule. Connections that it denies end, also those that are open."""
    return service.create_rule(caller, body)


@router.delete("/network-firewall/{rule}", status_code=204)
def delete_firewall_rule(rule: str, service: Service, caller: PoolManager) -> Response:
    """Delete a rule."""
    service.delete_rule(rule)
    return Response(status_code=204)
