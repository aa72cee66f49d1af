"""The verbs of `gpupool network` for quotas of tenants."""

from __future__ import annotations

import argparse
from typing import Any, Final

from gpupool.base.errors import BadOption
from gpupool.terminal.context import CommandContext
from gpupool.terminal.output import TableColumn, print_list
from gpupool.terminal.parser import CommandParser, add_output
from gpupool.terminal.references import quote_segment

#: By field of the request, what its option says.
_KINDS: Final = {
    "networks": "networks",
    "gateways": "networks with a gateway",
    "load_balancers": "load balancers",
    "port_forwards": "port forwards",
    "floating_ips": "floating IPs",
    "lines": "dedicated lines",
    "peerings": "peerings that it asked for",
    "security_groups": "security groups",
    "jobs": "jobs in networks, waiting ones too",
}
_NONE: Final = "none"


def register_quotas(parser: CommandParser) -> None:
    """Add the verbs."""
    change = parser.add_verb("quota-set", "what a tenant may have at most (admins)")
    listing = parser.add_verb("quota-list", "what a tenant may have at most, and what it has")
    change.add_argument("tenant", metavar="TENANT", help="the tenant")
    listing.add_argument("tenant", nargs="?", metavar="TENANT", help="default: your own")
    for kind, text in _KINDS.items():
        option = f"--{kind.replace('_', '-')}"
        change.add_argument(
            option, dest=kind, type=_parse_most, metavar="N", help=f"{text}; none: no quota"
        )
    add_output(change)
    add_output(listing)


def _parse_most(text: str) -> int | str:
    if text == _NONE:
        return _NONE
    if not (text.isascii() and text.isdigit()) or int(text) > 1_000_000:
        raise BadOption(
            f"{text!r} is no quota", hint="write a whole number from 0 to 1000000, or none"
        )
    return int(text)


def _set_quotas(options: argparse.Namespace, context: CommandContext) -> int:
    body: dict[str, Any] = {}
    for kind in _KINDS:
        most = getattr(options, kind)
        if most is not None:
            body[kind] = None if most == _NONE else most
    if not body:
        raise BadOption("no quota to set", hint="name one, as --networks 4 or --jobs none")
    quotas = context.api.request("PUT", _path(options.tenant), body)
    print_list(quotas, COLUMNS, options.output, empty="no quotas")
    return 0


def _list_quotas(options: argparse.Namespace, context: CommandContext) -> int:
    tenant = options.tenant or context.api.request("GET", "whoami")["tenant"]
    quotas = context.api.request("GET", _path(tenant))
    print_list(quotas, COLUMNS, options.output, empty="no quotas")
    return 0


def _path(tenant: str) -> str:
    return f"tenants/{quote_segment(tenant, 'tenant')}/network-quota"


COLUMNS = (
    TableColumn("OF", lambda row: _KINDS.get(row["kind"], row["kind"])),
    TableColumn("USED", lambda row: row["used"], right=True),
    TableColumn("QUOTA", lambda row: "none" if row["most"] is None else row["most"], right=True),
)
QUOTA_VERBS = {"quota-set": _set_quotas, "quota-list": _list_quotas}
