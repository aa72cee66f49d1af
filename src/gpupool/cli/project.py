"""`gpupool project`: create and list the projects that a tenant's jobs are booked on."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from gpupool.base.ids import check_name
from gpupool.cli.context import Context
from gpupool.cli.output import Column, print_list
from gpupool.cli.parser import Parser, add_output
from gpupool.cli.references import segment
from gpupool.client.paging import every


def register(parser: Parser) -> None:
    parser.about = """
    Every job is booked on a project of its tenant: on `default`, or on the one that --project names. A project
    exists once it has been created, by a tenant-admin for the own tenant or by an admin for any; a job that names
    another one is refused, so that a typing error never becomes a line of the books.
    """
    parser.examples = [
        "gpupool project create thesis",
        "gpupool project create thesis --tenant team-nlp",
        "gpupool project list",
    ]
    parser.group()
    create = parser.verb("create", "add a project to a tenant")
    create.add_argument("project", metavar="PROJECT", help="its name")
    create.add_argument("--tenant", metavar="TENANT", help="whose (default: your own)")
    listing = parser.verb("list", "the projects of the tenants you may see")
    listing.add_argument("--tenant", metavar="TENANT", help="only this tenant's")
    add_output(listing)


def run(options: argparse.Namespace, context: Context) -> int:
    return int(_VERBS[options.verb](options, context))


def _create(options: argparse.Namespace, context: Context) -> int:
    body = {"name": check_name(options.project, "project")}
    tenant = options.tenant or context.api.request("GET", "whoami")["tenant"]
    made = context.api.request("POST", f"tenants/{segment(tenant, 'tenant')}/projects", body)
    sys.stdout.write(f"{made['name']} has the projects {', '.join(made['projects'])}\n")
    return 0


def _list(options: argparse.Namespace, context: Context) -> int:
    if options.tenant:
        tenants = [context.api.request("GET", f"tenants/{segment(options.tenant, 'tenant')}")]
    else:
        tenants = list(every(context.api, "tenants", {}))
    rows: list[dict[str, Any]] = []
    for tenant in tenants:
        rows += [{"tenant": tenant["name"], "project": name} for name in tenant["projects"]]
    fields = ["tenant", "project"]
    print_list(rows, COLUMNS, options.output, fields=lambda: fields, empty="no projects", color=context.color)
    return 0


COLUMNS = (Column("TENANT", lambda row: row["tenant"]), Column("PROJECT", lambda row: row["project"]))
_VERBS = {"create": _create, "list": _list}
