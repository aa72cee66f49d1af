"""The verbs of `gpupool network` for security groups."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from gpupool.base.errors import BadOption
from gpupool.base.ids import check_name
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
from gpupool.terminal.references import quote_segment

_KIND = "security-groups"


def register_groups(parser: CommandParser) -> None:
    """Add the verbs."""
    create = parser.add_verb("group-create", "create a security group: only its members reach it")
    delete = parser.add_verb("group-delete", "delete a security group; refused while it is used")
    allow = parser.add_verb("group-allow", "let packets from outside reach a security group")
    revoke = parser.add_verb("group-revoke", "delete a rule of a security group")
    listing = parser.add_verb("group-list", "security groups of a network, with their rules")
    add_network(create, delete, allow, revoke, listing)
    for verb in (create, delete, allow, revoke):
        verb.add_argument("group", metavar="GROUP", help="the security group")
    allow.add_argument("traffic", metavar="TRAFFIC", help="tcp:22, udp:8000-8100, icmp or any")
    allow.add_argument(
        "--from",
        dest="source",
        metavar="SOURCE",
        help="prefix, or another group of the network (default: every address)",
    )
    revoke.add_argument("rule", metavar="RULE", help="id of the rule")
    for verb in (create, allow):
        add_output(verb, OBJECT_FORMATS)
    add_output(listing)


def parse_traffic(text: str) -> dict[str, Any]:
    """Parse `tcp:22`, `udp:8000-8100`, `tcp`, `icmp` or `any` to the fields of a rule.

    Raises BadOption.
    """
    protocol, has_ports, ports = text.partition(":")
    first, has_last, last = ports.partition("-")
    is_number = first.isascii() and first.isdigit()
    is_range = not has_last or (last.isascii() and last.isdigit())
    if protocol not in ("tcp", "udp", "icmp", "any") or (
        has_ports and not (is_number and is_range)
    ):
        raise BadOption(
            f"traffic {text[:60]!r} is not understood",
            hint="write it like tcp:22, udp:8000-8100, tcp, icmp or any",
        )
    first_port = int(first) if has_ports else None
    last_port = int(last) if has_last else None
    for port in (first_port, last_port):
        if port is not None and not 1 <= port <= 65535:
            raise BadOption(
                f"traffic {text[:60]!r}: {port} is no port", hint="ports are from 1 to 65535"
            )
    return {"protocol": protocol, "first_port": first_port, "last_port": last_port}


def _create_group(options: argparse.Namespace, context: CommandContext) -> int:
    body = {"name": check_name(options.group, "name of a security group")}
    made = create_part(options, context, build_path(options, _KIND), body)
    if options.output != "table":
        print_data(made, options.output)
        return 0
    sys.stdout.write(f"{made['name']}\n")
    print_notice(
        f"jobs join with  gpupool run --network {made['network']} --security-group {made['name']}"
    )
    return 0


def _delete_group(options: argparse.Namespace, context: CommandContext) -> int:
    delete_part(options, context, build_path(options, _KIND, group=options.group))
    sys.stdout.write(f"{options.group} deleted\n")
    return 0


def _create_rule(options: argparse.Namespace, context: CommandContext) -> int:
    body = {**parse_traffic(options.traffic), "source": options.source}
    path = f"{build_path(options, _KIND, group=options.group)}/rules"
    group = create_part(options, context, path, body)
    if options.output != "table":
        print_data(group, options.output)
        return 0
    print_list(_list_rules([group]), COLUMNS, "table", empty="")
    return 0


def _delete_rule(options: argparse.Namespace, context: CommandContext) -> int:
    rules = f"{build_path(options, _KIND, group=options.group)}/rules"
    delete_part(options, context, f"{rules}/{quote_segment(options.rule, 'rule')}")
    sys.stdout.write(f"{options.rule} deleted\n")
    return 0


def _list_groups(options: argparse.Namespace, context: CommandContext) -> int:
    groups = list_parts(options, context, build_path(options, _KIND))
    if options.output in ("table", "wide"):
        groups = _list_rules(groups)
    print_list(groups, COLUMNS, options.output, empty="no security groups")
    return 0


def _list_rules(groups: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a row for each rule, and one for a group without any."""
    rows = list[dict[str, Any]]()
    for group in groups:
        rows += [{**group, "rule": rule} for rule in group["rules"] or [None]]
    return rows


def _describe_traffic(row: Row) -> str | None:
    rule = row["rule"]
    if rule is None:
        return None
    if rule["first_port"] is None:
        return str(rule["protocol"])
    is_one = rule["first_port"] == rule["last_port"]
    ports = rule["first_port"] if is_one else f"{rule['first_port']}-{rule['last_port']}"
    return f"{rule['protocol']}:{ports}"


def _describe_source(row: Row) -> str | None:
    rule = row["rule"]
    return None if rule is None else rule["source"] or "every address"


COLUMNS = (
    TableColumn("GROUP", lambda row: row["name"]),
    TableColumn("JOBS", lambda row: row["jobs"], right=True),
    TableColumn("ALLOWS", _describe_traffic),
    TableColumn("FROM", _describe_source),
    TableColumn("RULE", lambda row: row["rule"] and row["rule"]["id"]),
    TableColumn("ID", lambda row: row["id"], wide=True),
    TableColumn("CREATED", lambda row: describe_instant(row["created_ns"]), wide=True),
)
GROUP_VERBS = {
    "group-create": _create_group,
    "group-delete": _delete_group,
    "group-allow": _create_rule,
    "group-revoke": _delete_rule,
    "group-list": _list_groups,
}
