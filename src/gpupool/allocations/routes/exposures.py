"""Routes of published ports of jobs, below /api/v1. Thin: parse, ask the service, answer."""

from __future__ import annotations

from fastapi import Response

from gpupool.allocations.routes.dependencies import Reader, Runner, Service
from gpupool.api.late_routes import Router
from gpupool.wire.network.load_balancers import ExposureIn, ExposureOut

router = Router(tags=["jobs"])


@router.get("/jobs/{job}/exposures")
def list_exposures(job: str, allocations: Service, caller: Reader) -> list[ExposureOut]:
    """Published ports of a job, with what is known of them now."""
    return allocations.exposures.list_exposures(job, caller)


@router.post("/jobs/{job}/exposures")
def create_exposure(
    job: str, body: ExposureIn, allocations: Service, caller: Runner
) -> ExposureOut:
    """Publish a port of a running job by a load balancer of its network. Idempotent."""
    return allocations.exposures.expose(job, body, caller)


@router.delete("/jobs/{job}/exposures/{port}", status_code=204)
def delete_exposure(job: str, port: str, allocations: Service, caller: Runner) -> Response:
    """Publish a port of a job no more."""
    allocations.exposures.unexpose(job, port, caller)
    return Response(status_code=204)
