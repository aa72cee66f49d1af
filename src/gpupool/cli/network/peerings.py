"""The verbs of `gpupool network` for peerings."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from gpupool.terminal.context import CommandContext, print_notice
from gpupool.terminal.listing import describe_instant
from gpupool.terminal.output import Row, TableColumn, print_data, print_list
from gpupool.terminal.parser import OBJECT_FORMATS, CommandParser, add_output
from gpupool.terminal.references import quote_segment


def register_peerings(parser: CommandParser) -> None:
    """Add the verbs."""
    request = parser.add_verb("peering-request", "ask the owner of another network for a peering")
    request.add_argument("name", metavar="NAME", help="your network")
    request.add_argument("other", metavar="ID", help="id of the other network, from its owner")
    accept = parser.add_verb("peering-accept", "accept a peering that your network is asked for")
    revoke = parser.add_verb("peering-revoke", "end a peering, or a request for one")
    listing = parser.add_verb("peering-list", "peerings of a network, and requests")
    for verb in (accept, revoke):
        verb.add_argument("name", metavar="NAME", help="your network")
        verb.add_argument("peering", metavar="PEERING", help="id of the peering")
    listing.add_argument("name", metavar="NAME", help="your network")
    for verb in (request, accept, revoke, listing):
        verb.add_argument("--tenant", metavar="TENANT", help="of another tenant (admins)")
    for verb in (request, accept):
        add_output(verb, OBJECT_FORMATS)
    add_output(listing)


def _path(options: argparse.Namespace) -> str:
    return f"networks/{quote_segment(options.name, 'network')}/peerings"


def _path_of_one(options: argparse.Namespace) -> str:
    return f"{_path(options)}/{quote_segment(options.peering, 'peering')}"


def _request_peering(options: argparse.Namespace, context: CommandContext) -> int:
    made = context.api.request(
        "POST",
        _path(options),
        {"accepter": options.other},
        query={"tenant": options.tenant},
        idempotency_key=os.urandom(16).hex(),
    )
    if options.output != "table":
        print_data(made, options.output)
        return 0
    sys.stdout.write(f"{made['id']}\n")
    print_notice(f"the other owner accepts with  gpupool network peering-accept NAME {made['id']}")
    return 0


def _accept_peering(options: argparse.Namespace, context: CommandContext) -> int:
    path = f"{_path_of_one(options)}/accept"
    peering = context.api.request("POST", path, query={"tenant": options.tenant})
    if options.output != "table":
        print_data(peering, options.output)
        return 0
    prefixes = ", ".join(peering["other_prefixes"])
    other = f"{peering['other_tenant']}/{peering['other_name']}"
    sys.stdout.write(f"{peering['id']}: {peering['network']} reaches {other} ({prefixes})\n")
    return 0


def _revoke_peering(options: argparse.Namespace, context: CommandContext) -> int:
    context.api.request("DELETE", _path_of_one(options), query={"tenant": options.tenant})
    sys.stdout.write(f"{options.peering} revoked\n")
    return 0


def _list_peerings(options: argparse.Namespace, context: CommandContext) -> int:
    peerings = context.api.request("GET", _path(options), query={"tenant": options.tenant})
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


COLUMNS = (
    TableColumn("PEERING", lambda row: row["id"]),
    TableColumn("WITH", _describe_other),
    TableColumn("STATE", _describe_state),
    TableColumn("PREFIXES", _list_prefixes),
    TableColumn("ASKED", lambda row: describe_instant(row["created_ns"]), wide=True),
)
PEERING_VERBS = {
    "peering-request": _request_peering,
    "peering-accept": _accept_peering,
    "peering-revoke": _revoke_peering,
    "peering-list": _list_peerings,
}
