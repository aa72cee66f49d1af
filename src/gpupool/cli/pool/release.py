"""`gpupool release`: take cards back from the pool."""

from __future__ import annotations

import argparse
import sys

from gpupool.cli.pool.adopt import add_cards, list_chosen
from gpupool.terminal.context import CommandContext
from gpupool.terminal.parser import CommandParser


def register(parser: CommandParser) -> None:
    parser.about = """
    The pool stops handing out the cards. Refused while jobs hold shares on one of them; with --drain those jobs run to
    their end and no new job is placed there.
    """
    parser.examples = ["gpupool release 0,1", "gpupool release node-1:3 --drain"]
    add_cards(parser)
    parser.add_argument(
        "--drain", action="store_true", help="wait for the jobs on them instead of refusing"
    )


def run(options: argparse.Namespace, context: CommandContext) -> int:
    names = list_chosen(context, options.cards, "adopted")
    if not names:
        sys.stdout.write("no card is adopted\n")
        return 0
    body = {"devices": names, "drain": options.drain}
    for row in context.api.request("POST", "devices/release", body):
        # A draining card goes when the last of its shares is given back.
        waits = f", {row['shares']} shares still on it" if row["state"] == "draining" else ""
        sys.stdout.write(f"{row['name']} ({row['model']}) {row['state']}{waits}\n")
    return 0
