"""What a template makes of the values of one use. Writes nothing."""

from __future__ import annotations

import shlex
from typing import Any, Final

import sqlalchemy as sa

from gpupool.allocations.views.request_text import format_command, format_manifest
from gpupool.base.errors import NoPermission, TemplateDisabled, UnknownTemplate
from gpupool.base.ids import check_name, new_id
from gpupool.model.tenant import DEFAULT_PROJECT, Principal
from gpupool.network.planes.node_gate import find_default_network
from gpupool.network.ports import NO_NETWORK
from gpupool.templates.lookup import Template, allows_user, find_template, read_groups
from gpupool.templates.rendering import Rendering, fill_follow, render_job
from gpupool.templates.values import FieldFault, check_values, refuse_faults
from gpupool.tenancy.service import TenancyService
from gpupool.wire.submissions import JobIn
from gpupool.wire.templates.documents import TemplateIn
from gpupool.wire.templates.uses import RenderOut, TemplateBalancerOut, TemplateUse

#: Variables that a command line can show; a long sweep has hundreds.
_MOST_VARIABLES: Final = 24
#: The port of an HTTP load balancer.
_HTTP_PORT: Final = 80
OUTSIDE_LISTEN: Final = "127.0.0.1"
NETWORK_LISTEN: Final = "0.0.0.0"  # inside a network of the tenant alone


def render_use(
    connection: sa.Connection,
    tenancy: TenancyService,
    caller: Principal,
    name: str,
    use: TemplateUse,
) -> RenderOut:
    """Return the request that a template makes of the values, and what belongs to it.

    Raises:
        UnknownTemplate: There is no such template or version.
        TemplateDisabled: An admin disabled it.
        BadTemplateValue: Values are wrong; `details` names the fields.
        NoPermission: It is for other projects.
    """
    template = find_template(connection, caller, name, use.owner)
    document = template.find_document(use.version)
    check_use(connection, caller, template, document, use)
    tenant = tenancy.resolve_tenant(connection, caller, use.tenant)
    values = check_values(document.fields, use.values, name)
    job_name = check_name(use.name or f"{name[:50]}-{new_id('j')[-4:]}", "job name")
    made = render_job(document, values, use, job_name, OUTSIDE_LISTEN)
    network = find_network(connection, tenant.id, made.job)
    if network is not None:
        made = render_job(document, values, use, job_name, NETWORK_LISTEN)
    elif made.port is not None and (made.job.array or 1) > 1:
        # They could be on one machine, where one of them has the port.
        named = made.count_field or "array"
        problem = f"got {made.job.array} jobs that serve on one port, and they join no network"
        refuse_faults([FieldFault(named, problem, made.job.array, "")], name)
    balancer = _make_balancer(made, job_name, network)
    return RenderOut(
        template=name,
        version=document.version,
        values=values,
        job=made.job.model_dump(mode="json"),
        command=_format_command(made),
        manifest=format_manifest(_strip_surroundings(made)),
        port=None if made.port is None else made.port.number,
        balancer=balancer,
        follow=[
            *_list_port_lines(made, job_name, balancer),
            *fill_follow(document, values, job_name),
        ],
        programs=document.programs,
    )


def check_use(
    connection: sa.Connection,
    caller: Principal,
    template: Template,
    document: TemplateIn,
    use: TemplateUse,
) -> None:
    if not template.enabled:
        raise TemplateDisabled(
            f"template {template.name} is disabled",
            hint="gpupool template list  shows others; an admin enables it",
        )
    # An older version may be for fewer people than the default one, by which it was found.
    if not caller.sees_all and not allows_user(
        document.users, caller, read_groups(connection, caller)
    ):
        raise UnknownTemplate(
            f"there is no template {template.name!r}", hint="gpupool template list"
        )
    project = use.project or caller.project or DEFAULT_PROJECT
    if document.users.projects and project not in document.users.projects:
        raise NoPermission(
            f"template {template.name} is for other projects than {project}",
            hint=f"name one of: {', '.join(document.users.projects)}",
        )


def find_network(connection: sa.Connection, tenant_id: int, job: JobIn) -> str | None:
    """Return the network that the jobs will join; None: none."""
    if job.launch.network is None:
        return find_default_network(connection, tenant_id)
    name = job.launch.network.name
    return None if name == NO_NETWORK else name


def _make_balancer(made: Rendering, name: str, network: str | None) -> TemplateBalancerOut | None:
    port = made.port
    if port is None or network is None:
        return None
    body: dict[str, Any] = {
        # Not the job's own name, by which its network finds the job.
        "name": f"{name[:60]}-lb",
        "port": _HTTP_PORT if port.is_http else port.number,
        "target_port": port.number,
        "backends": [name],
    }
    if port.is_http:
        body["http"] = {"check_path": port.health}
    return TemplateBalancerOut(network=network, body=body)


def _list_port_lines(made: Rendering, name: str, balancer: TemplateBalancerOut | None) -> list[str]:
    if made.port is None:
        return []
    if balancer is None:
        return [f"gpupool port-forward {name} {made.port.number}"]
    words = ["gpupool", "network", "lb-create", balancer.network, balancer.body["name"]]
    words += ["--backend", name, "--target-port", str(made.port.number)]
    if made.port.is_http:
        words.append("--http")
        words += ["--check-path", made.port.health] if made.port.health else []
    else:
        words += ["--port", str(made.port.number)]
    return [shlex.join(words)]


def _strip_surroundings(made: Rendering) -> JobIn:
    """Return the request without the variables of the caller's shell."""
    launch = made.job.launch.model_copy(update={"env": dict(made.variables)})
    return made.job.model_copy(update={"launch": launch})


def _format_command(made: Rendering) -> str | None:
    """Format the command line. Variables of the template stand before it: the rest is the shell's."""
    line = format_command(_strip_surroundings(made))
    if line is None or made.job.launch.container is not None:
        return line
    if len(made.variables) > _MOST_VARIABLES:
        return None
    words = [f"{name}={value}" for name, value in made.variables.items()]
    return f"{shlex.join(['env', *words])} {line}"
