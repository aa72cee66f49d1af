"""Makes the plan of `gpupool mig` from what the pool says, and formats it for people."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from gpupool.client.paging import iterate_items
from gpupool.terminal.context import CommandContext
from gpupool.terminal.output import TableColumn, count_noun, format_table

#: Exit code of a demand that does not fit, also with the jobs of one card moved.
EXIT_REFUSED = 3
#: Cards that a sentence names; it counts the others.
NAMED_CARDS = 5


def make_plan(options: argparse.Namespace, context: CommandContext) -> dict[str, Any]:
    """Plan the demand of the options on the pool's cards. Changes nothing."""
    # Only here: the simulator imports NumPy, which other commands do not need.
    from gpupool.simulation.studies.mode_candidates import read_candidates
    from gpupool.simulation.studies.partition_plan import (
        parse_demand,
        plan_partitions,
        read_cards,
        read_pending,
    )

    demand = None if options.demand is None else parse_demand(options.demand)
    devices = list(iterate_items(context.api, "devices", {}))
    running = read_running(context)
    if demand is None:
        demand = read_pending(iterate_items(context.api, "jobs", {"state": ["pending"]}))
    others = read_candidates(devices, running, with_endless=options.with_endless)
    return plan_partitions(read_cards(devices, running), demand, len(devices), others)


def read_running(context: CommandContext) -> list[dict[str, Any]]:
    """Read the jobs that have cards."""
    return list(iterate_items(context.api, "jobs", {"state": ["starting", "running"]}))


def format_plan(found: dict[str, Any]) -> str:
    """Format the plan for people: the cards that change, switches, moves, and what finds no slot."""
    changed = [card for card in found["cards"] if card["before"] != card["after"]]
    text = format_table(changed, CARDS) + "\n" if changed else "no card changes\n"
    if found["switches"]:
        noun = count_noun(len(found["switches"]), "card")
        text += f"\n{noun} must be switched to MIG mode first:\n"
        text += format_table(found["switches"], SWITCHES) + "\n"
    if found["moves"]:
        noun = count_noun(len(found["moves"]), "job")
        text += f"\n{noun} must move first:\n" + format_table(found["moves"], MOVES) + "\n"
    if found["missing"]:
        text += _format_missing(found)
    return text


def _format_missing(found: dict[str, Any]) -> str:
    pieces = ", ".join(f"{count} x {name}" for name, count in found["missing"].items())
    cards = count_noun(len(found["cards"]), "card")
    searched = "no layout" if found["exact"] else "no layout that was tried"
    text = (
        f"\nno slot: {pieces}; {searched} of {cards} holds the demand, also with the jobs of one "
        "card moved\n"
    )
    for one in found["rejected"][:NAMED_CARDS]:
        text += f"not switched: {one['card']}: {one['why']}\n"
    more = len(found["rejected"]) - NAMED_CARDS
    return text + (f"not switched: {more} more cards\n" if more > 0 else "")


def _describe_slot(place: dict[str, Any]) -> str:
    return f"{place['card']} unit {place['start']}"


def _describe_wait(switch: Mapping[str, Any]) -> str:
    if switch["under_way"]:
        return "on its way"
    return ", ".join(switch["waits_for"]) or "--"


#: A row per card that changes.
CARDS = (
    TableColumn("CARD", lambda card: card["card"]),
    TableColumn("NOW", lambda card: card["mix_before"]),
    TableColumn("PLANNED", lambda card: card["mix_after"]),
)
#: A row per card that must be switched.
SWITCHES = (
    TableColumn("CARD", lambda switch: switch["card"]),
    TableColumn("NEEDS", lambda switch: switch["needs"]),
    TableColumn("WAITS FOR", _describe_wait),
)
#: A row per job that must move.
MOVES = (
    TableColumn("JOB", lambda move: move["job"]),
    TableColumn("PROFILE", lambda move: move["profile"]),
    TableColumn("FROM", lambda move: _describe_slot(move["from"])),
    TableColumn("TO", lambda move: _describe_slot(move["to"])),
)
