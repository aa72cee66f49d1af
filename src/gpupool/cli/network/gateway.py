"""The verbs of `gpupool network` for gateways."""

from __future__ import annotations

import argparse
import sys
import time
from typing import Final

from gpupool.base.errors import NetworkingUnavailable
from gpupool.terminal.context import CommandContext
from gpupool.terminal.output import print_data
from gpupool.terminal.parser import OBJECT_FORMATS, CommandParser, add_output
from gpupool.terminal.references import quote_segment

#: Seconds in which a gateway comes up; it goes on by itself afterwards.
_GATEWAY_SECONDS: Final = 60.0
_LOOK_SECONDS: Final = 0.2


def register_gateway(parser: CommandParser) -> None:
    """Add the verbs."""
    create = parser.add_verb(
        "gateway-create", "let the jobs of a network reach what lies outside of the pool"
    )
    delete = parser.add_verb("gateway-delete", "cut a network off from what lies outside")
    for verb in (create, delete):
        verb.add_argument("name", metavar="NAME", help="the network")
        verb.add_argument("--tenant", metavar="TENANT", help="of another tenant (admins)")
        add_output(verb, OBJECT_FORMATS)


def _create_gateway(options: argparse.Namespace, context: CommandContext) -> int:
    path = f"{_path(options)}/gateway"
    query = {"tenant": options.tenant}
    network = context.api.request("PUT", path, query=query)
    deadline = time.monotonic() + _GATEWAY_SECONDS
    while network["gateway"]["state"] == "starting":
        if time.monotonic() >= deadline:
            raise NetworkingUnavailable(
                f"the gateway is not ready after {_GATEWAY_SECONDS:g} s",
                hint="gpupool network status  says why",
            )
        time.sleep(_LOOK_SECONDS)
        network = context.api.request("GET", _path(options), query=query)
    if options.output != "table":
        print_data(network, options.output)
        return 0
    sys.stdout.write(f"{network['name']}: jobs that start now reach what lies outside\n")
    return 0


def _delete_gateway(options: argparse.Namespace, context: CommandContext) -> int:
    path = f"{_path(options)}/gateway"
    network = context.api.request("DELETE", path, query={"tenant": options.tenant})
    if options.output != "table":
        print_data(network, options.output)
        return 0
    sys.stdout.write(f"{network['name']}: jobs reach nothing outside\n")
    return 0


def _path(options: argparse.Namespace) -> str:
    return f"networks/{quote_segment(options.name, 'network')}"


GATEWAY_VERBS = {"gateway-create": _create_gateway, "gateway-delete": _delete_gateway}
