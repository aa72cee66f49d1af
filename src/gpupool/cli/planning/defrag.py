"""`gpupool defrag`: which jobs to move so that whole nodes come free, and moving them."""

from __future__ import annotations

import argparse
from typing import Any

from gpupool.base.units import format_duration
from gpupool.cli.planning.moves import (
    JOB,
    LOSES,
    TENANT,
    add_apply,
    add_limits,
    describe_reserved,
    read_limits,
    show_and_apply,
)
from gpupool.terminal.context import CommandContext
from gpupool.terminal.output import TableColumn, count_noun, format_table
from gpupool.terminal.parser import OBJECT_FORMATS, CommandParser, add_output, integer_within


def register(parser: CommandParser) -> None:
    parser.about = """
    Shows which jobs to move, the lost work, and the whole cards and nodes that become free. Nothing moves without
    --apply. Only jobs submitted with --preemptible move: their new cards are reserved first, then they are stopped
    and started there. Moves never take reserved capacity. Admins only.
    """
    parser.examples = [
        "gpupool defrag",
        "gpupool defrag --cards 4 --blocks 2 --max-lost 2h",
        "gpupool defrag --apply --max-moves 10",
    ]
    add_apply(parser)
    cards = integer_within("--cards", "the number of cards", 1, 1024)
    parser.add_argument(
        "--cards",
        type=cards,
        metavar="N",
        help="whole cards to free together on one node (default: all)",
    )
    blocks = integer_within("--blocks", "the number of blocks", 1, 100_000)
    parser.add_argument(
        "--blocks",
        type=blocks,
        metavar="N",
        help="number of such blocks (default: as many as possible)",
    )
    add_limits(parser)
    # The bound is the API's own: the solver holds a thread of the server for so long.
    seconds = integer_within("--seconds", "the solver's seconds", 0, 60)
    parser.add_argument(
        "--seconds",
        type=seconds,
        default=5,
        metavar="N",
        help="for the solver; 0: greedy only (default: 5)",
    )
    add_output(parser, OBJECT_FORMATS)


def run(options: argparse.Namespace, context: CommandContext) -> int:
    asked = {
        "cards": options.cards,
        "blocks": options.blocks,
        "seconds": options.seconds,
        **read_limits(options),
    }
    return show_and_apply(
        options, context, context.api.request("POST", "defrag/plan", asked), format_plan
    )


def format_plan(found: dict[str, Any]) -> str:
    """Format the plan for people: moves, then the gain and the price."""
    if not found["moves"]:
        movable = count_noun(found["movable"], "job")
        nothing = f"nothing to gain: {movable} with --preemptible may be moved, and no move frees more whole cards\n"
        return nothing + describe_reserved(found)
    gains = "; ".join(f"{name} {before} -> {after}" for name, (before, after) in _list_gains(found))
    lost = format_duration(found["lost_seconds"])
    head = f"{count_noun(len(found['moves']), 'move')} ({found['by']}), {lost} of work to do again: {gains}\n\n"
    return head + format_table(found["moves"], MOVES) + "\n" + describe_reserved(found)


def _list_gains(found: dict[str, Any]) -> list[tuple[str, tuple[int, int]]]:
    # Blocks of a node's size are whole nodes: the same numbers twice would look like two gains.
    blocks = [] if found["blocks"] == found["whole_nodes"] else [("blocks", tuple(found["blocks"]))]
    return [
        ("whole cards", tuple(found["whole_cards"])),
        ("whole nodes", tuple(found["whole_nodes"])),
        *blocks,
    ]


#: A row per move.
MOVES = (
    JOB,
    TENANT,
    TableColumn("FROM", lambda move: move["from_node"]),
    TableColumn("TO", lambda move: move["node"]),
    TableColumn("CARDS", lambda move: len(move["cards"]), right=True),
    LOSES,
)
