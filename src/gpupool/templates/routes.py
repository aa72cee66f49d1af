"""Routes of templates, below /api/v1. Thin: parse, ask the service, answer."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from gpupool.allocations.routes.dependencies import Runner
from gpupool.allocations.routes.dependencies import Service as AllocationService
from gpupool.allocations.routes.submitting import submit_body
from gpupool.api.late_routes import Router
from gpupool.model.tenant import Permission, Principal
from gpupool.templates.service import TemplateService
from gpupool.tenancy.access import require_caller
from gpupool.wire.jobs import SubmittedOut
from gpupool.wire.submissions import JobIn
from gpupool.wire.templates.uses import (
    RenderOut,
    TemplateAdd,
    TemplateChange,
    TemplateOut,
    TemplateRow,
    TemplateUse,
    TemplateVersionOut,
)

router = Router(tags=["templates"])


def get_templates(request: Request) -> TemplateService:
    found: TemplateService = request.app.state.templates
    return found


Service = Annotated[TemplateService, Depends(get_templates)]
Reader = Annotated[Principal, Depends(require_caller(Permission.READ))]
Manager = Annotated[Principal, Depends(require_caller(Permission.MANAGE_TENANT))]
Owner = Annotated[
    str | None,
    Query(max_length=63, description="whose; default: the caller's tenant's, else that of all"),
]
Version = Annotated[int | None, Query(ge=1, description="default: the default one")]


@router.get("/templates")
def list_templates(service: Service, caller: Reader) -> list[TemplateRow]:
    """Templates that the caller may use: shipped ones, those of all tenants, those of its own."""
    return service.list_all(caller)


@router.post("/templates", status_code=201)
def add_template(service: Service, caller: Manager, body: TemplateAdd) -> TemplateOut:
    """Add a version of a template, which becomes the default one. A version never changes."""
    return service.add(caller, body)


@router.get("/templates/{template}")
def get_template(
    service: Service,
    caller: Reader,
    template: str,
    version: Version = None,
    tenant: Owner = None,
) -> TemplateOut:
    """One version of a template: its fields and the job that it makes."""
    return service.find(caller, template, version, tenant)


@router.patch("/templates/{template}")
def change_template(
    service: Service, caller: Manager, template: str, body: TemplateChange, tenant: Owner = None
) -> TemplateOut:
    """Enable or disable a template, or choose its default version."""
    return service.change(caller, template, body, tenant)


@router.delete("/templates/{template}", status_code=204)
def remove_template(
    service: Service,
    caller: Manager,
    template: str,
    version: Version = None,
    tenant: Owner = None,
) -> Response:
    """Remove a template, or one version of it. Jobs that it made go on."""
    service.remove(caller, template, version, tenant)
    return Response(status_code=204)


@router.get("/templates/{template}/versions")
def list_template_versions(
    service: Service, caller: Reader, template: str, tenant: Owner = None
) -> list[TemplateVersionOut]:
    """The versions of a template, the newest first."""
    return service.list_versions(caller, template, tenant)


@router.post("/templates/{template}/render")
def render_template(
    service: Service, caller: Reader, template: str, body: TemplateUse
) -> RenderOut:
    """The request that a template makes of the values: a body of `POST /jobs`. Writes nothing."""
    return service.render(caller, template, body)


@router.post("/templates/{template}/run", status_code=201)
async def run_template(
    request: Request,
    service: Service,
    allocations: AllocationService,
    caller: Runner,
    template: str,
    body: TemplateUse,
) -> SubmittedOut:
    """Render a template and submit what it makes, as `POST /jobs` does: one job, array or gang."""
    made = await run_in_threadpool(service.render, caller, template, body)
    return await submit_body(request, JobIn.model_validate(made.job), allocations, caller)
