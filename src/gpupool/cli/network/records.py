"""The verbs of `gpupool network` for DNS records."""

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
from gpupool.terminal.parser import OBJECT_FORMATS, CommandParser, add_output

_KIND = "dns-records"


def register_records(parser: CommandParser) -> None:
    """Add the verbs."""
    create = parser.add_verb("dns-add", "let a name of a network have an address")
    delete = parser.add_verb("dns-delete", "delete a DNS record")
    listing = parser.add_verb("dns-list", "DNS records of a network, without the names of jobs")
    add_network(create, delete, listing)
    for verb in (create, delete):
        verb.add_argument("host", metavar="HOST", help="the name, without the network's domain")
        verb.add_argument("address", metavar="ADDRESS", help="IPv4 address, inside or outside")
    add_output(create, OBJECT_FORMATS)
    add_output(listing)


def _add_record(options: argparse.Namespace, context: CommandContext) -> int:
    body = {"name": options.host, "address": options.address}
    made = create_part(options, context, build_path(options, _KIND), body)
    if options.output != "table":
        print_data(made, options.output)
        return 0
    sys.stdout.write(f"{made['long_name']} has the address {made['address']}\n")
    return 0


def _delete_record(options: argparse.Namespace, context: CommandContext) -> int:
    path = build_path(options, _KIND, name=options.host, address=options.address)
    delete_part(options, context, path)
    sys.stdout.write(f"{options.host} {options.address} deleted\n")
    return 0


def _list_records(options: argparse.Namespace, context: CommandContext) -> int:
    records = list_parts(options, context, build_path(options, _KIND))
    print_list(records, COLUMNS, options.output, empty="no DNS records")
    return 0


COLUMNS = (
    TableColumn("NAME", lambda row: row["name"]),
    TableColumn("ADDRESS", lambda row: row["address"]),
    TableColumn("LONG NAME", lambda row: row["long_name"]),
    TableColumn("CREATED", lambda row: describe_instant(row["created_ns"]), wide=True),
)
RECORD_VERBS = {
    "dns-add": _add_record,
    "dns-delete": _delete_record,
    "dns-list": _list_records,
}
