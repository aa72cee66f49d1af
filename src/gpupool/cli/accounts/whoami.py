"""`gpupool whoami`: the user that the pool takes the caller for, and what its tenant may hold."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from gpupool.base.errors import NoPermission, NotFound
from gpupool.cli.accounts import tenant_limits
from gpupool.cli.accounts.budget import format_amount
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
    budgets = _list_budgets(who, context)
    sys.stdout.write(format_pairs([*facts, *quota_facts(who["quota"]), *room, *budgets]) + "\n")
    return 0


def _list_budgets(who: Mapping[str, Any], context: CommandContext) -> Iterator[tuple[str, object]]:
    """List what is spent of the budgets that count for the caller, and what the period will come to."""
    try:
        found = context.api.request("GET", "budgets")
    except (NotFound, NoPermission):
        return  # a server from before budgets, or a token that may not read them
    for budget in found:
        if budget["tenant"] != who["tenant"] or budget["user"] not in (None, who["user"]):
            continue
        spent = format_amount(budget, budget["spent"])
        whole = format_amount(budget, budget["amount"])
        where = "" if budget["project"] is None else f" (project {budget['project']})"
        yield "budget", f"{spent} of {whole} spent in {budget['period_name']}{where}"
        seen = budget["forecast"]
        yield (
            "forecast",
            None if seen is None else f"{format_amount(budget, seen['end'])} at its end",
        )
