"""`gpupool rebalance`: which shares to move so that cards are loaded alike, and moving them."""

from __future__ import annotations

import argparse
from typing import Any

from gpupool.base.units import format_duration, format_percent
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
    Shows which shares to move from the most loaded cards to the least loaded ones that take them, what work that loses,
    and how even the load is then. Helps shares with --sharing burst or best-effort, which compete less, and spreads
    heat and power. Nothing is moved without --apply. Only shares of one card that were submitted with --preemptible
    move; unused cards stay free, because a whole free card is worth more than even load; no move takes what a
    reservation holds. Admins only.
    """
    parser.examples = [
        "gpupool rebalance",
        "gpupool rebalance --step 20 --max-lost 2h",
        "gpupool rebalance --use-free-cards --apply --max-moves 10",
    ]
    add_apply(parser)
    step = integer_within("--step", "the percentage", 0, 100)
    parser.add_argument(
        "--step",
        type=step,
        default=10,
        metavar="PCT",
        help="a move brings two cards nearer together by more than this part of a card (default: "
        "10)",
    )
    parser.add_argument(
        "--use-free-cards", action="store_true", help="also move shares to unused cards"
    )
    add_limits(parser)
    add_output(parser, OBJECT_FORMATS)


def run(options: argparse.Namespace, context: CommandContext) -> int:
    asked = {
        # Percent of a card; the API counts in thousandths.
        "step_milli": 10 * options.step,
        "use_free_cards": options.use_free_cards,
        **read_limits(options),
    }
    return show_and_apply(
        options, context, context.api.request("POST", "rebalance/plan", asked), format_plan
    )


def format_plan(found: dict[str, Any]) -> str:
    """Format the plan for people: the price and the gain, then the moves."""
    if not found["moves"]:
        movable = count_noun(found["movable"], "share")
        nothing = f"nothing to gain: {movable} with --preemptible may be moved, and no move evens the load enough\n"
        return nothing + describe_reserved(found)
    head = f"{count_noun(len(found['moves']), 'move')}, {format_duration(found['lost_seconds'])} of work to do again: "
    gains = "; ".join(_list_gains(found["before"], found["after"]))
    return (
        head
        + gains
        + "\n\n"
        + format_table(found["moves"], MOVES)
        + "\n"
        + describe_reserved(found)
    )


def _list_gains(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    gains = []
    if before["cards"] != after["cards"]:
        gains.append(f"cards with shares {before['cards']} -> {after['cards']}")
    gains.append(f"highest load {_describe_loads(before, after, 'highest_milli')}")
    gains.append(f"mean load {_describe_loads(before, after, 'mean_milli')}")
    # Jain's index of the loads: 1 is all alike, 1/n is one card with everything.
    gains.append(f"evenness (Jain) {before['jain']:.2f} -> {after['jain']:.2f}")
    return gains


def _describe_loads(before: dict[str, Any], after: dict[str, Any], key: str) -> str:
    return f"{format_percent(before[key])} -> {format_percent(after[key])} %"


MOVES = (
    JOB,
    TENANT,
    TableColumn("FROM", lambda move: ", ".join(move["from_devices"])),
    TableColumn("TO", lambda move: ", ".join(move["devices"])),
    LOSES,
)
