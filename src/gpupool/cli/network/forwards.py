"""The verbs of `gpupool network` for port forwards."""

from __future__ import annotations

import argparse
import sys

from gpupool.cli.network.objects import (
    add_network,
    build_path,
    create_part,
    delete_part,
    list_parts,
)
from gpupool.terminal.context import CommandContext
from gpupool.terminal.listing import describe_instant
from gpupool.terminal.output import TableColumn, print_data, print_list
from gpupool.terminal.parser import OBJECT_FORMATS, CommandParser, add_output, integer_within

_KIND = "port-forwards"


def register_forwards(parser: CommandParser) -> None:
    """Add the verbs."""
    create = parser.add_verb("forward-create", "let a port of the pool's machine lead to a job")
    delete = parser.add_verb("forward-delete", "delete a port forward")
    listing = parser.add_verb("forward-list", "port forwards of a network")
    add_network(create, delete, listing, text="the network; it needs a gateway")
    create.add_argument("target", metavar="TARGET", help="a job, an array or a load balancer")
    create.add_argument(
        "--target-port",
        required=True,
        type=integer_within("--target-port", "a port", 1, 65535),
        metavar="PORT",
        help="on which it serves",
    )
    create.add_argument(
        "--port",
        type=integer_within("--port", "a port", 1, 65535),
        metavar="PORT",
        help="of the machine (default: a free one of those for tenants)",
    )
    create.add_argument("--protocol", choices=("tcp", "udp"), default="tcp", help="default: tcp")
    delete.add_argument("forward", metavar="FORWARD", help="id of the forward")
    add_output(create, OBJECT_FORMATS)
    add_output(listing)


def _create_forward(options: argparse.Namespace, context: CommandContext) -> int:
    body = {
        "protocol": options.protocol,
        "port": options.port,
        "target": options.target,
        "target_port": options.target_port,
    }
    made = create_part(options, context, build_path(options, _KIND), body)
    if options.output != "table":
        print_data(made, options.output)
        return 0
    sys.stdout.write(
        f"{made['id']}: {made['protocol']} port {made['port']} of the pool's machine leads to "
        f"{made['target']}:{made['target_port']}\n"
    )
    return 0


def _delete_forward(options: argparse.Namespace, context: CommandContext) -> int:
    delete_part(options, context, build_path(options, _KIND, forward=options.forward))
    sys.stdout.write(f"{options.forward} deleted\n")
    return 0


def _list_forwards(options: argparse.Namespace, context: CommandContext) -> int:
    forwards = list_parts(options, context, build_path(options, _KIND))
    print_list(forwards, COLUMNS, options.output, empty="no port forwards")
    return 0


COLUMNS = (
    TableColumn("FORWARD", lambda row: row["id"]),
    TableColumn("PORT", lambda row: f"{row['port']}/{row['protocol']}"),
    TableColumn("TARGET", lambda row: f"{row['target']}:{row['target_port']}"),
    TableColumn("CREATED", lambda row: describe_instant(row["created_ns"]), wide=True),
)
FORWARD_VERBS = {
    "forward-create": _create_forward,
    "forward-delete": _delete_forward,
    "forward-list": _list_forwards,
}
