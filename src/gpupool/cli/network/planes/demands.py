"""The verbs of `gpupool network` for the planes of a tenant."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from gpupool.cli.network.planes.texts import PLANE_COLUMNS, STATE_COLUMNS, describe_plane
from gpupool.terminal.confirm import confirm_plan
from gpupool.terminal.context import CommandContext
from gpupool.terminal.output import format_table, print_data, print_list
from gpupool.terminal.parser import (
    OBJECT_FORMATS,
    CommandParser,
    add_output,
    add_yes,
    integer_within,
)

_PLANES = ("ethernet", "roce", "infiniband", "storage", "management")


def register_planes(parser: CommandParser) -> None:
    """Add the verbs."""
    demand = parser.add_verb("plane-demand", "get nodes only where a plane is in force")
    release = parser.add_verb("plane-release", "end a demand; nodes of the tenant go back")
    show = parser.add_verb("plane-show", "a plane that is demanded, on each node")
    for verb in (demand, release, show):
        verb.add_argument("plane", choices=_PLANES, help="which network of the nodes")
    listing = parser.add_verb(
        "plane-list", "planes that are demanded, and whether they are in force"
    )
    giving = parser.add_verb("plane-nodes", "the nodes that a tenant alone gets")
    giving.add_argument(
        "nodes", metavar="NODE", nargs="*", help="these and no others (admins); none: show them"
    )
    giving.add_argument("--none", action="store_true", help="take all of them back (admins)")
    for verb in (demand, release, show, listing, giving):
        verb.add_argument("--tenant", metavar="TENANT", help="of another tenant (admins)")
    for name, words, most in (
        ("vlan", "of the RoCE plane", 4094),
        ("vni", "of the RoCE plane", 16777215),
        ("pkey", "partition key of InfiniBand", 0x7FFE),
    ):
        number = integer_within(f"--{name}", "a number", 1, most)
        demand.add_argument(
            f"--{name}", type=number, metavar="N", help=f"{words} (admins; default: a free one)"
        )
    add_output(demand, OBJECT_FORMATS)
    add_yes(release)
    add_output(show, OBJECT_FORMATS)
    add_output(listing)
    add_output(giving, OBJECT_FORMATS)


def _demand_plane(options: argparse.Namespace, context: CommandContext) -> int:
    body = {"vlan": options.vlan, "vni": options.vni, "pkey": options.pkey}
    plane: dict[str, Any] = context.api.request(
        "PUT", f"planes/{options.plane}", body, query={"tenant": options.tenant}
    )
    return _print_plane(options, plane)


def _release_plane(options: argparse.Namespace, context: CommandContext) -> int:
    path = f"planes/{options.plane}"
    # Read first: an unknown demand is refused before the question.
    plane = context.api.request("GET", path, query={"tenant": options.tenant})
    confirm_plan([f"release plane {plane['plane']} of {plane['tenant']}"], yes=options.yes)
    context.api.request("DELETE", path, query={"tenant": options.tenant})
    sys.stdout.write(f"{plane['plane']} released\n")
    return 0


def _show_plane(options: argparse.Namespace, context: CommandContext) -> int:
    path = f"planes/{options.plane}"
    return _print_plane(options, context.api.request("GET", path, query={"tenant": options.tenant}))


def _print_plane(options: argparse.Namespace, plane: dict[str, Any]) -> int:
    if options.output != "table":
        print_data(plane, options.output)
        return 0
    sys.stdout.write(describe_plane(plane) + "\n")
    if plane["nodes"]:
        sys.stdout.write("\n" + format_table(plane["nodes"], STATE_COLUMNS) + "\n")
    return 0


def _list_planes(options: argparse.Namespace, context: CommandContext) -> int:
    planes: list[Any] = context.api.request("GET", "planes", query={"tenant": options.tenant})
    print_list(planes, PLANE_COLUMNS, options.output, empty="no planes are demanded")
    return 0


def _set_nodes(options: argparse.Namespace, context: CommandContext) -> int:
    query = {"tenant": options.tenant}
    if options.nodes or options.none:
        body = {"nodes": options.nodes}
        found = context.api.request(
            "PUT", "plane-nodes", body, query=query, idempotency_key=os.urandom(16).hex()
        )
    else:
        found = context.api.request("GET", "plane-nodes", query=query)
    if options.output != "table":
        print_data(found, options.output)
        return 0
    sys.stdout.write(f"{found['tenant']}: {', '.join(found['nodes']) or 'no nodes'}\n")
    return 0


PLANE_VERBS = {
    "plane-demand": _demand_plane,
    "plane-release": _release_plane,
    "plane-show": _show_plane,
    "plane-list": _list_planes,
    "plane-nodes": _set_nodes,
}
