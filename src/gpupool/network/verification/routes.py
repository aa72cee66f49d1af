"""Routes of verifications of networks, below /api/v1. Thin: parse, ask the service, answer."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from gpupool.api.late_routes import Router
from gpupool.network.routes import Reader, TenantManager
from gpupool.network.verification.service import NetworkVerificationService
from gpupool.wire.network.promises import NetworkVerificationIn, NetworkVerificationOut

router = Router(tags=["networks"])


def get_verifications(request: Request) -> NetworkVerificationService:
    verifications: NetworkVerificationService = request.app.state.network_verifications
    return verifications


Service = Annotated[NetworkVerificationService, Depends(get_verifications)]


@router.get("/network-verifications")
def list_network_verifications(service: Service, caller: Reader) -> list[NetworkVerificationOut]:
    """The last verifications of the caller's networks; those of all tenants for an admin."""
    return service.list_last(caller)


@router.post("/network-verifications", status_code=201)
def start_network_verification(
    body: NetworkVerificationIn, service: Service, caller: TenantManager
) -> NetworkVerificationOut:
    """Begin to prove that networks keep what they promise."""
    return service.start(caller, body)


@router.get("/network-verifications/{verification}")
def get_network_verification(
    verification: str, service: Service, caller: Reader
) -> NetworkVerificationOut:
    """One verification, by its id."""
    return service.get(caller, verification)
