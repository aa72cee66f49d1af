"""`gpupool adopt`: let the pool hand cards out."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from gpupool.base.errors import BadOption
from gpupool.cli.context import Context
from gpupool.cli.parser import Parser
from gpupool.client.paging import every


def register(parser: Parser) -> None:
    parser.about = """
    Real cards start observed: shown, never touched. Adopted ones are handed out in shares. Nothing on the card
    is changed by adopting it, and processes that are already there are left alone.
    """
    parser.examples = ["gpupool adopt 0,1", "gpupool adopt node-1:3", "gpupool adopt all"]
    add_cards(parser)


def add_cards(parser: argparse.ArgumentParser) -> None:
    text = "node:index, uuid, an index on a pool of one node, several with commas; or `all`"
    parser.add_argument("cards", nargs="+", metavar="CARD", help=text)


def chosen(context: Context, cards: Sequence[str], state: str) -> list[str]:
    """The cards as named; `all` is every card in that state."""
    names = [name for word in cards for name in word.split(",") if name]
    if names == ["all"]:
        return [row["name"] for row in every(context.api, "devices", {"state": state})]
    if not names or "all" in names:
        raise BadOption("name cards, or `all` alone", hint="gpupool gpus  lists them")
    return names


def run(options: argparse.Namespace, context: Context) -> int:
    names = chosen(context, options.cards, "observed")
    if not names:
        sys.stdout.write("no card is left to adopt\n")
        return 0
    for row in context.api.request("POST", "devices/adopt", {"devices": names}):
        sys.stdout.write(f"{row['name']} ({row['model']}) {row['state']}\n")
    return 0
