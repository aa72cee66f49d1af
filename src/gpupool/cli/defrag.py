"""`gpupool defrag`: which jobs to move so that whole nodes come free, and to move them when asked to."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from gpupool.base.units import format_duration, parse_duration
from gpupool.cli.confirm import confirm
from gpupool.cli.context import Context
from gpupool.cli.output import Column, many, print_data, table
from gpupool.cli.parser import OBJECT_FORMATS, Parser, add_output, number


def register(parser: Parser) -> None:
    parser.about = """
    Shows which jobs to move, what work that loses, and which whole cards and nodes it brings. Nothing is moved without
    --apply. Only jobs that were submitted with --preemptible move; the cards they go to are kept for them first, then
    they are told to leave and start again there. Admins only.
    """
    parser.examples = [
        "gpupool defrag",
        "gpupool defrag --cards 4 --blocks 2 --max-lost 2h",
        "gpupool defrag --apply --max-moves 10",
    ]
    parser.add_argument("--plan", action="store_true", help="only show what would be moved (the default)")
    parser.add_argument("--apply", action="store_true", help="move them, after the plan and a question")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    cards = number("--cards", "the number of cards", 1, 1024)
    parser.add_argument(
        "--cards", type=cards, metavar="N", help="whole cards wanted together on one node (default: all)"
    )
    blocks = number("--blocks", "the number of blocks", 1, 100_000)
    parser.add_argument(
        "--blocks", type=blocks, metavar="N", help="how many more of them (default: as many as can be had)"
    )
    moves = number("--max-moves", "the number of moves", 0, 10_000)
    parser.add_argument("--max-moves", type=moves, metavar="N", help="at most so many moves in all")
    tenant = number("--max-per-tenant", "the number of moves", 0, 10_000)
    parser.add_argument("--max-per-tenant", type=tenant, metavar="N", help="at most so many moves of one tenant's jobs")
    parser.add_argument("--max-lost", type=parse_duration, metavar="TIME", help="at most so much lost work in all")
    seconds = number("--seconds", "the solver's seconds", 0, 60)
    parser.add_argument(
        "--seconds", type=seconds, default=5, metavar="N", help="for the solver; 0: greedy only (default: 5)"
    )
    add_output(parser, OBJECT_FORMATS)


def run(options: argparse.Namespace, context: Context) -> int:
    found = context.api.request("POST", "defrag/plan", body(options))
    moving: dict[str, Any] | None = None
    if options.output == "table":
        sys.stdout.write(text(found))
    if options.apply and found["moves"]:
        lines = [
            f"stop {many(len(found['moves']), 'job')} and start {'it' if len(found['moves']) == 1 else 'them'} again"
        ]
        confirm(lines, yes=options.yes)
        moves = [{"job": move["job"], "cards": move["cards"]} for move in found["moves"]]
        moving = context.api.request("POST", "defrag/moves", {"moves": moves})
    if options.output != "table":
        print_data({**found, "applied": moving}, options.output)
    elif moving is not None:
        sys.stdout.write(
            f"{many(len(moving['moving']), 'job')} told to move; gpupool events -f  tells when they start again\n"
        )
    return 0


def body(options: argparse.Namespace) -> dict[str, Any]:
    return {
        "cards": options.cards,
        "blocks": options.blocks,
        "max_moves": options.max_moves,
        "max_moves_per_tenant": options.max_per_tenant,
        "max_lost_seconds": options.max_lost,
        "seconds": options.seconds,
    }


def text(found: dict[str, Any]) -> str:
    """The plan for people: moves, then the gain and the price."""
    if not found["moves"]:
        movable = many(found["movable"], "job")
        return f"nothing to gain: {movable} with --preemptible may be moved, and no move frees more whole cards\n"
    gains = "; ".join(f"{name} {before} -> {after}" for name, (before, after) in _gains(found))
    lost = format_duration(found["lost_seconds"])
    head = f"{many(len(found['moves']), 'move')} ({found['by']}), {lost} of work to do again: {gains}\n\n"
    return head + table(found["moves"], MOVES) + "\n"


def _gains(found: dict[str, Any]) -> list[tuple[str, tuple[int, int]]]:
    blocks = [] if found["blocks"] == found["whole_nodes"] else [("blocks", tuple(found["blocks"]))]
    return [("whole cards", tuple(found["whole_cards"])), ("whole nodes", tuple(found["whole_nodes"])), *blocks]


MOVES = (
    Column("JOB", lambda move: move["name"]),
    Column("TENANT", lambda move: move["tenant"]),
    Column("FROM", lambda move: move["from_node"]),
    Column("TO", lambda move: move["node"]),
    Column("CARDS", lambda move: len(move["cards"]), right=True),
    Column("LOSES", lambda move: format_duration(move["lost_seconds"]), right=True),
)
