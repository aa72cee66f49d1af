"""The verbs of `gpupool network` for the firewall at the boundary of the pool."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from gpupool.base.errors import BadInput
from gpupool.terminal.context import CommandContext
from gpupool.terminal.listing import describe_instant
from gpupool.terminal.output import Row, TableColumn, print_data, print_list
from gpupool.terminal.parser import OBJECT_FORMATS, CommandParser, add_output, integer_within
from gpupool.terminal.references import quote_segment

_PATH = "network-firewall"


def register_firewall(parser: CommandParser) -> None:
    """Add the verbs."""
    create = parser.add_verb("firewall-create", "a rule for what gateways pass (admins)")
    create.add_argument("action", choices=("allow", "deny"), help="what it does")
    create.add_argument(
        "prefix", metavar="PREFIX", help="addresses outside, e.g. 10.0.0.0/8; 0.0.0.0/0: all"
    )
    create.add_argument(
        "--direction",
        choices=("out", "in"),
        default="out",
        help="connections that jobs open, or through port forwards (default: out)",
    )
    create.add_argument(
        "--protocol", choices=("any", "tcp", "udp", "icmp"), default="any", help="default: any"
    )
    create.add_argument(
        "--ports", metavar="PORT[-PORT]", help="of the server; of the machine with --direction in"
    )
    create.add_argument("--network", metavar="NAME", help="of one network (default: of all)")
    create.add_argument("--tenant", metavar="TENANT", help="of the network (default: yours)")
    create.add_argument(
        "--number",
        type=integer_within("--number", "a number of a rule", 1, 9999),
        metavar="N",
        help="the matching rule with the lowest number decides (default: behind the others)",
    )
    delete = parser.add_verb("firewall-delete", "delete a rule (admins)")
    delete.add_argument("rule", metavar="RULE", help="id of the rule")
    listing = parser.add_verb("firewall-list", "rules for what gateways pass, in their order")
    add_output(create, OBJECT_FORMATS)
    add_output(listing)


def _create_rule(options: argparse.Namespace, context: CommandContext) -> int:
    first, last = _parse_ports(options.ports)
    body = {
        "action": options.action,
        "direction": options.direction,
        "prefix": options.prefix,
        "protocol": options.protocol,
        "first_port": first,
        "last_port": last,
        "network": options.network,
        "tenant": options.tenant,
        "number": options.number,
    }
    made: dict[str, Any] = context.api.request(
        "POST", _PATH, body, idempotency_key=os.urandom(16).hex()
    )
    if options.output != "table":
        print_data(made, options.output)
        return 0
    sys.stdout.write(f"{made['id']}: {made['number']}: {_describe(made)}\n")
    return 0


def _parse_ports(text: str | None) -> tuple[int | None, int | None]:
    if text is None:
        return None, None
    first, dash, last = text.partition("-")
    if not (first.isdecimal() and (last.isdecimal() if dash else not last)):
        raise BadInput(f"--ports {text[:40]!r} is no port and no range", hint="--ports 80-443")
    return int(first), int(last) if dash else None


def _delete_rule(options: argparse.Namespace, context: CommandContext) -> int:
    context.api.request("DELETE", f"{_PATH}/{quote_segment(options.rule, 'rule')}")
    sys.stdout.write(f"{options.rule} deleted\n")
    return 0


def _list_rules(options: argparse.Namespace, context: CommandContext) -> int:
    rules: list[Any] = context.api.request("GET", _PATH)
    print_list(rules, COLUMNS, options.output, empty="no rules: gateways pass what jobs open")
    return 0


def _describe(row: Row) -> str:
    way = "to" if row["direction"] == "out" else "from"
    return f"{row['action']} {_format_traffic(row)} {way} {row['prefix']}, {_format_scope(row)}"


def _format_traffic(row: Row) -> str:
    if row["first_port"] is None:
        return str(row["protocol"])
    ports = str(row["first_port"])
    if row["last_port"] != row["first_port"]:
        ports += f"-{row['last_port']}"
    return f"{row['protocol']} {ports}"


def _format_scope(row: Row) -> str:
    return "every network" if row["network"] is None else f"{row['tenant']}/{row['network']}"


COLUMNS = (
    TableColumn("NUMBER", lambda row: str(row["number"]), right=True),
    TableColumn("RULE", lambda row: row["id"]),
    TableColumn("ACTION", lambda row: row["action"]),
    TableColumn("DIRECTION", lambda row: row["direction"]),
    TableColumn("OUTSIDE", lambda row: row["prefix"]),
    TableColumn("TRAFFIC", _format_traffic),
    TableColumn("NETWORK", _format_scope),
    TableColumn("CREATED", lambda row: describe_instant(row["created_ns"]), wide=True),
)
FIREWALL_VERBS = {
    "firewall-create": _create_rule,
    "firewall-delete": _delete_rule,
    "firewall-list": _list_rules,
}
