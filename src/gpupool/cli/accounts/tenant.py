"""`gpupool tenant`: create, list, show and delete tenants."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from gpupool.base.ids import check_name
from gpupool.base.units import format_gpu
from gpupool.cli.accounts.quota import quota_facts
from gpupool.cli.accounts.quota_limits import OPTIONS as QUOTA_OPTIONS
from gpupool.cli.accounts.quota_limits import add_limits, read_limit
from gpupool.terminal.confirm import confirm_plan
from gpupool.terminal.context import CommandContext
from gpupool.terminal.listing import (
    add_limit,
    describe_instant,
    describe_limit,
    describe_memory,
    describe_memory_limit,
    show_list,
)
from gpupool.terminal.output import TableColumn, format_pairs, print_data
from gpupool.terminal.parser import OBJECT_FORMATS, CommandParser, add_output, add_yes
from gpupool.terminal.references import quote_segment


def register(parser: CommandParser) -> None:
    parser.about = (
        "Tenants own projects and users; every quota and every line of the books belongs to one."
    )
    parser.examples = [
        "gpupool tenant create team-nlp --gpus 2 --borrow-gpus 1",
        "gpupool tenant list",
        "gpupool tenant delete team-nlp",
    ]
    parser.add_verbs()
    create = parser.add_verb("create", "add a tenant; without limits unless some are given")
    create.add_argument("tenant", metavar="TENANT", help="its name")
    add_limits(create)
    listing = parser.add_verb("list", "every tenant you may see")
    add_limit(listing)
    add_output(listing)
    show = parser.add_verb("show", "one tenant")
    show.add_argument("tenant", metavar="TENANT", help="which")
    add_output(show, OBJECT_FORMATS)
    delete = parser.add_verb(
        "delete", "delete a tenant; refused while it has users, live jobs or reservations"
    )
    delete.add_argument("tenant", metavar="TENANT", help="which")
    add_yes(delete)


def run(options: argparse.Namespace, context: CommandContext) -> int:
    return int(_VERBS[options.verb](options, context))


def _create_tenant(options: argparse.Namespace, context: CommandContext) -> int:
    given = {dest: getattr(options, dest) for _, dest, _ in QUOTA_OPTIONS}
    # Checked here too: a wrong name is told without a request, and without a pool.
    body: dict[str, Any] = {"name": check_name(options.tenant, "tenant")}
    # What is not typed is left out and not sent as null, which would mean no limit.
    limits = {dest: read_limit(dest, text) for dest, text in given.items() if text is not None}
    if limits:
        body["quota"] = limits
    _print_tenant(context.api.request("POST", "tenants", body))
    return 0


def _list_tenants(options: argparse.Namespace, context: CommandContext) -> int:
    return show_list(
        context,
        "tenants",
        {},
        COLUMNS,
        options.output,
        limit=options.limit,
        wire=_wire_model,
        empty="no tenants",
    )


def _show_tenant(options: argparse.Namespace, context: CommandContext) -> int:
    tenant = context.api.request("GET", f"tenants/{quote_segment(options.tenant, 'tenant')}")
    if options.output != "table":
        print_data(tenant, options.output)
    else:
        _print_tenant(tenant)
    return 0


def _delete_tenant(options: argparse.Namespace, context: CommandContext) -> int:
    path = f"tenants/{quote_segment(options.tenant, 'tenant')}"
    # Read first: an unknown tenant is refused before the question, and the plan has its exact name.
    tenant = context.api.request("GET", path)
    confirm_plan([f"delete tenant {tenant['name']} (the books keep what it used)"], yes=options.yes)
    context.api.request("DELETE", path)
    sys.stdout.write(f"{tenant['name']} deleted\n")
    return 0


def _wire_model() -> Any:
    from gpupool.wire.people import TenantOut

    return TenantOut


def _print_tenant(tenant: dict[str, Any]) -> None:
    facts: list[tuple[str, object]] = [
        ("tenant", tenant["name"]),
        ("users", tenant["users"]),
        ("projects", ", ".join(tenant["projects"])),
        ("created", describe_instant(tenant["created_ns"])),
    ]
    sys.stdout.write(format_pairs([*facts, *quota_facts(tenant["quota"])]) + "\n")


COLUMNS = (
    TableColumn("TENANT", lambda row: row["name"]),
    TableColumn("USERS", lambda row: row["users"], right=True),
    TableColumn("HOLDS", lambda row: f"{format_gpu(row['quota']['held_milli'])} GPU", right=True),
    TableColumn(
        "GUARANTEED", lambda row: describe_limit(row["quota"]["nominal_milli"]), right=True
    ),
    TableColumn("AT MOST", lambda row: describe_limit(row["quota"]["maximum_milli"]), right=True),
    TableColumn(
        "HOLDS MEMORY", lambda row: describe_memory(row["quota"]["held_memory_bytes"]), right=True
    ),
    TableColumn(
        "AT MOST MEMORY",
        lambda row: describe_memory_limit(row["quota"]["maximum_memory_bytes"]),
        right=True,
    ),
    TableColumn("PROJECTS", lambda row: ", ".join(row["projects"]), wide=True),
    TableColumn("CREATED", lambda row: describe_instant(row["created_ns"]), wide=True),
)
_VERBS = {
    "create": _create_tenant,
    "list": _list_tenants,
    "show": _show_tenant,
    "delete": _delete_tenant,
}
