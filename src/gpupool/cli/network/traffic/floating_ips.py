"""The verbs of `gpupool network` for floating IPs."""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any, Final

from gpupool.cli.network.objects import (
    add_network,
    build_path,
    create_part,
    delete_part,
    list_parts,
)
from gpupool.terminal.context import CommandContext, print_notice
from gpupool.terminal.listing import describe_instant
from gpupool.terminal.output import TableColumn, format_pairs, print_data, print_list
from gpupool.terminal.parser import OBJECT_FORMATS, CommandParser, add_output

_KIND: Final = "floating-ips"
#: Seconds in which the machine's probe has to find the job; it goes on by itself afterwards.
_PROBE_SECONDS: Final = 10.0
_LOOK_SECONDS: Final = 0.2
#: States in which there is something to wait for.
_PASSING: Final = ("starting", "down")


def register_floating_ips(parser: CommandParser) -> None:
    """Add the verbs."""
    create = parser.add_verb("floating-ip-create", "give a job an address outside of the pool")
    delete = parser.add_verb("floating-ip-delete", "release a floating IP; its connections end")
    listing = parser.add_verb("floating-ip-list", "floating IPs of a network")
    show = parser.add_verb("floating-ip-show", "one floating IP with what a probe sees of it")
    add_network(create, delete, listing, show, text="the network; it needs a gateway")
    create.add_argument(
        "target", metavar="TARGET", help="a job's name, or its address in the network"
    )
    create.add_argument(
        "--address", metavar="ADDRESS", help="one of those for tenants (default: a free one)"
    )
    for verb in (delete, show):
        verb.add_argument(
            "floating_ip", metavar="FLOATING-IP", help="its address, its target or its id"
        )
    for verb in (create, show):
        add_output(verb, OBJECT_FORMATS)
    add_output(listing)


def _create_floating(options: argparse.Namespace, context: CommandContext) -> int:
    body = {"target": options.target, "address": options.address}
    path = build_path(options, _KIND)
    made = create_part(options, context, path, body)
    deadline = time.monotonic() + _PROBE_SECONDS
    while made["state"] in _PASSING and time.monotonic() < deadline:
        time.sleep(_LOOK_SECONDS)
        made = context.api.request("GET", f"{path}/{made['id']}", query={"tenant": options.tenant})
    if options.output != "table":
        print_data(made, options.output)
        return 0
    sys.stdout.write(f"{made['address']} leads to {made['target']}: {_describe(made)}\n")
    if made["state"] != "reachable":
        print_notice(
            f"gpupool network floating-ip-show {options.name} {made['address']}  probes on"
        )
    return 0


def _delete_floating(options: argparse.Namespace, context: CommandContext) -> int:
    delete_part(options, context, build_path(options, _KIND, floating_ip=options.floating_ip))
    sys.stdout.write(f"{options.floating_ip} released\n")
    return 0


def _list_floating(options: argparse.Namespace, context: CommandContext) -> int:
    found = list_parts(options, context, build_path(options, _KIND))
    print_list(found, COLUMNS, options.output, empty="no floating IPs")
    return 0


def _show_floating(options: argparse.Namespace, context: CommandContext) -> int:
    path = build_path(options, _KIND, floating_ip=options.floating_ip)
    found: dict[str, Any] = context.api.request("GET", path, query={"tenant": options.tenant})
    if options.output != "table":
        print_data(found, options.output)
        return 0
    since = found["probed_ns"]
    facts: list[tuple[str, object]] = [
        ("floating IP", found["address"]),
        ("id", found["id"]),
        ("network", found["network"]),
        ("target", found["target"]),
        ("job", found["job"] and f"{found['job']}, {found['job_address']}"),
        ("probe", _describe(found)),
        ("since", None if since is None else describe_instant(since)),
        ("created", describe_instant(found["created_ns"])),
    ]
    sys.stdout.write(format_pairs([fact for fact in facts if fact[1] is not None]) + "\n")
    return 0


def _describe(floating: dict[str, Any]) -> str:
    reason = floating["reason"]
    return f"{floating['state']}, {reason}" if reason else str(floating["state"])


COLUMNS = (
    TableColumn("FLOATING IP", lambda row: row["address"]),
    TableColumn("TARGET", lambda row: row["target"]),
    TableColumn("JOB", lambda row: row["job_address"] or "-"),
    TableColumn("PROBE", lambda row: row["state"]),
    TableColumn("REASON", lambda row: row["reason"], wide=True),
    TableColumn("CREATED", lambda row: describe_instant(row["created_ns"]), wide=True),
)
FLOATING_IP_VERBS = {
    "floating-ip-create": _create_floating,
    "floating-ip-delete": _delete_floating,
    "floating-ip-list": _list_floating,
    "floating-ip-show": _show_floating,
}
