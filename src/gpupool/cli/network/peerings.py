"""The verbs of `gpupool network` for peerings."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from gpupool.cli.network.objects import (
    add_network,
    build_path,
    create_part,
    delete_part,
    list_parts,
)
from gpupool.terminal.context import CommandContext, print_notice
from gpupool.terminal.listing import describe_instant
from gpupool.terminal.output import Row, TableColumn, print_data, print_list
from gpupool.terminal.parser import OBJECT_FORMATS, CommandParser, add_output

_KIND = "peerings"


def register_peerings(parser: CommandParser) -> None:
    """Add the verbs."""
    request = parser.add_verb("peering-request", "ask the owner of another network for a peering")
    accept = parser.add_verb("peering-accept", "accept a peering that your network is asked for")
    revoke = parser.add_verb("peering-revoke", "end a peering, or a request for one")
    listing = parser.add_verb("peering-list", "peerings of a network, and requests")
    add_network(request, accept, revoke, listing, text="your network")
    request.add_argument("other", metavar="ID", help="id of the other network, from its owner")
    for verb in (accept, revoke):
        verb.add_argument("peering", metavar="PEERING", help="id of the peering")
    for verb in (request, accept):
        add_output(verb, OBJECT_FORMATS)
    add_output(listing)


def _request_peering(options: argparse.Namespace, context: CommandContext) -> int:
    path = build_path(options, _KIND)
    made = create_part(options, context, path, {"accepter": options.other})
    if options.output != "table":
        print_data(made, options.output)
        return 0
    sys.stdout.write(f"{made['id']}\n")
    print_notice(f"the other owner accepts with  gpupool network peering-accept NAME {made['id']}")
    return 0


def _accept_peering(options: argparse.Namespace, context: CommandContext) -> int:
    path = f"{build_path(options, _KIND, peering=options.peering)}/accept"
    peering = context.api.request("POST", path, query={"tenant": options.tenant})
    if options.output != "table":
        print_data(peering, options.output)
        return 0
    prefixes = ", ".join(peering["other_prefixes"])
    other = f"{peering['other_tenant']}/{peering['other_name']}"
    sys.stdout.write(f"{peering['id']}: {peering['network']} reaches {other} ({prefixes})\n")
    return 0


def _revoke_peering(options: argparse.Namespace, context: CommandContext) -> int:
    delete_part(options, context, build_path(options, _KIND, peering=options.peering))
    sys.stdout.write(f"{options.peering} revoked\n")
    return 0


def _list_peerings(options: argparse.Namespace, context: CommandContext) -> int:
    peerings = list_parts(options, context, build_path(options, _KIND))
    print_list(peerings, COLUMNS, options.output, empty="no peerings")
    return 0


def _describe_other(row: Row) -> str:
    if row["other_name"] is None:
        return str(row["other"])
    return f"{row['other_tenant']}/{row['other_name']}"


def _describe_state(row: Row) -> str:
    if row["state"] == "accepted":
        return "accepted"
    return "waits for its owner" if row["is_requester"] else "waits for you"


def _list_prefixes(row: Row) -> Any:
    return ", ".join(row["other_prefixes"]) or None


def _list_new(row: Row) -> Any:
    # An older server has none.
    return ", ".join(row.get("other_new_prefixes", ())) or None


def _list_own_new(row: Row) -> Any:
    return ", ".join(row.get("own_new_prefixes", ())) or None


COLUMNS = (
    TableColumn("PEERING", lambda row: row["id"]),
    TableColumn("WITH", _describe_other),
    TableColumn("STATE", _describe_state),
    TableColumn("PREFIXES", _list_prefixes),
    TableColumn("NEW", _list_new),
    TableColumn("NOT ACCEPTED", _list_own_new, wide=True),
    TableColumn("ASKED", lambda row: describe_instant(row["created_ns"]), wide=True),
)
PEERING_VERBS = {
    "peering-request": _request_peering,
    "peering-accept": _accept_peering,
    "peering-revoke": _revoke_peering,
    "peering-list": _list_peerings,
}
