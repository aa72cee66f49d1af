"""`gpupool adopt`: let the pool hand cards out."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from gpupool.base.errors import BadOption
from gpupool.client.paging import iterate_items
from gpupool.terminal.context import CommandContext
from gpupool.terminal.parser import CommandParser


def register(parser: CommandParser) -> None:
    parser.about = """
    Real cards start observed: shown and not used. Adopted cards are handed out in shares. Adopting changes nothing on
    the card, and running processes continue.
    """
    parser.examples = ["gpupool adopt 0,1", "gpupool adopt node-1:3", "gpupool adopt all"]
    add_cards(parser)


def add_cards(parser: argparse.ArgumentParser) -> None:
    """Add the names of cards, for `adopt` and `release`."""
    text = "node:index, uuid, an index on a pool of one node, several with commas; or `all`"
    parser.add_argument("cards", nargs="+", metavar="CARD", help=text)


def list_chosen(context: CommandContext, cards: Sequence[str], state: str) -> list[str]:
    """Return the cards as named; `all` is every card in that state."""
    names = [name for name in ",".join(cards).split(",") if name]
    if names == ["all"]:
        return [row["name"] for row in iterate_items(context.api, "devices", {"state": state})]
    # `all` beside names is a mistake in either of them; all or nothing is adopted in one request.
    if not names or "all" in names:
        raise BadOption("name cards, or `all` alone", hint="gpupool gpus  lists them")
    return names


def run(options: argparse.Namespace, context: CommandContext) -> int:
    names = list_chosen(context, options.cards, "observed")
    if not names:
        sys.stdout.write("no card is left to adopt\n")
        return 0
    # One request, so that either all cards are adopted or none.
    for row in context.api.request("POST", "devices/adopt", {"devices": names}):
        sys.stdout.write(f"{row['name']} ({row['model']}) {row['state']}\n")
    return 0
