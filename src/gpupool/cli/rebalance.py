"""`gpupool rebalance`: which shares to move so that cards are loaded more alike, and to move them when asked to."""

from __future__ import annotations

import argparse
from typing import Any

from gpupool.base.units import format_duration, format_percent
from gpupool.cli.context import Context
from gpupool.cli.moves import JOB, LOSES, TENANT, add_apply, add_limits, limits, reserved, show_and_apply
from gpupool.cli.output import Column, many, table
from gpupool.cli.parser import OBJECT_FORMATS, Parser, add_output, number


def register(parser: Parser) -> None:
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
    step = number("--step", "the percentage", 0, 100)
    parser.add_argument(
        "--step",
        type=step,
        default=10,
        metavar="PCT",
        help="a move brings two cards nearer together by more than this part of a card (default: 10)",
    )
    parser.add_argument("--use-free-cards", action="store_true", help="also move shares to unused cards")
    add_limits(parser)
    add_output(parser, OBJECT_FORMATS)


def run(options: argparse.Namespace, context: Context) -> int:
    asked = {"step_milli": 10 * options.step, "use_free_cards": options.use_free_cards, **limits(options)}
    return show_and_apply(options, context, context.api.request("POST", "rebalance/plan", asked), text)


def text(found: dict[str, Any]) -> str:
    """The plan for people: the price and the gain, then the moves."""
    if not found["moves"]:
        movable = many(found["movable"], "share")
        nothing = f"nothing to gain: {movable} with --preemptible may be moved, and no move evens the load enough\n"
        return nothing + reserved(found)
    head = f"{many(len(found['moves']), 'move')}, {format_duration(found['lost_seconds'])} of work to do again: "
    gains = "; ".join(_gains(found["before"], found["after"]))
    return head + gains + "\n\n" + table(found["moves"], MOVES) + "\n" + reserved(found)


def _gains(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    cards = [] if before["cards"] == after["cards"] else [f"cards with shares {before['cards']} -> {after['cards']}"]
    highest, mean = (_loads(before, after, key) for key in ("highest_milli", "mean_milli"))
    evenness = f"evenness (Jain) {before['jain']:.2f} -> {after['jain']:.2f}"
    return [*cards, f"highest load {highest}", f"mean load {mean}", evenness]


def _loads(before: dict[str, Any], after: dict[str, Any], key: str) -> str:
    return f"{format_percent(before[key])} -> {format_percent(after[key])} %"


MOVES = (
    JOB,
    TENANT,
    Column("FROM", lambda move: ", ".join(move["from_devices"])),
    Column("TO", lambda move: ", ".join(move["devices"])),
    LOSES,
)
