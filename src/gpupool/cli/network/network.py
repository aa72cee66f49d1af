"""`gpupool network`: networks of tenants, and the engine that carries them."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from gpupool.base.ids import check_name
from gpupool.cli.network.balancers import BALANCER_VERBS, register_balancers
from gpupool.cli.network.default import register_default, set_default
from gpupool.cli.network.engine import ENGINE_VERBS, register_engine
from gpupool.cli.network.firewall import FIREWALL_VERBS, register_firewall
from gpupool.cli.network.forwards import FORWARD_VERBS, register_forwards
from gpupool.cli.network.gateway import GATEWAY_VERBS, register_gateway
from gpupool.cli.network.gateway_pair import GATEWAY_PAIR_VERBS, register_gateway_pair
from gpupool.cli.network.groups import GROUP_VERBS, register_groups
from gpupool.cli.network.limits import LIMIT_VERBS, register_limits
from gpupool.cli.network.lines import LINE_VERBS, register_lines
from gpupool.cli.network.peerings import PEERING_VERBS, register_peerings
from gpupool.cli.network.planes.demands import PLANE_VERBS, register_planes
from gpupool.cli.network.planes.files import PLANE_FILE_VERBS, register_plane_files
from gpupool.cli.network.proxies import PROXY_VERBS, register_proxies
from gpupool.cli.network.records import RECORD_VERBS, register_records
from gpupool.cli.network.tenancy.quotas import QUOTA_VERBS, register_quotas
from gpupool.cli.network.traffic.floating_ips import FLOATING_IP_VERBS, register_floating_ips
from gpupool.cli.network.traffic.flows import FLOW_LOG_VERBS, register_flow_logs
from gpupool.cli.network.traffic.mirrors import MIRROR_VERBS, register_mirrors
from gpupool.cli.network.traffic.routes import ROUTE_VERBS, register_routes
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
    parser.begin_heading("the engine")
    register_engine(parser)
    parser.begin_heading("networks, subnets and names")
    _register_networks(parser)
    register_default(parser)
    register_records(parser)
    register_quotas(parser)
    parser.begin_heading("what reaches what")
    register_why(parser)
    register_verify(parser)
    register_groups(parser)
    register_peerings(parser)
    register_routes(parser)
    parser.begin_heading("to and from outside")
    register_gateway(parser)
    register_gateway_pair(parser)
    register_forwards(parser)
    register_floating_ips(parser)
    register_firewall(parser)
    register_lines(parser)
    parser.begin_heading("load balancers")
    register_balancers(parser)
    register_proxies(parser)
    parser.begin_heading("bandwidth and packets")
    register_limits(parser)
    register_flow_logs(parser)
    register_mirrors(parser)
    parser.begin_heading("other networks of a node")
    register_planes(parser)
    register_plane_files(parser)


def _register_networks(parser: CommandParser) -> None:
    create = parser.add_verb("create", "create a network with one subnet")
    create.add_argument("name", metavar="NAME", help="the name that jobs use")
    create.add_argument(
        "--cidr", required=True, metavar="PREFIX", help="its addresses, e.g. 10.0.0.0/24"
    )
    _add_cidr6(create)
    mtu = integer_within("--mtu", "bytes of a packet", 576, 9000)
    create.add_argument(
        "--mtu", type=mtu, default=1442, metavar="BYTES", help="largest packet (default: 1442)"
    )
    create.add_argument(
        "--zone",
        type=integer_within("--zone", "number of a zone", 0, 10_000),
        metavar="N",
        help="zone of a network that it is to be peered with (default: the pool chooses)",
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
    _add_cidr6(subnet)
    subnet.add_argument(
        "--subnet", default=None, metavar="NAME", help="its name (default: by its prefix)"
    )
    _add_tenant(subnet)
    add_output(subnet, OBJECT_FORMATS)
    removal = parser.add_verb("subnet-delete", "delete a subnet; refused while jobs are in it")
    removal.add_argument("name", metavar="NAME", help="the network")
    removal.add_argument("subnet", metavar="SUBNET", help="the name of the subnet")
    _add_tenant(removal)


def _add_cidr6(parser: CommandParser) -> None:
    parser.add_argument(
        "--cidr6",
        metavar="PREFIX",
        help="its IPv6 addresses too: a /64 of fd00::/8, or auto (default: no IPv6)",
    )


def _add_tenant(parser: CommandParser) -> None:
    parser.add_argument("--tenant", metavar="TENANT", help="of another tenant (admins)")


def run(options: argparse.Namespace, context: CommandContext) -> int:
    return int(_VERBS[options.verb](options, context))


def _create_network(options: argparse.Namespace, context: CommandContext) -> int:
    body = {
        "name": check_name(options.name, "network name"),
        "subnets": [{"name": "default", "cidr": options.cidr, "cidr6": options.cidr6}],
        "mtu": options.mtu,
        "tenant": options.tenant,
        "zone": options.zone,
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
        *([("zone", network["zone"])] if network["zone"] else ()),
        ("created", describe_instant(network["created_ns"])),
    ]
    sys.stdout.write(format_pairs(facts) + "\n\n")
    has_ipv6 = any(subnet["cidr6"] for subnet in network["subnets"])
    more = SUBNET_COLUMNS6 if has_ipv6 else ()
    sys.stdout.write(format_table(network["subnets"], (*SUBNET_COLUMNS, *more)) + "\n")
    if network["ports"]:
        more = PORT_COLUMNS6 if has_ipv6 else ()
        sys.stdout.write("\n" + format_table(network["ports"], (*PORT_COLUMNS, *more)) + "\n")
    if has_ipv6 and network["gateway"] is not None and network["gateway"]["address6"] is None:
        print_notice(
            "the gateway carries IPv4 alone; an admin changes it: "
            "gpupool network enable --gateway-ipv6 on"
        )
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
    body = {
        "name": check_name(name, "subnet name"),
        "cidr": options.cidr,
        "cidr6": options.cidr6,
    }
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
    from gpupool.wire.network.networks import NetworkOut

    return NetworkOut


def _list_prefixes(row: Row) -> str:
    prefixes = [subnet["cidr"] for subnet in row["subnets"]]
    return ", ".join(prefixes + [subnet["cidr6"] for subnet in row["subnets"] if subnet["cidr6"]])


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
    TableColumn("ZONE", lambda row: row["zone"], right=True, wide=True),
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
#: Shown where a subnet of the network has IPv6.
SUBNET_COLUMNS6: tuple[TableColumn, ...] = (
    TableColumn("IPV6 PREFIX", lambda row: row["cidr6"]),
    TableColumn("IPV6 ROUTER", lambda row: row["gateway6"]),
)
PORT_COLUMNS6: tuple[TableColumn, ...] = (TableColumn("IPV6 ADDRESS", lambda row: row["address6"]),)
_VERBS = {
    **ENGINE_VERBS,
    "create": _create_network,
    "list": _list_networks,
    "show": _show_network,
    "delete": _delete_network,
    "subnet-create": _create_subnet,
    "subnet-delete": _delete_subnet,
    **GATEWAY_VERBS,
    **GATEWAY_PAIR_VERBS,
    **PEERING_VERBS,
    **GROUP_VERBS,
    **BALANCER_VERBS,
    **PROXY_VERBS,
    "default": set_default,
    **FORWARD_VERBS,
    **FLOATING_IP_VERBS,
    **FIREWALL_VERBS,
    **LIMIT_VERBS,
    **RECORD_VERBS,
    **QUOTA_VERBS,
    "verify": verify_networks,
    **LINE_VERBS,
    **ROUTE_VERBS,
    **FLOW_LOG_VERBS,
    **MIRROR_VERBS,
    **PLANE_VERBS,
    **PLANE_FILE_VERBS,
    "why": show_reach,
}
