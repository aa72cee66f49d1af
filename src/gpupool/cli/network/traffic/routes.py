"""The verbs of `gpupool network` for route tables."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from gpupool.base.errors import UnknownNetwork
from gpupool.cli.network.objects import (
    add_network,
    build_path,
    create_part,
    delete_part,
    list_parts,
)
from gpupool.terminal.context import CommandContext
from gpupool.terminal.output import Row, TableColumn, print_data, print_list
from gpupool.terminal.parser import OBJECT_FORMATS, CommandParser, add_output

_KIND = "routes"


def register_routes(parser: CommandParser) -> None:
    """Add the verbs."""
    create = parser.add_verb("route-create", "lead packets for a prefix to a job, or discard them")
    delete = parser.add_verb("route-delete", "delete a static route")
    listing = parser.add_verb("route-list", "all routes of a network, and which one decides")
    add_network(create, delete, listing)
    create.add_argument("prefix", metavar="PREFIX", help="destinations, e.g. 172.20.0.0/16")
    target = create.add_mutually_exclusive_group(required=True)
    target.add_argument("--via", metavar="ADDRESS", help="address of the job that forwards them")
    target.add_argument("--discard", action="store_true", help="packets go nowhere")
    create.add_argument(
        "--forwards",
        action="append",
        default=[],
        metavar="PREFIX",
        help="senders besides the job itself whose packets it sends on (may be repeated)",
    )
    delete.add_argument("route", metavar="ROUTE", help="prefix or id of the route")
    for verb in (create, delete):
        verb.add_argument(
            "--subnet", metavar="SUBNET", help="for its packets alone (default: of every subnet)"
        )
    add_output(create, OBJECT_FORMATS)
    add_output(listing)


def _create_route(options: argparse.Namespace, context: CommandContext) -> int:
    body = {
        "prefix": options.prefix,
        "via": options.via,
        "discard": options.discard,
        "subnet": options.subnet,
        "forwards": options.forwards,
    }
    made = create_part(options, context, build_path(options, _KIND), body)
    if options.output != "table":
        print_data(made, options.output)
        return 0
    sys.stdout.write(f"{made['id']}: {_describe_target(made)}\n")
    if made["reason"]:
        sys.stdout.write(f"{made['reason']}\n")
    return 0


def _delete_route(options: argparse.Namespace, context: CommandContext) -> int:
    route = options.route
    if "/" in route:
        route = _find_id(list_parts(options, context, build_path(options, _KIND)), options)
    delete_part(options, context, build_path(options, _KIND, route=route))
    sys.stdout.write(f"{options.route} deleted\n")
    return 0


def _list_routes(options: argparse.Namespace, context: CommandContext) -> int:
    routes = list_parts(options, context, build_path(options, _KIND))
    print_list(routes, COLUMNS, options.output, empty="no routes")
    return 0


def _find_id(routes: list[Any], options: argparse.Namespace) -> str:
    """Find the id of the static route of a prefix. Raises UnknownNetwork."""
    for route in routes:
        wanted = (options.route, options.subnet, "static")
        if (route["prefix"], route["subnet"], route["kind"]) == wanted:
            return str(route["id"])
    scope = "" if options.subnet is None else f" for subnet {options.subnet}"
    raise UnknownNetwork(
        f"network {options.name} has no static route to {options.route}{scope}",
        hint=f"gpupool network route-list {options.name}",
    )


def _describe_target(route: Row) -> str:
    scope = "" if route["subnet"] is None else f" from subnet {route['subnet']}"
    if route["is_discarding"]:
        return f"packets{scope} to {route['prefix']} are discarded"
    return f"packets{scope} to {route['prefix']} go to {route['via']}"


def _describe_hop(route: Row) -> str:
    if route["is_discarding"]:
        return "discard"
    return route["via"] or "direct"


COLUMNS = (
    TableColumn("PREFIX", lambda row: row["prefix"]),
    TableColumn("NEXT HOP", _describe_hop),
    TableColumn("KIND", lambda row: row["kind"]),
    TableColumn("OF", lambda row: row["id"]),
    TableColumn("SUBNET", lambda row: row["subnet"] or "all"),
    TableColumn("ACTIVE", lambda row: "yes" if row["is_active"] else "no"),
    TableColumn("REASON", lambda row: row["reason"] or "--"),
    TableColumn("FORWARDS", lambda row: ", ".join(row["forwards"]) or "--", wide=True),
)
ROUTE_VERBS = {
    "route-create": _create_route,
    "route-delete": _delete_route,
    "route-list": _list_routes,
}
