"""`gpupool network default`: the network that jobs of a tenant join when they name none."""

from __future__ import annotations

import argparse
import sys

from gpupool.terminal.context import CommandContext
from gpupool.terminal.output import print_data
from gpupool.terminal.parser import OBJECT_FORMATS, CommandParser, add_output
from gpupool.terminal.references import quote_segment


def register_default(parser: CommandParser) -> None:
    """Add the verb."""
    default = parser.add_verb(
        "default", "let jobs of the tenant that name no network join this one"
    )
    default.add_argument("name", metavar="NAME", help="the network")
    default.add_argument("--off", action="store_true", help="jobs that name none join none again")
    default.add_argument("--tenant", metavar="TENANT", help="of another tenant (admins)")
    add_output(default, OBJECT_FORMATS)


def set_default(options: argparse.Namespace, context: CommandContext) -> int:
    path = f"networks/{quote_segment(options.name, 'network')}/default"
    method = "DELETE" if options.off else "PUT"
    network = context.api.request(method, path, query={"tenant": options.tenant})
    if options.output != "table":
        print_data(network, options.output)
        return 0
    joined = f"join {network['name']}" if network["is_default"] else "join none"
    sys.stdout.write(f"jobs of {network['tenant']} that name no network {joined}\n")
    return 0
