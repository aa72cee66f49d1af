"""`gpupool mig plan`: which partitions the cards get for a demand, and what must move for it."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from gpupool.client.paging import iterate_items
from gpupool.terminal.context import CommandContext
from gpupool.terminal.output import TableColumn, count_noun, format_table, print_data
from gpupool.terminal.parser import OBJECT_FORMATS, CommandParser, add_output

#: Exit code of a demand that does not fit, also with the jobs of one card moved.
EXIT_REFUSED = 3


def register(parser: CommandParser) -> None:
    parser.about = """
    Plans partitions of the cards in partition mode (MIG) for what waits, or for another demand. Running partitions
    stay where they are. If the demand does not fit so, the plan moves jobs of one card, those with the least compute
    first; only jobs submitted with --preemptible may move. It shows a plan and changes nothing: partitions are
    created when their jobs start. The exit code is 3 if something finds no slot.
    """
    parser.examples = [
        "gpupool mig plan",
        "gpupool mig plan --demand 3x1g.18gb,1x3g.71gb",
        "gpupool mig plan --demand 2x4g -o json",
    ]
    parser.add_verbs()
    plan = parser.add_verb("plan", "show which partitions the cards would get")
    plan.add_argument(
        "--demand",
        metavar="LIST",
        help="numbers and profiles, like 3x1g.18gb,1x3g.71gb (default: what waits)",
    )
    add_output(plan, OBJECT_FORMATS)


def run(options: argparse.Namespace, context: CommandContext) -> int:
    # Only here: the simulator imports NumPy, which other commands do not need.
    from gpupool.simulation.studies.partition_plan import (
        parse_demand,
        plan_partitions,
        read_cards,
        read_pending,
    )

    demand = None if options.demand is None else parse_demand(options.demand)
    devices = list(iterate_items(context.api, "devices", {}))
    running = list(iterate_items(context.api, "jobs", {"state": ["starting", "running"]}))
    if demand is None:
        demand = read_pending(iterate_items(context.api, "jobs", {"state": ["pending"]}))
    found = plan_partitions(read_cards(devices, running), demand, len(devices))
    if options.output == "table":
        sys.stdout.write(format_plan(found))
    else:
        print_data(found, options.output)
    return EXIT_REFUSED if found["missing"] else 0


def format_plan(found: dict[str, Any]) -> str:
    """Format the plan for people: the cards that change, the moves, and what finds no slot."""
    changed = [card for card in found["cards"] if card["before"] != card["after"]]
    text = format_table(changed, CARDS) + "\n" if changed else "no card changes\n"
    if found["moves"]:
        noun = count_noun(len(found["moves"]), "job")
        text += f"\n{noun} must move first:\n" + format_table(found["moves"], MOVES) + "\n"
    if found["missing"]:
        pieces = ", ".join(f"{count} x {name}" for name, count in found["missing"].items())
        cards = count_noun(len(found["cards"]), "card")
        searched = "no layout" if found["exact"] else "no layout that was tried"
        text += (
            f"\nno slot: {pieces}; {searched} of {cards} holds the demand, also with the jobs of one "
            "card moved\n"
        )
    return text


def _describe_slot(place: dict[str, Any]) -> str:
    return f"{place['card']} unit {place['start']}"


#: A row per card that changes.
CARDS = (
    TableColumn("CARD", lambda card: card["card"]),
    TableColumn("NOW", lambda card: card["mix_before"]),
    TableColumn("PLANNED", lambda card: card["mix_after"]),
)
#: A row per job that must move.
MOVES = (
    TableColumn("JOB", lambda move: move["job"]),
    TableColumn("PROFILE", lambda move: move["profile"]),
    TableColumn("FROM", lambda move: _describe_slot(move["from"])),
    TableColumn("TO", lambda move: _describe_slot(move["to"])),
)
