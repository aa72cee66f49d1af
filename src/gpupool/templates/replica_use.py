"""The job that a template makes for a replica of a service. Writes nothing."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from gpupool.base.errors import BadService
from gpupool.model.tenant import Principal
from gpupool.templates.lookup import find_template
from gpupool.templates.references import list_references
from gpupool.templates.rendering import render_job
from gpupool.templates.uses import NETWORK_LISTEN, OUTSIDE_LISTEN, check_use, find_network
from gpupool.templates.values import check_values
from gpupool.tenancy.service import TenancyService
from gpupool.wire.submissions import JobIn
from gpupool.wire.templates.uses import TemplateUse


@dataclass(frozen=True)
class ReplicaRendering:
    """The job of a replica, without a name; its port is a text in the command."""

    job: JobIn
    version: int
    port: int
    health: str | None


def render_replica(
    connection: sa.Connection,
    tenancy: TenancyService,
    caller: Principal,
    name: str,
    use: TemplateUse,
    port_text: str,
) -> ReplicaRendering:
    """Return the job of a replica.

    Args:
        connection: To read the template.
        tenancy: Resolves the tenant.
        caller: The service's owner.
        name: Of the template.
        use: The values; the number of jobs is none of them.
        port_text: Stands for the replica's port in the command.

    Raises:
        BadService: The template serves no HTTP port, or the values name a number of jobs.
        GpupoolError: As `uses.render_use` does.
    """
    template = find_template(connection, caller, name, use.owner)
    document = template.find_document(use.version)
    check_use(connection, caller, template, document, use)
    tenant = tenancy.resolve_tenant(connection, caller, use.tenant)
    port = document.job.port
    if port is None or not port.is_http:
        raise BadService(
            f"template {name} serves no HTTP port",
            hint="gpupool template list;  vllm and triton do",
        )
    counts = list_references(str(document.job.array))
    for field in counts:
        if field in use.values:
            raise BadService(
                f"{field} is {use.values[field]}, and a service has --min and --max",
                hint=f"leave out --{field.replace('_', '-')}",
            )
    values = check_values(document.fields, use.values, name)
    values |= dict.fromkeys(counts, 1)
    texts = dict.fromkeys(list_references(str(port.number)), port_text)
    made = render_job(document, values, use, None, OUTSIDE_LISTEN, texts)
    if find_network(connection, tenant.id, made.job) is not None:
        made = render_job(document, values, use, None, NETWORK_LISTEN, texts)
    served = made.port
    if served is None or (made.job.array or 1) > 1:
        raise BadService(
            f"template {name} with these values is no single job with a port",
            hint=f"gpupool template show {name}",
        )
    return ReplicaRendering(made.job, document.version, served.number, served.health)
