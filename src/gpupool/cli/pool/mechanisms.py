"""`gpupool mechanisms`: what each card can do for claims now, after a switch of its mode, or never."""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from gpupool.client.paging import iterate_items
from gpupool.terminal.context import CommandContext
from gpupool.terminal.language import is_chinese, localize
from gpupool.terminal.language import wrap_text as break_lines
from gpupool.terminal.output import Row, TableColumn, clean_text, format_table, print_data
from gpupool.terminal.parser import OBJECT_FORMATS, CommandParser, add_output
from gpupool.terminal.references import quote_segment

#: Columns of the output, so that it fits the smallest terminals.
WIDTH = 80
INDENT = 4
_COLORS = {"now": "green", "after-switch": "yellow"}
#: Needs of a switch of the mode, in the words of the API.
_NEEDS = {
    "nothing": "needs nothing",
    "idle-card": "needs the card idle",
    "idle-board": "needs all cards of its board idle",
    "reset": "resets the card",
    "reload": "reloads the driver",
    "reboot": "reboots the node",
}

_HOSTS = {"process": "processes", "container": "containers", "vm": "VMs"}


def register(parser: CommandParser) -> None:
    parser.about = """
    Per card every mechanism of its node: whether a claim can have it now, after a switch of the card's mode (with
    what the switch needs and how long it takes), or never, and why. The columns say what is enforced: hard (hardware,
    kernel or hypervisor), soft (unmodified programs), advisory, none. Below each row are its hosts, its profiles and
    the reason. Cards that are alike share a table.
    A claim asks for isolation with  gpupool run --isolation soft|hard|fault.
    """
    parser.examples = [
        "gpupool mechanisms",
        "gpupool mechanisms node-1:0",
        "gpupool mechanisms -o json",
    ]
    parser.add_argument(
        "card", nargs="?", metavar="CARD", help="node:index, uuid, or an index (default: all)"
    )
    add_output(parser, OBJECT_FORMATS)


def run(options: argparse.Namespace, context: CommandContext) -> int:
    if options.card is None:
        rows = list(iterate_items(context.api, "devices", {}))
    else:
        rows = [context.api.request("GET", f"devices/{quote_segment(options.card, 'card')}")]
    if options.output != "table":
        print_data([describe_card(row) for row in rows], options.output)
        return 0
    if not rows:
        sys.stdout.write("this pool has no cards\n  gpupool doctor  says what it looked for\n")
        return 0
    tables = [format_group(cards, context.color) for cards in group_cards(rows)]
    sys.stdout.write("\n\n".join(tables) + "\n")
    return 0


def describe_card(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return what programs read of a card."""
    offers = row["facts"].get("mechanisms") or {}
    return {
        "card": row["name"],
        "uuid": row["uuid"],
        "node": row["node"],
        "model": row["model"],
        "simulated": row["simulated"],
        "mechanisms": offers.get("mechanisms", []),
        "layers": offers.get("layers", []),
    }


def group_cards(rows: Sequence[Row]) -> list[list[Row]]:
    """Return cards of one model with the same offers together, in the order of the first ones."""
    groups = dict[str, list[Row]]()
    for row in rows:
        key = json.dumps([row["model"], row["facts"].get("mechanisms")], sort_keys=True)
        groups.setdefault(key, []).append(row)
    return list(groups.values())


def format_group(cards: Sequence[Row], color: bool) -> str:
    """Format the table of cards that are alike."""
    first = cards[0]
    names = clean_text(first["name"])
    if len(cards) > 1:
        names = f"{names} and {len(cards) - 1} more"
    mark = "   SIMULATED" if first["simulated"] else ""
    title = f"{names} ({clean_text(first['model'])}){mark}"
    offers = first["facts"].get("mechanisms") or {}
    if not offers.get("mechanisms"):
        return f"{title}\n\nits agent publishes no mechanisms"
    lines = [title, ""]
    table = format_table(offers["mechanisms"], COLUMNS, color=color).split("\n")
    lines.append(table[0])
    for line, offer in zip(table[1:], offers["mechanisms"], strict=True):
        lines.append(line)
        lines += wrap_text(describe_offer(offer), " " * INDENT)
    for layer in offers.get("layers", ()):
        text = f"layer {clean_text(layer['name'])}: {_describe_layer(layer)}"
        lines += wrap_text(text, "")
    return "\n".join(lines)


def wrap_text(text: str, indent: str) -> list[str]:
    """Return lines of at most `WIDTH` columns; all but the first are indented."""
    later = " " * INDENT
    if is_chinese():
        lines = break_lines(localize(text), WIDTH - INDENT)
        return [f"{later if number else indent}{line}" for number, line in enumerate(lines)]
    return textwrap.wrap(
        text, WIDTH, initial_indent=indent, subsequent_indent=later, break_long_words=False
    )


def describe_when(offer: Row) -> str:
    """Format when a card serves an offer: `now`, `after switch`, `never`."""
    return str(offer["availability"]).replace("-", " ")


def describe_offer(offer: Row) -> str:
    """Format the hosts, profiles and reasons of an offer, as stand below its row."""
    parts = ["for " + " and ".join(_HOSTS.get(host, host) for host in offer["hosts"])]
    names = [clean_text(profile[0]) for profile in offer.get("profiles", ())]
    if names:
        parts.append(f"profiles {', '.join(names)}")
    reason = describe_reason(offer)
    if reason:
        parts.append(reason)
    return "; ".join(parts)


def describe_reason(offer: Row) -> str:
    """Format what the switch needs, and why an offer is never available or enforces no more."""
    parts = []
    switch = offer.get("switch")
    if switch is not None and offer["availability"] == "after-switch":
        seconds = switch["seconds"]
        lasts = "unknown time" if seconds is None else f"{seconds:g} s"
        needs = _NEEDS.get(switch["needs"], switch["needs"])
        parts.append(f"a switch to {offer['mode']} {needs}, {lasts}")
    if offer["why"]:
        parts.append(clean_text(offer["why"]))
    if offer.get("one_owner"):
        parts.append("one tenant at a time")
    return "; ".join(parts)


def _describe_layer(layer: Row) -> str:
    levels = []
    for name, level in layer["levels"].items():
        if level != "none":
            levels.append(f"{name} {level}")
    raised = ", ".join(levels)
    with_ = " and ".join(clean_text(name) for name in layer["mechanisms"])
    text = (f"makes {raised}" if raised else "raises no level") + (
        f" with {with_}" if with_ else ""
    )
    return f"{text}; not here: {clean_text(layer['absence'])}" if layer["absence"] else text


def _read_level(name: str) -> Any:
    return lambda offer: "-" if offer["availability"] == "never" else offer["levels"][name]


COLUMNS = (
    TableColumn("MECHANISM", lambda offer: offer["name"]),
    TableColumn("WHEN", describe_when, color=lambda offer: _COLORS.get(offer["availability"])),
    TableColumn("SIZES", lambda offer: offer["sizes"]),
    TableColumn("MEMORY", _read_level("memory")),
    TableColumn("COMPUTE", _read_level("compute")),
    TableColumn("BANDWIDTH", _read_level("bandwidth")),
    TableColumn("FAULT", _read_level("fault")),
)
