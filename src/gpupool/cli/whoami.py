"""`gpupool whoami`: who the pool thinks you are, and what your tenant may hold."""

from __future__ import annotations

import argparse
import sys

from gpupool.cli import own_room
from gpupool.cli.context import Context
from gpupool.cli.output import pairs, print_data
from gpupool.cli.parser import OBJECT_FORMATS, Parser, add_output
from gpupool.cli.quota import quota_facts


def register(parser: Parser) -> None:
    parser.examples = ["gpupool whoami", "gpupool whoami -o json"]
    add_output(parser, OBJECT_FORMATS)


def run(options: argparse.Namespace, context: Context) -> int:
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
    room = own_room.facts(own_room.own_room(context))
    sys.stdout.write(pairs([*facts, *quota_facts(who["quota"]), *room]) + "\n")
    return 0
