"""What is asked and answered of templates."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, model_validator

from gpupool.wire.common import Name, WireModel
from gpupool.wire.templates.documents import FieldName, FieldValue, TemplateIn, Words


class TemplateAdd(WireModel):
    template: TemplateIn
    tenant: Name | None = Field(
        None, description="for this tenant alone; null: for all, or the tenant of a tenant-admin"
    )


class TemplateChange(WireModel):
    """What is null stays."""

    enabled: bool | None = None
    default_version: int | None = Field(None, ge=1)

    @model_validator(mode="after")
    def _changes_something(self) -> TemplateChange:
        if self.enabled is None and self.default_version is None:
            raise ValueError("name enabled, default_version or both")
        return self


class TemplateRow(WireModel):
    name: str
    tenant: str | None = Field(description="null: for all tenants")
    summary: Words
    version: int = Field(description="that is used where none is named")
    versions: list[int]
    enabled: bool
    shipped: bool = Field(description="came with gpupool; it can be disabled, not removed")


class TemplateOut(TemplateRow):
    document: TemplateIn
    takes: dict[str, str] = Field(description="by field, what it takes, for people")


class TemplateVersionOut(WireModel):
    version: int
    is_default: bool
    shipped: bool
    created_ns: int | None = Field(None, description="null: it came with gpupool")
    user: str | None = Field(None, description="who added it")


class TemplateLaunchIn(WireModel):
    """What a caller's shell has; null or left out: as a new login would."""

    cwd: Annotated[str, Field(max_length=4096)] | None = None
    env: dict[
        Annotated[str, Field(min_length=1, max_length=4096)],
        Annotated[str, Field(max_length=131072)],
    ] = Field(default_factory=dict, max_length=8192)
    umask: int = Field(0o022, ge=0, le=0o777)
    limits: dict[Annotated[str, Field(max_length=32)], tuple[int, int]] = Field(
        default_factory=dict, max_length=32
    )


class TemplateUse(WireModel):
    """Values of the fields, and what belongs to one use of the template."""

    values: dict[FieldName, FieldValue] = Field(default_factory=dict, max_length=64)
    version: int | None = Field(None, ge=1, description="null: the default one")
    owner: Name | None = Field(
        None, description="tenant whose template it is; null: the caller's, else that of all"
    )
    name: str | None = Field(None, max_length=200, description="of the job; null: the template's")
    tenant: Name | None = Field(None, description="whose job it is; another tenant: admins only")
    project: Name | None = None
    priority: str | int = 0
    launch: TemplateLaunchIn | None = None


class TemplateBalancerOut(WireModel):
    """The load balancer that publishes the jobs: a body of POST /networks/NETWORK/load-balancers."""

    network: str
    body: dict[str, Any]


class RenderOut(WireModel):
    """The request that the template makes of the values. Nothing is written."""

    template: str
    version: int
    values: dict[str, FieldValue] = Field(description="of all fields, defaults too")
    job: dict[str, Any] = Field(
        description="a body of POST /jobs and of POST /jobs/preview: a JobIn"
    )
    command: str | None = Field(
        description="the same on the command line; null: a gang of several roles"
    )
    manifest: str = Field(description="the body as YAML")
    port: int | None = Field(None, description="that the jobs serve on; null: none")
    balancer: TemplateBalancerOut | None = Field(
        None, description="null: no port, or the jobs join no network"
    )
    follow: list[str] = Field(default_factory=list, description="commands to type next")
    programs: list[str] = Field(default_factory=list)
