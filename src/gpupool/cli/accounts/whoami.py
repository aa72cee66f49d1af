"""`gpupool whoami`: the user that the pool takes the caller for, and what its tenant may hold."""

from __future__ import annotations

import argparse
import sys

from gpupool.cli.accounts import tenant_limits
from gpupool.cli.accounts.quota import quota_facts
from gpupool.terminal.context import CommandContext
from gpupool.terminal.output import format_pairs, print_data
from gpupool.terminal.parser import OBJECT_FORMATS, CommandParser, add_output


def register(parser: CommandParser) -> None:
    parser.examples = ["gpupool whoami", "gpupool whoami -o json"]
    add_output(parser, OBJECT_FORMATS)


def run(options: argparse.Namespace, context: CommandContext) -> int:
    who = context.api.request("GET", "whoami")
    if options.output != "table":
        print_data(who, options.output)
        return 0
    facts: list[tuple[str, object]] = [
        ("user", who["user"]),
        ("tenant", who["tenant"]),
        ("role", who["role"]),
        ("may", ", ".join(who["permissions"])),
        ("jobs run as", who["unix_user"] or "nobody: no Unix user is bound"),
        ("pool", f"{who['pool']} at {context.api.endpoint}"),
    ]
    # What may be taken now is another request: it is computed for the whole pool.
    room = tenant_limits.list_facts(tenant_limits.fetch_room(context))
    sys.stdout.write(format_pairs([*facts, *quota_facts(who["quota"]), *room]) + "\n")
    return 0
