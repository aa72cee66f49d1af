"""The verbs of `gpupool network` for the pair of machines that serves gateways."""

from __future__ import annotations

import argparse
import os
import sys
import time
from typing import Any, Final

from gpupool.base.errors import NetworkingUnavailable
from gpupool.terminal.confirm import confirm_plan
from gpupool.terminal.context import CommandContext
from gpupool.terminal.listing import describe_instant
from gpupool.terminal.output import Row, TableColumn, format_pairs, format_table, print_data
from gpupool.terminal.parser import OBJECT_FORMATS, CommandParser, add_output, add_yes
from gpupool.terminal.references import quote_segment

_PATH: Final = "network-gateways"
#: Seconds in which a pair comes up, a drain moves gateways, and a drill ends.
_PAIR_SECONDS: Final = 60.0
_DRAIN_SECONDS: Final = 30.0
_DRILL_SECONDS: Final = 90.0
_LOOK_SECONDS: Final = 0.2


def register_gateway_pair(parser: CommandParser) -> None:
    """Add the verbs."""
    pair = parser.add_verb(
        "gateway-pair", "put all gateways on two machines, one of which takes over (admins)"
    )
    pair.add_argument(
        "nodes", metavar="NODE", nargs=2, help="the two; the first is active at first"
    )
    pair.add_argument(
        "--address",
        required=True,
        metavar="ADDRESS",
        help="what the active machine has outside: a free address of a prefix that both are in",
    )
    pair.add_argument(
        "--upstream",
        metavar="ADDRESS",
        help="an address outside that both machines watch, as their router's (default: the "
        "carrier alone)",
    )
    unpair = parser.add_verb("gateway-unpair", "put all gateways on the centre again (admins)")
    show = parser.add_verb("gateway-show", "which machine has the gateways, since when, and why")
    drain = parser.add_verb("gateway-drain", "keep gateways away from a machine (admins)")
    drain.add_argument("node", metavar="NODE", help="a machine of the pair")
    drain.add_argument("--undo", action="store_true", help="let it take gateways again")
    drill = parser.add_verb(
        "gateway-drill", "move the gateways and back, and measure the outage (admins)"
    )
    drill.add_argument("name", metavar="NAME", help="the network whose gateway is probed")
    drill.add_argument("--tenant", metavar="TENANT", help="of another tenant (admins)")
    add_yes(unpair)
    for verb in (pair, show, drain, drill):
        add_output(verb, OBJECT_FORMATS)


def _set_pair(options: argparse.Namespace, context: CommandContext) -> int:
    body = {"nodes": options.nodes, "address": options.address, "upstream": options.upstream}
    pair = context.api.request("PUT", _PATH, body)
    deadline = time.monotonic() + _PAIR_SECONDS
    while _count(pair, "active") != 1 or _count(pair, "standby") != 1:
        if time.monotonic() >= deadline:
            raise NetworkingUnavailable(
                f"the pair is not ready after {_PAIR_SECONDS:g} s: {_describe_states(pair)}",
                hint="it goes on by itself: gpupool network gateway-show",
            )
        time.sleep(_LOOK_SECONDS)
        pair = context.api.request("GET", _PATH)
    _print_pair(pair, options.output)
    return 0


def _delete_pair(options: argparse.Namespace, context: CommandContext) -> int:
    confirm_plan(["put all gateways on the centre; their connections end"], yes=options.yes)
    context.api.request("DELETE", _PATH)
    return 0


def _show_pair(options: argparse.Namespace, context: CommandContext) -> int:
    _print_pair(context.api.request("GET", _PATH), options.output)
    return 0


def _drain_machine(options: argparse.Namespace, context: CommandContext) -> int:
    path = f"{_PATH}/{quote_segment(options.node, 'node')}/drain"
    pair = context.api.request("DELETE" if options.undo else "PUT", path)
    wanted = {"active", "standby"} if options.undo else {"away"}
    deadline = time.monotonic() + _DRAIN_SECONDS
    while not _is_settled(pair, options.node, wanted):
        if time.monotonic() >= deadline:
            raise NetworkingUnavailable(
                f"{_describe_states(pair)} after {_DRAIN_SECONDS:g} s",
                hint="it goes on by itself: gpupool network gateway-show",
            )
        time.sleep(_LOOK_SECONDS)
        pair = context.api.request("GET", _PATH)
    _print_pair(pair, options.output)
    return 0


