"""`gpupool tenant`: create, list, show and delete tenants."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from gpupool.base.ids import check_name
from gpupool.base.units import format_gpu
from gpupool.cli.confirm import confirm
from gpupool.cli.context import Context
from gpupool.cli.listing import add_limit, instant, limit_of, memory_limit, mib, show_list
from gpupool.cli.output import Column, pairs, print_data
from gpupool.cli.parser import OBJECT_FORMATS, Parser, add_output, add_yes
from gpupool.cli.quota import quota_facts
from gpupool.cli.quota_limits import OPTIONS as QUOTA_OPTIONS
from gpupool.cli.quota_limits import add_limits, read_limit
from gpupool.cli.references import segment


def register(parser: Parser) -> None:
    parser.about = "Tenants own projects and users; every quota and every line of the books belongs to one."
    parser.examples = [
        "gpupool tenant create team-nlp --gpus 2 --borrow-gpus 1",
        "gpupool tenant list",
        "gpupool tenant delete team-nlp",
    ]
    parser.group()
    create = parser.verb("create", "add a tenant; without limits unless some are given")
    create.add_argument("tenant", metavar="TENANT", help="its name")
    add_limits(create)
    listing = parser.verb("list", "every tenant you may see")
    add_limit(listing)
    add_output(listing)
    show = parser.verb("show", "one tenant")
    show.add_argument("tenant", metavar="TENANT", help="which")
    add_output(show, OBJECT_FORMATS)
    delete = parser.verb("delete", "take a tenant out; refused while it has users or live jobs")
    delete.add_argument("tenant", metavar="TENANT", help="which")
    add_yes(delete)


def run(options: argparse.Namespace, context: Context) -> int:
    return int(_VERBS[options.verb](options, context))


def _create(options: argparse.Namespace, context: Context) -> int:
    given = {dest: getattr(options, dest) for _, dest, _ in QUOTA_OPTIONS}
    body: dict[str, Any] = {"name": check_name(options.tenant, "tenant")}
    limits = {dest: read_limit(dest, text) for dest, text in given.items() if text is not None}
    if limits:
        body["quota"] = limits
    _print_tenant(context.api.request("POST", "tenants", body))
    return 0


def _list(options: argparse.Namespace, context: Context) -> int:
    return show_list(
        context, "tenants", {}, COLUMNS, options.output, limit=options.limit, wire=_wire, empty="no tenants"
    )


def _show(options: argparse.Namespace, context: Context) -> int:
    tenant = context.api.request("GET", f"tenants/{segment(options.tenant, 'tenant')}")
    if options.output != "table":
        print_data(tenant, options.output)
    else:
        _print_tenant(tenant)
    return 0


def _delete(options: argparse.Namespace, context: Context) -> int:
    path = f"tenants/{segment(options.tenant, 'tenant')}"
    tenant = context.api.request("GET", path)
    confirm([f"delete tenant {tenant['name']} (the books keep what it used)"], yes=options.yes)
    context.api.request("DELETE", path)
    sys.stdout.write(f"{tenant['name']} deleted\n")
    return 0


def _wire() -> Any:
    from gpupool.wire.people import TenantOut

    return TenantOut


def _print_tenant(tenant: dict[str, Any]) -> None:
    facts: list[tuple[str, object]] = [
        ("tenant", tenant["name"]),
        ("users", tenant["users"]),
        ("projects", ", ".join(tenant["projects"])),
        ("created", instant(tenant["created_ns"])),
    ]
    sys.stdout.write(pairs([*facts, *quota_facts(tenant["quota"])]) + "\n")


COLUMNS = (
    Column("TENANT", lambda row: row["name"]),
    Column("USERS", lambda row: row["users"], right=True),
    Column("HOLDS", lambda row: f"{format_gpu(row['quota']['held_milli'])} GPU", right=True),
    Column("GUARANTEED", lambda row: limit_of(row["quota"]["nominal_milli"]), right=True),
    Column("AT MOST", lambda row: limit_of(row["quota"]["maximum_milli"]), right=True),
    Column("HOLDS MEMORY", lambda row: mib(row["quota"]["held_memory_bytes"]), right=True),
    Column("AT MOST MEMORY", lambda row: memory_limit(row["quota"]["maximum_memory_bytes"]), right=True),
    Column("PROJECTS", lambda row: ", ".join(row["projects"]), wide=True),
    Column("CREATED", lambda row: instant(row["created_ns"]), wide=True),
)
_VERBS = {"create": _create, "list": _list, "show": _show, "delete": _delete}
