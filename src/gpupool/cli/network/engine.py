"""The verbs of `gpupool network` for the engine that carries networks."""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any, Final

from gpupool.base.errors import NetworkingUnavailable
from gpupool.terminal.confirm import confirm_plan
from gpupool.terminal.context import CommandContext
from gpupool.terminal.output import TableColumn, format_pairs, format_table, print_data
from gpupool.terminal.parser import OBJECT_FORMATS, CommandParser, add_output, add_yes

#: Seconds in which an engine starts or ends; it goes on by itself afterwards.
_ENGINE_SECONDS: Final = 60.0
_LOOK_SECONDS: Final = 0.2


def register_engine(parser: CommandParser) -> None:
    """Add the verbs."""
    enable = parser.add_verb("enable", "start the engine on the machines of the pool (admins)")
    enable.add_argument(
        "--forward-ports",
        metavar="FIRST-LAST",
        help="ports of the machine that tenants may forward to their jobs (default: none)",
    )
    enable.add_argument(
        "--node",
        metavar="NODE",
        help="the machine that has the databases and the gateways (default: as before, or the "
        "first of the pool)",
    )
    enable.add_argument(
        "--line-interface",
        metavar="IFACE",
        help="interface of the machine for dedicated lines, used for nothing else (empty: none)",
    )
    enable.add_argument(
        "--line-vlans",
        metavar="FIRST-LAST",
        help="VLANs of it that tenants may take for lines (default: none)",
    )
    add_output(enable, OBJECT_FORMATS)
    disable = parser.add_verb("disable", "end the engine and remove all of it (admins)")
    add_yes(disable)
    add_output(disable, OBJECT_FORMATS)
    status = parser.add_verb("status", "whether the engine is ready, and why not")
    add_output(status, OBJECT_FORMATS)


def _enable_engine(options: argparse.Namespace, context: CommandContext) -> int:
    body = {
        "forward_ports": options.forward_ports,
        "node": options.node,
        "line_interface": options.line_interface,
        "line_vlans": options.line_vlans,
    }
    engine = context.api.request("PUT", "network-engine", body)
    engine = _follow_engine(context, engine, {"starting"})
    _print_engine(engine, options.output)
    return 0 if engine["state"] == "ready" else 1


def _disable_engine(options: argparse.Namespace, context: CommandContext) -> int:
    confirm_plan(["end the engine of networks, with its daemons and databases"], yes=options.yes)
    engine = context.api.request("DELETE", "network-engine")
    engine = _follow_engine(context, engine, {"stopping"})
    _print_engine(engine, options.output)
    return 0 if engine["state"] == "off" else 1


def _follow_engine(
    context: CommandContext, engine: dict[str, Any], passing: set[str]
) -> dict[str, Any]:
    """Wait until the engine is in no passing state; Ctrl-C ends the wait alone.

    Raises NetworkingUnavailable when it takes too long.
    """
    deadline = time.monotonic() + _ENGINE_SECONDS
    while engine["state"] in passing:
        if time.monotonic() >= deadline:
            raise NetworkingUnavailable(
                f"the engine is still {engine['state']} after {_ENGINE_SECONDS:g} s",
                hint="it goes on by itself: gpupool network status",
            )
        time.sleep(_LOOK_SECONDS)
        engine = context.api.request("GET", "network-engine")
    return engine


def _show_engine(options: argparse.Namespace, context: CommandContext) -> int:
    _print_engine(context.api.request("GET", "network-engine"), options.output)
    return 0


def _print_engine(engine: dict[str, Any], output: str) -> None:
    if output != "table":
        print_data(engine, output)
        return
    facts: list[tuple[str, object]] = [
        ("engine", engine["state"]),
        ("reason", engine["reason"] or None),
        ("centre", engine["node"]),
        ("networks", engine["networks"]),
        ("jobs in them", engine["jobs"]),
        ("ports for tenants", engine["forward_ports"] or None),
        ("interface for lines", engine["line_interface"] or None),
        ("VLANs for tenants", engine["line_vlans"] or None),
    ]
    sys.stdout.write(format_pairs([fact for fact in facts if fact[1] is not None]) + "\n")
    if engine["machines"]:
        sys.stdout.write("\n" + format_table(engine["machines"], MACHINE_COLUMNS) + "\n")


MACHINE_COLUMNS = (
    TableColumn("NODE", lambda row: row["node"]),
    TableColumn("ROLE", lambda row: row["role"]),
    TableColumn("STATE", lambda row: row["state"]),
    TableColumn("TUNNEL", lambda row: row["tunnel_address"] or "-"),
    TableColumn("MTU", lambda row: row["mtu"] or "-", right=True),
    TableColumn("DATAPATH", lambda row: row["datapath"] or "-"),
    TableColumn("OVN", lambda row: row["version"] or "-"),
    TableColumn("REASON", lambda row: row["reason"] or "-"),
)
ENGINE_VERBS = {
    "enable": _enable_engine,
    "disable": _disable_engine,
    "status": _show_engine,
}