def _is_settled(pair: dict[str, Any], node: str, wanted: set[str]) -> bool:
    """Whether a machine has one of these states, and a drained one answers for no load balancer."""
    machine = _find_machine(pair, node)
    if machine["state"] not in wanted or not _count(pair, "active"):
        return False
    return not (machine["is_drained"] and machine["balancers"])


def _drill_gateways(options: argparse.Namespace, context: CommandContext) -> int:
    drill = context.api.request(
        "POST",
        f"networks/{quote_segment(options.name, 'network')}/gateway/drills",
        query={"tenant": options.tenant},
        idempotency_key=os.urandom(16).hex(),
    )
    deadline = time.monotonic() + _DRILL_SECONDS
    while drill["state"] == "running":
        if time.monotonic() >= deadline:
            raise NetworkingUnavailable(
                f"the drill still runs after {_DRILL_SECONDS:g} s",
                hint="the gateways go on: gpupool network gateway-show",
            )
        time.sleep(_LOOK_SECONDS)
        drill = context.api.request("GET", f"network-gateway-drills/{drill['id']}")
    if options.output != "table":
        print_data(drill, options.output)
        return 0 if drill["state"] == "done" else 1
    for move in drill["moves"]:
        sys.stdout.write(
            f"{move['origin']} -> {move['target']}: no answer for {move['outage_seconds']:.2f} s\n"
        )
    if drill["state"] != "done":
        sys.stderr.write(f"the drill failed: {drill['reason']}\n")
        return 1
    sys.stdout.write(f"outage: {drill['outage_seconds']:.2f} s\n")
    return 0


def _count(pair: dict[str, Any], state: str) -> int:
    return sum(1 for machine in pair["machines"] if machine["state"] == state)


def _find_machine(pair: dict[str, Any], node: str) -> dict[str, Any]:
    found: dict[str, Any] = next(one for one in pair["machines"] if one["node"] == node)
    return found


def _describe_states(pair: dict[str, Any]) -> str:
    return "; ".join(map(_describe_machine, pair["machines"]))


def _describe_machine(machine: Row) -> str:
    reason = f" ({machine['reason']})" if machine["reason"] else ""
    count = machine["balancers"]
    balancers = f" and answers for {count} load balancers of HTTP" if count else ""
    return f"{machine['node']} is {machine['state']}{reason}{balancers}"


def _print_pair(pair: dict[str, Any], output: str) -> None:
    if output != "table":
        print_data(pair, output)
        return
    since = pair["active_since_ns"]
    facts: list[tuple[str, object]] = [
        ("address", pair["address"]),
        ("upstream", pair["upstream"]),
        ("active", pair["active"]),
        ("since", None if since is None else describe_instant(since)),
        ("before", pair["moved_from"]),
        ("moved because", pair["move_reason"] if pair["moved_from"] else None),
    ]
    sys.stdout.write(format_pairs([fact for fact in facts if fact[1] is not None]) + "\n\n")
    sys.stdout.write(format_table(pair["machines"], _COLUMNS) + "\n")


def _describe_state(machine: Row) -> str:
    return f"{machine['state']}, drained" if machine["is_drained"] else str(machine["state"])


_COLUMNS = (
    TableColumn("NODE", lambda row: row["node"]),
    TableColumn("STATE", _describe_state),
    TableColumn(
        "SINCE", lambda row: "-" if row["since_ns"] is None else describe_instant(row["since_ns"])
    ),
    TableColumn("LBS", lambda row: row["balancers"], right=True),
    TableColumn("REASON", lambda row: row["reason"] or "-"),
)
GATEWAY_PAIR_VERBS = {
    "gateway-pair": _set_pair,
    "gateway-unpair": _delete_pair,
    "gateway-show": _show_pair,
    "gateway-drain": _drain_machine,
    "gateway-drill": _drill_gateways,
}
