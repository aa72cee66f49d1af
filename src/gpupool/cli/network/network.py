"""`gpupool network`: networks of tenants, and the engine that carries them."""

from __future__ import annotations

import argparse
import os
import sys
import time
from typing import Any, Final

from gpupool.base.errors import NetworkingUnavailable
from gpupool.base.ids import check_name
from gpupool.cli.network.balancers import BALANCER_VERBS, register_balancers
from gpupool.cli.network.default import register_default, set_default
from gpupool.cli.network.firewall import FIREWALL_VERBS, register_firewall
from gpupool.cli.network.forwards import FORWARD_VERBS, register_forwards
from gpupool.cli.network.gateway import GATEWAY_VERBS, register_gateway
from gpupool.cli.network.groups import GROUP_VERBS, register_groups
from gpupool.cli.network.limits import LIMIT_VERBS, register_limits
from gpupool.cli.network.lines import LINE_VERBS, register_lines
from gpupool.cli.network.peerings import PEERING_VERBS, register_peerings
from gpupool.cli.network.proxies import PROXY_VERBS, register_proxies
from gpupool.cli.network.records import RECORD_VERBS, register_records
from gpupool.cli.network.verify import register_verify, verify_networks
from gpupool.cli.network.why import register_why, show_reach
from gpupool.terminal.confirm import confirm_plan
from gpupool.terminal.context import CommandContext, print_notice
from gpupool.terminal.listing import add_limit, describe_instant, show_list
from gpupool.terminal.output import Row, TableColumn, format_pairs, format_table, print_data
from gpupool.terminal.parser import (
    OBJECT_FORMATS,
    CommandParser,
    add_output,
    add_yes,
    integer_within,
)
from gpupool.terminal.references import quote_segment

#: Seconds in which an engine starts or ends; it goes on by itself afterwards.
_ENGINE_SECONDS: Final = 60.0
_LOOK_SECONDS: Final = 0.2


def register(parser: CommandParser) -> None:
    parser.about = """
    A network is a virtual private cloud (VPC) of one tenant: its jobs reach each other there, by address and by name,
    and nothing else. Networks of two tenants may have the same addresses. A job joins with --network NAME.
    An admin enables the engine once (OVN, on the machines of the pool); a tenant-admin creates networks.
    """
    parser.examples = [
        "gpupool network enable",
        "gpupool network create lab --cidr 10.0.0.0/24",
        "gpupool run --network lab --gpu 0.3 -- python serve.py",
        "gpupool network show lab",
        "gpupool network delete lab",
    ]
    parser.add_verbs()
    _register_engine(parser)
    _register_networks(parser)
    register_gateway(parser)
    register_peerings(parser)
    register_groups(parser)
    register_balancers(parser)
    register_proxies(parser)
    register_default(parser)
    register_forwards(parser)
    register_firewall(parser)
    register_limits(parser)
    register_records(parser)
    register_verify(parser)
    register_lines(parser)
    register_why(parser)


def _register_engine(parser: CommandParser) -> None:
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


def _register_networks(parser: CommandParser) -> None:
    create = parser.add_verb("create", "create a network with one subnet")
    create.add_argument("name", metavar="NAME", help="the name that jobs use")
    create.add_argument(
        "--cidr", required=True, metavar="PREFIX", help="its addresses, e.g. 10.0.0.0/24"
    )
    mtu = integer_within("--mtu", "bytes of a packet", 576, 9000)
    create.add_argument(
        "--mtu", type=mtu, default=1442, metavar="BYTES", help="largest packet (default: 1442)"
    )
    _add_tenant(create)
    add_output(create, OBJECT_FORMATS)
    listing = parser.add_verb("list", "networks of your tenant; every network for an admin")
    add_limit(listing)
    add_output(listing)
    show = parser.add_verb("show", "one network with the jobs in it")
    show.add_argument("name", metavar="NAME", help="name or id")
    _add_tenant(show)
    add_output(show, OBJECT_FORMATS)
    delete = parser.add_verb("delete", "delete a network; refused while jobs are in it")
    delete.add_argument("name", metavar="NAME", help="name or id")
    _add_tenant(delete)
    add_yes(delete)
    subnet = parser.add_verb("subnet-create", "add a subnet to a network")
    subnet.add_argument("name", metavar="NAME", help="the network")
    subnet.add_argument("--cidr", required=True, metavar="PREFIX", help="e.g. 10.0.1.0/24")
    subnet.add_argument(
        "--subnet", default=None, metavar="NAME", help="its name (default: by its prefix)"
    )
    _add_tenant(subnet)
    add_output(subnet, OBJECT_FORMATS)
    removal = parser.add_verb("subnet-delete", "delete a subnet; refused while jobs are in it")
    removal.add_argument("name", metavar="NAME", help="the network")
    removal.add_argument("subnet", metavar="SUBNET", help="the name of the subnet")
    _add_tenant(removal)


def _add_tenant(parser: CommandParser) -> None:
    parser.add_argument("--tenant", metavar="TENANT", help="of another tenant (admins)")


def run(options: argparse.Namespace, context: CommandContext) -> int:
    return int(_VERBS[options.verb](options, context))


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


