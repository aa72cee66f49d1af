"""`gpupool mode`: set a card up for another purpose."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from gpupool.model.device import CardMode
from gpupool.terminal.context import CommandContext
from gpupool.terminal.output import print_data
from gpupool.terminal.parser import OBJECT_FORMATS, CommandParser, add_output, one_of
from gpupool.terminal.references import quote_segment


def register(parser: CommandParser) -> None:
    parser.about = """
    A card in mode mig is handed out in MIG instances, one in mode passthrough to VMs, and so on; plain is the mode of
    whole cards and shares. The card is drained, set up by its agent, looked at again and handed out again. Jobs on it
    run to their end. The switch goes on by itself, also after a server or an agent was killed; `plain` turns it back.
    AMD cards have compute partitions (dpx to cpx), in which they serve what they serve in mode plain.
    """
    parser.examples = [
        "gpupool mode node-1:0 mig --dry-run",
        "gpupool mode node-1:0 mig",
        "gpupool mode 0 plain",
    ]
    parser.add_argument("card", metavar="CARD", help="node:index, uuid, or an index")
    modes = [str(mode) for mode in CardMode]
    parser.add_argument("mode", metavar="MODE", type=one_of("MODE", *modes), help=", ".join(modes))
    parser.add_argument(
        "--dry-run", action="store_true", help="show every step and what is in the way"
    )
    add_output(parser, OBJECT_FORMATS)


def run(options: argparse.Namespace, context: CommandContext) -> int:
    body = {"mode": options.mode, "dry_run": options.dry_run}
    path = f"devices/{quote_segment(options.card, 'card')}/mode"
    plan = context.api.request("POST", path, body)
    if options.output != "table":
        print_data(plan, options.output)
    else:
        sys.stdout.write(_describe_plan(plan))
    return 1 if options.dry_run and plan["blocked_by"] else 0


def _describe_plan(plan: dict[str, Any]) -> str:
    if plan["state"] == "done":
        return f"{plan['device']} is in mode {plan['mode']}\n"
    lines = [f"{plan['device']}: {plan['mode']} -> {plan['wanted']}  ({_describe_state(plan)})"]
    for number, step in enumerate(plan["steps"], 1):
        lines.append(f"  {number}. {step}")
    lines += [f"blocked: {reason}" for reason in plan["blocked_by"]]
    if plan["seconds"] is not None:
        lines.append(f"takes about {plan['seconds']:g} s once the card is free")
    if plan["state"] != "planned":
        lines.append(f"gpupool show {plan['device']} says how far it is")
    return "\n".join(lines) + "\n"


def _describe_state(plan: dict[str, Any]) -> str:
    if plan["state"] == "planned":
        return "nothing was changed"
    return str(plan["state"]) + (f": {plan['reason']}" if plan["reason"] else "")
