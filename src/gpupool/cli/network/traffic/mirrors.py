"""The verbs of `gpupool network` for mirrors."""

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
from gpupool.terminal.output import TableColumn, print_data, print_list
from gpupool.terminal.parser import OBJECT_FORMATS, CommandParser, add_output

_KIND = "mirrors"


def register_mirrors(parser: CommandParser) -> None:
    """Add the verbs."""
    create = parser.add_verb("mirror-create", "copy the packets of a running job to another job")
    delete = parser.add_verb("mirror-delete", "delete a mirror")
    listing = parser.add_verb("mirror-list", "mirrors of a network, and what they have copied")
    add_network(create, delete, listing)
    for verb in (create, delete):
        verb.add_argument("mirror", metavar="MIRROR", help="its name, also of the interface")
    create.add_argument(
        "--from", dest="source", required=True, metavar="JOB", help="job whose packets are copied"
    )
    create.add_argument(
        "--to", dest="target", required=True, metavar="JOB", help="job that gets the copies"
    )
    create.add_argument(
        "--direction",
        choices=("both", "in", "out"),
        default="both",
        help="packets to the job, from it, or both (default: both)",
    )
    add_output(create, OBJECT_FORMATS)
    add_output(listing)


def _create_mirror(options: argparse.Namespace, context: CommandContext) -> int:
    body = {
        "name": options.mirror,
        "source": options.source,
        "target": options.target,
        "direction": options.direction,
    }
    made = create_part(options, context, build_path(options, _KIND), body)
    if options.output != "table":
        print_data(made, options.output)
        return 0
    sys.stdout.write(
        f"{made['name']}: packets of {made['source']} are copied to interface {made['name']} of "
        f"{made['target']}, until one of the two jobs ends\n"
    )
    return 0


def _delete_mirror(options: argparse.Namespace, context: CommandContext) -> int:
    delete_part(options, context, build_path(options, _KIND, mirror=options.mirror))
    sys.stdout.write(f"{options.mirror} deleted\n")
    return 0


def _list_mirrors(options: argparse.Namespace, context: CommandContext) -> int:
    mirrors = list_parts(options, context, build_path(options, _KIND))
    print_list(mirrors, COLUMNS, options.output, empty="no mirrors")
    return 0


COLUMNS = (
    TableColumn("NAME", lambda row: row["name"]),
    TableColumn("FROM", lambda row: row["source"]),
    TableColumn("TO", lambda row: row["target"]),
    TableColumn("DIRECTION", lambda row: row["direction"]),
    TableColumn("STATE", lambda row: row["state"]),
    TableColumn("PACKETS", lambda row: row["packets"]),
    TableColumn("REASON", lambda row: row["reason"] or "--"),
)
MIRROR_VERBS = {
    "mirror-create": _create_mirror,
    "mirror-delete": _delete_mirror,
    "mirror-list": _list_mirrors,
}
