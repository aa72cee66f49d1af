"""The verbs of `gpupool network` for bandwidth limits."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from gpupool.base.units import format_bandwidth, parse_bandwidth
from gpupool.cli.network.objects import add_network, build_path, delete_part, list_parts
from gpupool.terminal.context import CommandContext
from gpupool.terminal.output import Row, TableColumn, format_table, print_data
from gpupool.terminal.parser import OBJECT_FORMATS, CommandParser, add_output
from gpupool.terminal.references import quote_segment

_KIND = "limits"


def register_limits(parser: CommandParser) -> None:
    """Add the verbs."""
    setting = parser.add_verb("limit-set", "limit the bandwidth of jobs, or of a gateway")
    listing = parser.add_verb("limit-list", "bandwidth limits of a network, and what is in force")
    delete = parser.add_verb("limit-delete", "delete a bandwidth limit")
    cap = parser.add_verb("limit-cap", "what each port of a tenant may have at most (admins)")
    add_network(setting, listing, delete)
    setting.add_argument(
        "--job", metavar="JOB", help="a job, an array or a gang (default: each port without one)"
    )
    setting.add_argument(
        "--gateway", action="store_true", help="what all jobs together have to the outside"
    )
    delete.add_argument("limit", metavar="LIMIT", help="id of the limit")
    cap.add_argument("tenant", metavar="TENANT", help="the tenant")
    cap.add_argument("--gateway", action="store_true", help="each gateway, in place of each port")
    cap.add_argument("--off", action="store_true", help="end the cap")
    for verb in (setting, cap):
        _add_bandwidth(verb)
        add_output(verb, OBJECT_FORMATS)
    add_output(listing, OBJECT_FORMATS)


def _add_bandwidth(verb: CommandParser) -> None:
    verb.add_argument(
        "--in", dest="inward", metavar="RATE", help="towards the job, in bits per second: 20M, 1G"
    )
    verb.add_argument("--out", dest="outward", metavar="RATE", help="away from the job")


def _read_bandwidth(options: argparse.Namespace) -> dict[str, Any]:
    """Read --in and --out; one that is not there is no limit. Raises BadBandwidth."""
    return {
        "in_kbit": None if options.inward is None else parse_bandwidth(options.inward),
        "out_kbit": None if options.outward is None else parse_bandwidth(options.outward),
    }


def _set_limit(options: argparse.Namespace, context: CommandContext) -> int:
    body = {
        **_read_bandwidth(options),
        "subject": "gateway" if options.gateway else "port",
        "target": options.job,
    }
    query = {"tenant": options.tenant}
    limits = context.api.request("PUT", build_path(options, _KIND), body, query=query)
    return _print_limits(limits, options.output)


def _list_limits(options: argparse.Namespace, context: CommandContext) -> int:
    limits: Any = list_parts(options, context, build_path(options, _KIND))
    return _print_limits(limits, options.output)


def _delete_limit(options: argparse.Namespace, context: CommandContext) -> int:
    delete_part(options, context, build_path(options, _KIND, limit=options.limit))
    sys.stdout.write(f"{options.limit} deleted\n")
    return 0


def _set_cap(options: argparse.Namespace, context: CommandContext) -> int:
    subject = "gateway" if options.gateway else "port"
    path = f"tenants/{quote_segment(options.tenant, 'tenant')}/bandwidth-cap"
    query = {"subject": subject}
    body = _read_bandwidth(options)
    if options.off:
        cap = context.api.request("PUT", path, {}, query=query)
    elif any(body.values()):
        cap = context.api.request("PUT", path, body, query=query)
    else:
        cap = context.api.request("GET", path, query=query)
    if options.output != "table":
        print_data(cap, options.output)
        return 0
    inward = _format_rate(cap, "in_kbit")
    outward = _format_rate(cap, "out_kbit")
    sys.stdout.write(
        f"each {subject} of {options.tenant} has at most: in {inward}, out {outward}\n"
    )
    return 0


def _print_limits(limits: dict[str, Any], output: str) -> int:
    if output != "table":
        print_data(limits, output)
        return 0
    if not limits["limits"] and not limits["states"]:
        sys.stdout.write("no bandwidth limits\n")
        return 0
    sys.stdout.write(format_table(limits["limits"], LIMIT_COLUMNS) + "\n")
    for subject in ("port", "gateway"):
        cap = limits[f"{subject}_cap"]
        if any(cap.values()):
            sys.stdout.write(
                f"\nan admin allows each {subject}: in {_format_rate(cap, 'in_kbit')}, "
                f"out {_format_rate(cap, 'out_kbit')}\n"
            )
    if limits["states"]:
        sys.stdout.write("\n" + format_table(limits["states"], STATE_COLUMNS) + "\n")
    return 0


def _format_rate(row: Row, field: str) -> str:
    return "no limit" if row[field] is None else format_bandwidth(row[field])


def _name_subject(row: Row) -> str:
    if row["subject"] == "gateway":
        return "gateway"
    return row["target"] or "every port"


def _describe_direction(direction: dict[str, Any]) -> str:
    """Describe one direction: its limit, and whether it is in force."""
    if direction["kbit"] is None:
        return "no limit"
    rate = format_bandwidth(direction["kbit"])
    if direction["state"] == "verified":
        return f"{rate}, verified at {format_bandwidth(direction['measured_kbit'])}"
    if direction["state"] == "set":
        return f"{rate}, set"
    return f"{rate}, not enforced: {direction['reason']}"


LIMIT_COLUMNS = (
    TableColumn("LIMIT", lambda row: row["id"]),
    TableColumn("OF", _name_subject),
    TableColumn("IN", lambda row: _format_rate(row, "in_kbit")),
    TableColumn("OUT", lambda row: _format_rate(row, "out_kbit")),
)
STATE_COLUMNS = (
    TableColumn("JOB", lambda row: row["name"] or "gateway"),
    TableColumn("ADDRESS", lambda row: row["address"] or "--"),
    TableColumn("IN", lambda row: _describe_direction(row["inward"])),
    TableColumn("OUT", lambda row: _describe_direction(row["outward"])),
)
LIMIT_VERBS = {
    "limit-set": _set_limit,
    "limit-list": _list_limits,
    "limit-delete": _delete_limit,
    "limit-cap": _set_cap,
}
