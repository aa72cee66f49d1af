"""`gpupool defrag`: which jobs to move so that whole nodes come free, and to move them when asked to."""

from __future__ import annotations

import argparse
from typing import Any

from gpupool.base.units import format_duration
from gpupool.cli.context import Context
from gpupool.cli.moves import JOB, LOSES, TENANT, add_apply, add_limits, limits, reserved, show_and_apply
from gpupool.cli.output import Column, many, table
from gpupool.cli.parser import OBJECT_FORMATS, Parser, add_output, number


def register(parser: Parser) -> None:
    parser.about = """
    Shows which jobs to move, what work that loses, and which whole cards and nodes it brings. Nothing is moved without
    --apply. Only jobs that were submitted with --preemptible move; the cards they go to are kept for them first, then
    they are told to leave and start again there. What a reservation holds is taken by no move. Admins only.
    """
    parser.examples = [
        "gpupool defrag",
        "gpupool defrag --cards 4 --blocks 2 --max-lost 2h",
        "gpupool defrag --apply --max-moves 10",
    ]
    add_apply(parser)
    cards = number("--cards", "the number of cards", 1, 1024)
    parser.add_argument(
        "--cards", type=cards, metavar="N", help="whole cards wanted together on one node (default: all)"
    )
    blocks = number("--blocks", "the number of blocks", 1, 100_000)
    parser.add_argument(
        "--blocks", type=blocks, metavar="N", help="how many more of them (default: as many as can be had)"
    )
    add_limits(parser)
    seconds = number("--seconds", "the solver's seconds", 0, 60)
    parser.add_argument(
        "--seconds", type=seconds, default=5, metavar="N", help="for the solver; 0: greedy only (default: 5)"
    )
    add_output(parser, OBJECT_FORMATS)


def run(options: argparse.Namespace, context: Context) -> int:
    asked = {"cards": options.cards, "blocks": options.blocks, "seconds": options.seconds, **limits(options)}
    return show_and_apply(options, context, context.api.request("POST", "defrag/plan", asked), text)


def text(found: dict[str, Any]) -> str:
    """The plan for people: moves, then the gain and the price."""
    if not found["moves"]:
        movable = many(found["movable"], "job")
        nothing = f"nothing to gain: {movable} with --preemptible may be moved, and no move frees more whole cards\n"
        return nothing + reserved(found)
    gains = "; ".join(f"{name} {before} -> {after}" for name, (before, after) in _gains(found))
    lost = format_duration(found["lost_seconds"])
    head = f"{many(len(found['moves']), 'move')} ({found['by']}), {lost} of work to do again: {gains}\n\n"
    return head + table(found["moves"], MOVES) + "\n" + reserved(found)


def _gains(found: dict[str, Any]) -> list[tuple[str, tuple[int, int]]]:
    blocks = [] if found["blocks"] == found["whole_nodes"] else [("blocks", tuple(found["blocks"]))]
    return [("whole cards", tuple(found["whole_cards"])), ("whole nodes", tuple(found["whole_nodes"])), *blocks]


MOVES = (
    JOB,
    TENANT,
    Column("FROM", lambda move: move["from_node"]),
    Column("TO", lambda move: move["node"]),
    Column("CARDS", lambda move: len(move["cards"]), right=True),
    LOSES,
)