def _create_network(options: argparse.Namespace, context: CommandContext) -> int:
    body = {
        "name": check_name(options.name, "network name"),
        "subnets": [{"name": "default", "cidr": options.cidr}],
        "mtu": options.mtu,
        "tenant": options.tenant,
    }
    made = context.api.request("POST", "networks", body, idempotency_key=os.urandom(16).hex())
    if options.output != "table":
        print_data(made, options.output)
        return 0
    sys.stdout.write(f"{made['name']}\n")
    print_notice(f"jobs join with  gpupool run --network {made['name']} ...")
    return 0


def _list_networks(options: argparse.Namespace, context: CommandContext) -> int:
    return show_list(
        context,
        "networks",
        {},
        COLUMNS,
        options.output,
        limit=options.limit,
        wire=_wire_model,
        empty="no networks",
    )


def _show_network(options: argparse.Namespace, context: CommandContext) -> int:
    network = context.api.request("GET", _path(options), query={"tenant": options.tenant})
    if options.output != "table":
        print_data(network, options.output)
        return 0
    facts: list[tuple[str, object]] = [
        ("network", network["name"]),
        ("id", network["id"]),
        ("tenant", network["tenant"]),
        ("domain", network["domain"]),
        ("mtu", network["mtu"]),
        ("gateway", "none" if network["gateway"] is None else network["gateway"]["state"]),
        ("default", "yes" if network["is_default"] else "no"),
        ("created", describe_instant(network["created_ns"])),
    ]
    sys.stdout.write(format_pairs(facts) + "\n\n")
    sys.stdout.write(format_table(network["subnets"], SUBNET_COLUMNS) + "\n")
    if network["ports"]:
        sys.stdout.write("\n" + format_table(network["ports"], PORT_COLUMNS) + "\n")
    return 0


def _delete_network(options: argparse.Namespace, context: CommandContext) -> int:
    # Read first: an unknown network is refused before the question.
    network = context.api.request("GET", _path(options), query={"tenant": options.tenant})
    confirm_plan([f"delete network {network['name']} of {network['tenant']}"], yes=options.yes)
    context.api.request("DELETE", _path(options), query={"tenant": options.tenant})
    sys.stdout.write(f"{network['name']} deleted\n")
    return 0


def _create_subnet(options: argparse.Namespace, context: CommandContext) -> int:
    name = options.subnet or options.cidr.replace("/", "-")
    body = {"name": check_name(name, "subnet name"), "cidr": options.cidr}
    path = f"{_path(options)}/subnets"
    query = {"tenant": options.tenant}
    network = context.api.request(
        "POST", path, body, query=query, idempotency_key=os.urandom(16).hex()
    )
    if options.output != "table":
        print_data(network, options.output)
        return 0
    sys.stdout.write(f"{name}\n")
    return 0


def _delete_subnet(options: argparse.Namespace, context: CommandContext) -> int:
    subnet = quote_segment(options.subnet, "subnet")
    path = f"{_path(options)}/subnets/{subnet}"
    context.api.request("DELETE", path, query={"tenant": options.tenant})
    sys.stdout.write(f"{options.subnet} deleted\n")
    return 0


def _path(options: argparse.Namespace) -> str:
    return f"networks/{quote_segment(options.name, 'network')}"


def _wire_model() -> Any:
    from gpupool.wire.networks import NetworkOut

    return NetworkOut


def _list_prefixes(row: Row) -> str:
    return ", ".join(subnet["cidr"] for subnet in row["subnets"])


def _count_jobs(row: Row) -> int:
    return sum(subnet["used"] for subnet in row["subnets"])


COLUMNS = (
    TableColumn("NAME", lambda row: row["name"]),
    TableColumn("TENANT", lambda row: row["tenant"]),
    TableColumn("SUBNETS", _list_prefixes),
    TableColumn("JOBS", _count_jobs, right=True),
    TableColumn("DOMAIN", lambda row: row["domain"]),
    TableColumn("ID", lambda row: row["id"], wide=True),
    TableColumn("MTU", lambda row: row["mtu"], right=True, wide=True),
    TableColumn("CREATED", lambda row: describe_instant(row["created_ns"]), wide=True),
)
SUBNET_COLUMNS = (
    TableColumn("SUBNET", lambda row: row["name"]),
    TableColumn("PREFIX", lambda row: row["cidr"]),
    TableColumn("ROUTER", lambda row: row["gateway"]),
    TableColumn("JOBS", lambda row: row["used"], right=True),
    TableColumn("FREE", lambda row: row["free"], right=True),
)
PORT_COLUMNS = (
    TableColumn("JOB", lambda row: row["job_name"]),
    TableColumn("ADDRESS", lambda row: row["address"]),
    TableColumn("SUBNET", lambda row: row["subnet"]),
    TableColumn("MAC", lambda row: row["mac"]),
)
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
_VERBS = {
    "enable": _enable_engine,
    "disable": _disable_engine,
    "status": _show_engine,
    "create": _create_network,
    "list": _list_networks,
    "show": _show_network,
    "delete": _delete_network,
    "subnet-create": _create_subnet,
    "subnet-delete": _delete_subnet,
    **GATEWAY_VERBS,
    **PEERING_VERBS,
    **GROUP_VERBS,
    **BALANCER_VERBS,
    **PROXY_VERBS,
    "default": set_default,
    **FORWARD_VERBS,
    **FIREWALL_VERBS,
    **LIMIT_VERBS,
    **RECORD_VERBS,
    "verify": verify_networks,
    **LINE_VERBS,
    "why": show_reach,
}
