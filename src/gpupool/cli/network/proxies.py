"""The verbs of `gpupool network` for load balancers of HTTP that serve."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any, Final

from gpupool.cli.network.http_options import read_certificate
from gpupool.cli.network.objects import add_network, build_path, create_part
from gpupool.terminal.context import CommandContext, print_notice
from gpupool.terminal.listing import describe_instant
from gpupool.terminal.output import Row, TableColumn, format_pairs, format_table, print_data
from gpupool.terminal.parser import OBJECT_FORMATS, CommandParser, add_output, integer_within

_KIND: Final = "load-balancers"
_LOOK_SECONDS: Final = 0.2


def register_proxies(parser: CommandParser) -> None:
    """Add the verbs."""
    show = parser.add_verb("lb-show", "a load balancer, with the state of the jobs behind it")
    drain = parser.add_verb("lb-drain", "give a job behind a load balancer no new requests")
    renew = parser.add_verb("lb-certificate", "replace the certificate of a load balancer")
    add_network(show, drain, renew)
    for verb in (show, drain, renew):
        verb.add_argument("balancer", metavar="LB", help="its name")
        add_output(verb, OBJECT_FORMATS)
    drain.add_argument("job", metavar="JOB", help="a job, or an array for all of its members")
    drain.add_argument("--undo", action="store_true", help="give it new requests again")
    drain.add_argument(
        "--timeout",
        type=integer_within("--timeout", "seconds", 0, 3600),
        default=60,
        metavar="N",
        help="seconds to wait until it has finished its requests (default: 60)",
    )
    renew.add_argument("file", type=Path, metavar="FILE", help="PEM of the chain and its key")


def _show_balancer(options: argparse.Namespace, context: CommandContext) -> int:
    found = _read_balancer(options, context)
    if options.output != "table":
        print_data(found, options.output)
        return 0
    shown = [(title, value) for title, value in _list_facts(found) if value]
    sys.stdout.write(format_pairs(shown) + "\n")
    if found["http"] is None:
        rows = found["members"]
        columns: tuple[TableColumn, ...] = MEMBER_COLUMNS
    else:
        rows = found["http"]["members"]
        columns = (*MEMBER_COLUMNS, *STATE_COLUMNS)
    if rows:
        sys.stdout.write("\n" + format_table(rows, columns) + "\n")
    machines = [] if found["http"] is None else found["http"]["machines"]
    if len(machines) > 1:
        sys.stdout.write("\n" + format_table(machines, MACHINE_COLUMNS) + "\n")
    return 0


def _list_facts(found: Row) -> list[tuple[str, str | None]]:
    http = found["http"]
    facts: list[tuple[str, str | None]] = [
        ("name", found["name"]),
        ("network", found["network"]),
        ("address", f"{found['address']}:{found['port']}"),
    ]
    if http is None:
        facts.append(("protocol", found["protocol"]))
        return facts
    reason = f": {http['reason']}" if http["reason"] else ""
    https = http["https_port"]
    facts += [
        ("https", f"{found['address']}:{https}" if https else None),
        ("certificate until", describe_instant(http["certificate_end_ns"])),
        ("state", f"{http['state']}{reason}"),
        ("redirects", "HTTP to HTTPS" if http["redirects"] else None),
        ("sticky", "by cookie" if http["is_sticky"] else None),
        ("probes", http["check_path"] or "connections"),
        ("drain", f"{http['drain_seconds']} s"),
    ]
    facts += [("route", _describe_route(route)) for route in http["routes"]]
    return facts


def _describe_route(route: Row) -> str:
    backends = ", ".join(route["backends"])
    return f"{route['host'] or '*'}{route['path']} -> {backends}:{route['target_port']}"


def _drain_job(options: argparse.Namespace, context: CommandContext) -> int:
    path = build_path(options, _KIND, balancer=options.balancer)
    if options.undo:
        job = build_path(
            options, _KIND, balancer=options.balancer, drains="drains", job=options.job
        )
        found: Any = context.api.request("DELETE", job, query={"tenant": options.tenant})
    else:
        found = create_part(options, context, f"{path}/drains", {"job": options.job})
        found = _await_drain(options, context, found)
    if options.output != "table":
        print_data(found, options.output)
        return 0
    left = _count_sessions(found)
    if options.undo:
        sys.stdout.write(f"{options.job} gets new requests again\n")
    elif left:
        print_notice(f"{options.job} gets no new requests; {left} are not finished yet")
    else:
        sys.stdout.write(f"{options.job} gets no new requests and has finished its last one\n")
    return 0


def _await_drain(options: argparse.Namespace, context: CommandContext, found: Row) -> Row:
    """Look until the drained jobs have no requests left, or the time is over."""
    deadline = time.monotonic() + options.timeout
    # The counts of before the drain are replaced within two looks of the agent.
    earliest = time.monotonic() + 2.0
    while time.monotonic() < deadline:
        found = _read_balancer(options, context)
        if not _count_sessions(found) and time.monotonic() >= earliest:
            break
        time.sleep(_LOOK_SECONDS)
    return found


def _count_sessions(found: Row) -> int:
    members = found["http"]["members"]
    return sum(one["sessions"] for one in members if one["state"] == "draining")


def _renew_certificate(options: argparse.Namespace, context: CommandContext) -> int:
    path = build_path(options, _KIND, balancer=options.balancer)
    body = {"certificate": read_certificate(options.file)}
    query = {"tenant": options.tenant}
    found = context.api.request("PUT", f"{path}/certificate", body, query=query)
    if options.output != "table":
        print_data(found, options.output)
        return 0
    until = describe_instant(found["http"]["certificate_end_ns"])
    sys.stdout.write(f"{options.balancer}: the new certificate holds until {until}\n")
    return 0


def _read_balancer(options: argparse.Namespace, context: CommandContext) -> Row:
    path = build_path(options, _KIND, balancer=options.balancer)
    found: Row = context.api.request("GET", path, query={"tenant": options.tenant})
    return found


MEMBER_COLUMNS = (
    TableColumn("JOB", lambda row: row["dns_name"]),
    TableColumn("ADDRESS", lambda row: row["address"]),
)
STATE_COLUMNS = (
    TableColumn("PORT", lambda row: row["port"], right=True),
    TableColumn("STATE", lambda row: row["state"]),
    TableColumn("PROBE", lambda row: row["check"] or None),
    TableColumn("SESSIONS", lambda row: row["sessions"], right=True),
    TableColumn("REQUESTS", lambda row: row["requests"], right=True),
)
MACHINE_COLUMNS = (
    TableColumn("MACHINE", lambda row: row["node"]),
    TableColumn("ROLE", lambda row: row["role"]),
    TableColumn("STATE", lambda row: row["state"]),
    TableColumn("SESSIONS", lambda row: row["sessions"], right=True),
    TableColumn("REASON", lambda row: row["reason"] or None),
)
PROXY_VERBS = {
    "lb-show": _show_balancer,
    "lb-drain": _drain_job,
    "lb-certificate": _renew_certificate,
}
