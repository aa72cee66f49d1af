"""`gpupool network why`: whether a job reaches a target, and which object decides."""

from __future__ import annotations

import argparse
import sys

from gpupool.base.errors import WrongState
from gpupool.terminal.context import CommandContext
from gpupool.terminal.output import format_pairs, print_data
from gpupool.terminal.parser import OBJECT_FORMATS, CommandParser, add_output, integer_within
from gpupool.terminal.references import quote_segment


def register_why(parser: CommandParser) -> None:
    """Add the verb."""
    why = parser.add_verb(
        "why", "whether a job reaches another one or an address, and what decides"
    )
    why.add_argument("job", metavar="JOB", help="the job that asks, in a network")
    why.add_argument("target", metavar="TARGET", help="name in its network, or an address")
    why.add_argument(
        "--port",
        type=integer_within("--port", "a port", 1, 65535),
        metavar="PORT",
        help="destination port (default: every port)",
    )
    why.add_argument("--protocol", choices=("tcp", "udp", "icmp"), default="tcp")
    why.add_argument(
        "--ipv6", action="store_true", help="a name stands for its IPv6 address (default: IPv4)"
    )
    add_output(why, OBJECT_FORMATS)


def show_reach(options: argparse.Namespace, context: CommandContext) -> int:
    job = context.api.request("GET", f"jobs/{quote_segment(options.job, 'job')}")
    if job["network"] is None or job["address"] is None:
        why_not = "joins no network" if job["network"] is None else f"is {job['state']}"
        raise WrongState(
            f"{job['name']} {why_not}, so it has no address in one",
            hint="jobs join one with  gpupool run --network NAME",
        )
    query = {
        "source": job["address"],
        "target": options.target,
        "protocol": options.protocol,
        "port": options.port,
        "ipv6": "true" if options.ipv6 else None,
        "tenant": job["tenant"],
    }
    path = f"networks/{quote_segment(job['network'], 'network')}/reach"
    reach = context.api.request("GET", path, query=query)
    if options.output != "table":
        print_data(reach, options.output)
        return 0
    facts: list[tuple[str, object]] = [
        ("reaches", {True: "yes", False: "no", None: "--"}[reach["is_reached"]]),
        ("decided by", reach["object"]),
        ("reason", reach["reason"]),
        ("change it", reach["hint"]),
    ]
    sys.stdout.write(format_pairs([fact for fact in facts if fact[1]]) + "\n")
    return 0
