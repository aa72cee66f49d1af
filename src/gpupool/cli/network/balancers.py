"""The verbs of `gpupool network` for load balancers."""

from __future__ import annotations

import argparse
import sys

from gpupool.base.errors import BadInput
from gpupool.base.ids import check_name
from gpupool.cli.network.http_options import add_http_options, make_http_settings
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
from gpupool.terminal.parser import OBJECT_FORMATS, CommandParser, add_output, integer_within

_KIND = "load-balancers"


def register_balancers(parser: CommandParser) -> None:
    """Add the verbs."""
    create = parser.add_verb("lb-create", "put one address in front of jobs that serve")
    delete = parser.add_verb("lb-delete", "delete a load balancer; its jobs go on")
    listing = parser.add_verb("lb-list", "load balancers of a network, with the jobs behind them")
    add_network(create, delete, listing)
    for verb in (create, delete):
        verb.add_argument("balancer", metavar="LB", help="its name, also in DNS")
    create.add_argument(
        "--port",
        type=integer_within("--port", "a port", 1, 65535),
        metavar="PORT",
        help="on which it is asked (with --http: 80)",
    )
    create.add_argument(
        "--target-port",
        type=integer_within("--target-port", "a port", 1, 65535),
        metavar="PORT",
        help="on which the jobs serve (default: the same)",
    )
    create.add_argument(
        "--backend",
        action="append",
        default=[],
        metavar="JOB",
        help="name of a job, an array or a gang; may be repeated",
    )
    create.add_argument("--protocol", choices=("tcp", "udp"), default="tcp", help="default: tcp")
    create.add_argument(
        "--no-check",
        dest="check",
        action="store_false",
        help="keep backends that accept no connection",
    )
    add_http_options(create)
    add_output(create, OBJECT_FORMATS)
    add_output(listing)


def _create_balancer(options: argparse.Namespace, context: CommandContext) -> int:
    http = make_http_settings(options)
    if options.port is None and http is None:
        raise BadInput("--port is missing", hint="name the port on which it is asked: --port 80")
    port = options.port or 80
    body = {
        "name": check_name(options.balancer, "name of a load balancer"),
        "protocol": options.protocol,
        "port": port,
        "target_port": options.target_port or port,
        "backends": options.backend,
        "is_checked": options.check and http is None,
        "http": http,
    }
    made = create_part(options, context, build_path(options, _KIND), body)
    if options.output != "table":
        print_data(made, options.output)
        return 0
    sys.stdout.write(f"{made['name']}: {made['address']}:{made['port']}\n")
    if not made["members"]:
        print_notice("no job behind it runs yet; clients are refused until one does")
    return 0


def _delete_balancer(options: argparse.Namespace, context: CommandContext) -> int:
    delete_part(options, context, build_path(options, _KIND, balancer=options.balancer))
    sys.stdout.write(f"{options.balancer} deleted\n")
    return 0


def _list_balancers(options: argparse.Namespace, context: CommandContext) -> int:
    balancers = list_parts(options, context, build_path(options, _KIND))
    print_list(balancers, COLUMNS, options.output, empty="no load balancers")
    return 0


def _describe_listener(row: Row) -> str:
    https = row["http"] and row["http"]["https_port"]
    protocol = row["protocol"] if row["http"] is None else "http"
    return f"{row['address']}:{row['port']}/{protocol}" + (f", {https}/https" if https else "")


def _list_members(row: Row) -> str | None:
    return ", ".join(f"{one['dns_name']} {one['address']}" for one in row["members"]) or None


COLUMNS = (
    TableColumn("LB", lambda row: row["name"]),
    TableColumn("ADDRESS", _describe_listener),
    TableColumn("TO", lambda row: row["target_port"], right=True),
    TableColumn("BACKENDS", lambda row: ", ".join(row["backends"])),
    TableColumn("RUNNING", _list_members),
    TableColumn("CHECKED", lambda row: "yes" if row["is_checked"] else "no", wide=True),
    TableColumn("HTTP", lambda row: "yes" if row["http"] else "no", wide=True),
    TableColumn("IPV6 ADDRESS", lambda row: row["address6"], wide=True),
    TableColumn("ID", lambda row: row["id"], wide=True),
    TableColumn("CREATED", lambda row: describe_instant(row["created_ns"]), wide=True),
)
BALANCER_VERBS = {
    "lb-create": _create_balancer,
    "lb-delete": _delete_balancer,
    "lb-list": _list_balancers,
}
