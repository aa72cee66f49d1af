"""`gpupool project`: create and list the projects that a tenant's jobs are booked on."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from gpupool.base.ids import check_name
from gpupool.client.paging import iterate_items
from gpupool.terminal.context import CommandContext
from gpupool.terminal.output import TableColumn, print_list
from gpupool.terminal.parser import CommandParser, add_output
from gpupool.terminal.references import quote_segment


def register(parser: CommandParser) -> None:
    parser.about = """
    Usage of a job counts for a project of its tenant: `default`, or the one of --project. A tenant-admin creates
    projects for the own tenant, an admin for any. A job with an unknown project is refused, so a typing error never
    appears in reports.
    """
    parser.examples = [
        "gpupool project create thesis",
        "gpupool project create thesis --tenant team-nlp",
        "gpupool project list",
    ]
    parser.add_verbs()
    create = parser.add_verb("create", "add a project to a tenant")
    create.add_argument("project", metavar="PROJECT", help="its name")
    create.add_argument("--tenant", metavar="TENANT", help="whose (default: your own)")
    listing = parser.add_verb("list", "the projects of the tenants you may see")
    listing.add_argument("--tenant", metavar="TENANT", help="only this tenant's")
    add_output(listing)


def run(options: argparse.Namespace, context: CommandContext) -> int:
    return int(_VERBS[options.verb](options, context))


def _create_project(options: argparse.Namespace, context: CommandContext) -> int:
    body = {"name": check_name(options.project, "project")}
    # Asked for, because a tenant's name is part of the path: the client does not know its own.
    tenant = options.tenant or context.api.request("GET", "whoami")["tenant"]
    made = context.api.request("POST", f"tenants/{quote_segment(tenant, 'tenant')}/projects", body)
    sys.stdout.write(f"{made['name']} has the projects {', '.join(made['projects'])}\n")
    return 0


def _list_projects(options: argparse.Namespace, context: CommandContext) -> int:
    if options.tenant:
        tenants = [context.api.request("GET", f"tenants/{quote_segment(options.tenant, 'tenant')}")]
    else:
        tenants = list(iterate_items(context.api, "tenants", {}))
    rows: list[dict[str, Any]] = []
    for tenant in tenants:
        rows += [{"tenant": tenant["name"], "project": name} for name in tenant["projects"]]
    fields = ["tenant", "project"]
    print_list(
        rows,
        COLUMNS,
        options.output,
        fields=lambda: fields,
        empty="no projects",
        color=context.color,
    )
    return 0


COLUMNS = (
    TableColumn("TENANT", lambda row: row["tenant"]),
    TableColumn("PROJECT", lambda row: row["project"]),
)
#: By verb, as `register` names them.
_VERBS = {"create": _create_project, "list": _list_projects}
