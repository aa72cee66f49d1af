"""Routes of the site's energy factors, below /api/v1. Thin: parse, ask the service, answer."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Path, Request, Response

from gpupool.api.late_routes import Router
from gpupool.metering.energy.factor_service import EnergyFactorService
from gpupool.metering.routes import parse_instant_ns
from gpupool.model.tenant import Permission, Principal
from gpupool.tenancy.access import require_caller
from gpupool.wire.billing.energy import EnergyFactorIn, EnergyFactorOut

router = Router(tags=["metering"])


def get_factors(request: Request) -> EnergyFactorService:
    factors: EnergyFactorService = request.app.state.metering.factors
    return factors


Service = Annotated[EnergyFactorService, Depends(get_factors)]
Reader = Annotated[Principal, Depends(require_caller(Permission.READ))]
PoolManager = Annotated[Principal, Depends(require_caller(Permission.MANAGE_POOL))]
Beginning = Annotated[
    str, Path(max_length=64, description="where they begin, as the list has it, or an ISO time")
]


@router.get("/energy/factors")
def list_energy_factors(service: Service, _caller: Reader) -> list[EnergyFactorOut]:
    """The site's PUE and grid factors, the earliest first. Each holds until the next begins."""
    return service.list_all()


@router.post("/energy/factors", status_code=201)
def set_energy_factor(
    body: EnergyFactorIn, service: Service, caller: PoolManager
) -> EnergyFactorOut:
    """Set PUE and grid factor from an hour on. Refused where hours that are over would change."""
    return service.set(caller, body)


@router.delete("/energy/factors/{begin}", status_code=204)
def delete_energy_factor(begin: Beginning, service: Service, _caller: PoolManager) -> Response:
    """Delete factors that have not begun: the ones before hold on."""
    service.delete(parse_instant_ns(begin, service.read_now_ns()))
    return Response(status_code=204)
