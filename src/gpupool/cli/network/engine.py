"""The verbs of `gpupool network` for the engine that carries networks."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from gpupool.base.errors import BadOption, NetworkingUnavailable
from gpupool.terminal.confirm import confirm_plan
from gpupool.terminal.context import CommandContext
from gpupool.terminal.output import TableColumn, format_pairs, format_table, print_data
from gpupool.terminal.parser import (
    OBJECT_FORMATS,
    CommandParser,
    add_output,
    add_yes,
    integer_within,
)

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
        "--floating-ips",
        metavar="PREFIX",
        help="addresses outside that tenants may give to jobs, e.g. 203.0.113.32/28 (empty: none)",
    )
    enable.add_argument(
        "--node",
        metavar="NODE",
        help="the machine that has the databases and the gateways (default: as before, or the "
        "first of the pool)",
    )
    enable.add_argument(
        "--databases",
        metavar="NODE,NODE,NODE",
        help="3 or 5 machines that have the databases as a cluster; the centre alone ends it "
        "(default: as before, or the centre alone)",
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
    size = integer_within("--zone-size", "networks of a zone", 1, 10_000)
    enable.add_argument(
        "--zone-size",
        type=size,
        metavar="N",
        help="networks that share databases and a switch; networks that come later are placed by it "
        "(default: as before, or 300)",
    )
    enable.add_argument(
        "--ovn",
        metavar="REMOTE",
        help="join an OVN that is there, by its northbound database: tcp:192.0.2.7:6641 or "
        "ssl:..., several servers with commas (default: databases of the pool's own)",
    )
    enable.add_argument(
        "--ovn-southbound",
        metavar="REMOTE",
        help="its southbound database (default: the next port of the same servers)",
    )
    for option, text in (
        ("--ovn-certificate", "certificate that the pool shows, with ssl: (PEM)"),
        ("--ovn-key", "its private key (PEM)"),
        ("--ovn-ca", "authorities of the databases' certificates (PEM)"),
    ):
        enable.add_argument(option, metavar="FILE", help=text)
    enable.add_argument(
        "--gateway-ipv6",
        metavar="on|off",
        choices=("on", "off"),
        help="whether gateways of networks with IPv6 carry it too (default: as before, or off)",
    )
    add_output(enable, OBJECT_FORMATS)
    disable = parser.add_verb("disable", "end the engine and remove all of it (admins)")
    disable.add_argument(
        "--leave-rows",
        action="store_true",
        help="end also while an OVN that the pool joined does not answer: its rows stay there",
    )
    add_yes(disable)
    add_output(disable, OBJECT_FORMATS)
    status = parser.add_verb("status", "whether the engine is ready, and why not")
    add_output(status, OBJECT_FORMATS)


def _enable_engine(options: argparse.Namespace, context: CommandContext) -> int:
    body = {
        "forward_ports": options.forward_ports,
        "floating_ips": options.floating_ips,
        "node": options.node,
        "databases": options.databases.split(",") if options.databases else None,
        "line_interface": options.line_interface,
        "line_vlans": options.line_vlans,
        "zone_size": options.zone_size,
        "ovn": _read_ovn(options),
        "gateway_ipv6": None if options.gateway_ipv6 is None else options.gateway_ipv6 == "on",
    }
    engine = context.api.request("PUT", "network-engine", body)
    engine = _follow_engine(context, engine, lambda found: not _has_settled(found))
    _print_engine(engine, options.output)
    return 0 if engine["state"] == "ready" else 1


def _read_ovn(options: argparse.Namespace) -> dict[str, str | None] | None:
    """Read what the options say of an OVN that is there. Raises BadOption."""
    files = {
        "certificate": options.ovn_certificate,
        "private_key": options.ovn_key,
        "trusted": options.ovn_ca,
    }
    if options.ovn is None:
        if options.ovn_southbound is not None or any(files.values()):
            raise BadOption(
                "options of an OVN without the OVN", hint="name it: --ovn ssl:ADDRESS:6641"
            )
        return None
    texts = {name: _read_pem(path) for name, path in files.items() if path is not None}
    return {"northbound": options.ovn, "southbound": options.ovn_southbound, **texts}


def _read_pem(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not a text file (PEM)"
        raise BadOption(f"{path}: {reason}", hint="name a file in PEM") from error


def _disable_engine(options: argparse.Namespace, context: CommandContext) -> int:
    confirm_plan(["end the engine of networks, with its daemons and databases"], yes=options.yes)
    query = {"leaves_rows": "true"} if options.leave_rows else {}
    engine = context.api.request("DELETE", "network-engine", query=query)
    engine = _follow_engine(context, engine, lambda found: found["state"] == "stopping")
    _print_engine(engine, options.output)
    return 0 if engine["state"] == "off" else 1


def _has_settled(engine: dict[str, Any]) -> bool:
    """Whether the engine does not start, and no server of the databases is on its way."""
    is_moving = any(one["state"] != "joined" for one in engine["databases"])
    return engine["state"] == "failed" or (engine["state"] != "starting" and not is_moving)


def _follow_engine(
    context: CommandContext,
    engine: dict[str, Any],
    is_passing: Callable[[dict[str, Any]], bool],
) -> dict[str, Any]:
    """Wait until the engine is in no passing state; Ctrl-C ends the wait alone.

    Raises NetworkingUnavailable when it takes too long.
    """
    deadline = time.monotonic() + _ENGINE_SECONDS
    while is_passing(engine):
        if time.monotonic() >= deadline:
            raise NetworkingUnavailable(
                f"{_describe_passing(engine)} after {_ENGINE_SECONDS:g} s",
                hint="it goes on by itself: gpupool network status",
            )
        time.sleep(_LOOK_SECONDS)
        engine = context.api.request("GET", "network-engine")
    return engine


def _describe_passing(engine: dict[str, Any]) -> str:
    for server in engine["databases"]:
        if engine["state"] == "ready" and server["state"] != "joined":
            return f"the databases of {server['node']} are still {server['state']}"
    reason = f": {engine['reason']}" if engine.get("reason") else ""
    return f"the engine is still {engine['state']}{reason}"


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
        ("OVN", None if engine.get("ovn") is None else engine["ovn"]["northbound"]),
        ("gateways", _describe_gateways(engine)),
        ("IPv6 by gateways", "on" if engine["gateway_ipv6"] else None),
        ("networks", engine["networks"]),
        ("jobs in them", engine["jobs"]),
        ("networks per zone", engine["zone_size"] if len(engine["zones"]) > 1 else None),
        ("ports for tenants", engine["forward_ports"] or None),
        ("floating IPs for tenants", engine["floating_ips"] or None),
        ("interface for lines", engine["line_interface"] or None),
        ("VLANs for tenants", engine["line_vlans"] or None),
    ]
    sys.stdout.write(format_pairs([fact for fact in facts if fact[1] is not None]) + "\n")
    if engine["machines"]:
        sys.stdout.write("\n" + format_table(engine["machines"], MACHINE_COLUMNS) + "\n")
    if len(engine["zones"]) > 1:
        sys.stdout.write("\n" + format_table(engine["zones"], ZONE_COLUMNS) + "\n")
    if engine["databases"]:
        sys.stdout.write("\n" + format_table(engine["databases"], SERVER_COLUMNS) + "\n")


def _describe_gateways(engine: dict[str, Any]) -> str | None:
    """Say which machines have gateways; None where it is the centre."""
    pair = engine.get("gateways")
    if pair is None:
        return None
    return ", ".join(f"{one['node']} ({one['state']})" for one in pair["machines"])


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
ZONE_COLUMNS = (
    TableColumn("ZONE", lambda row: row["number"], right=True),
    TableColumn("STATE", lambda row: row["state"]),
    TableColumn("NETWORKS", lambda row: row["networks"], right=True),
    TableColumn(
        "DAEMONS", lambda row: "-" if row["daemons"] is None else row["daemons"], right=True
    ),
    TableColumn("REASON", lambda row: row["reason"] or "-"),
)
SERVER_COLUMNS = (
    TableColumn("DATABASES", lambda row: row["node"]),
    TableColumn("STATE", lambda row: "away" if row["is_away"] else row["state"]),
    TableColumn("NORTHBOUND", lambda row: row["northbound"].replace("none", "-")),
    TableColumn("TERM", lambda row: row["northbound_term"] or "-", right=True),
    TableColumn("SOUTHBOUND", lambda row: row["southbound"].replace("none", "-")),
    TableColumn("TERM", lambda row: row["southbound_term"] or "-", right=True),
)
ENGINE_VERBS = {
    "enable": _enable_engine,
    "disable": _disable_engine,
    "status": _show_engine,
}
