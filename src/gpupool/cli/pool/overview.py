"""`gpupool overview`: the pool at one look."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from gpupool.base.units import format_gpu
from gpupool.cli.work.gpus import ROOMS, describe_health
from gpupool.cli.work.ps import COLUMNS as JOBS
from gpupool.cli.work.queue import COLUMNS as QUEUE
from gpupool.terminal.context import CommandContext
from gpupool.terminal.listing import describe_memory
from gpupool.terminal.output import (
    TableColumn,
    clean_text,
    count_noun,
    print_data,
    print_list,
)
from gpupool.terminal.parser import OBJECT_FORMATS, CommandParser, add_output

#: Milli-devices times milliseconds of one card in an hour, in `held_card_milliseconds`.
_CARD_HOUR = 3_600_000
_MICRO = 1_000_000


def register(parser: CommandParser) -> None:
    parser.about = """
    What is held and what can be handed out now, the largest share of each model, who holds most, the head of the
    queue, cards that are not well, and your latest jobs. Names of other tenants are shown to admins alone.
    """
    parser.examples = ["gpupool overview", "gpupool overview -o json"]
    add_output(parser, OBJECT_FORMATS)


def run(options: argparse.Namespace, context: CommandContext) -> int:
    found = context.api.request("GET", "overview")
    if options.output != "table":
        print_data(found, options.output)
        return 0
    sys.stdout.write("\n".join(list_sentences(found)) + "\n")
    parts = (
        ("what still fits in the pool:", found["models"], ROOMS),
        ("who holds most:", found["tenants"], TENANTS),
        ("the head of the queue:", found["queue"], QUEUE),
        ("cards that are not well:", found["failing"], FAILING),
        ("your latest jobs:", found["mine"]["recent"], JOBS),
    )
    for title, rows, columns in parts:
        if rows:
            sys.stdout.write(f"\n{title}\n\n")
            print_list(rows, columns, "table", color=context.color, has_wide=False)
    return 0


def list_sentences(found: dict[str, Any]) -> list[str]:
    """List the sentences with the numbers, one for each thing that can be wrong or scarce."""
    cards = found["cards"]
    mark = "   SIMULATED" if found["simulated"] else ""
    lines = [
        (
            f"{format_gpu(found['held_milli'])} of {format_gpu(found['capacity_milli'])} GPU are held, "
            f"{format_gpu(found['free_milli'])} can be handed out now; "
            f"{count_noun(found['waiting'], 'job')} wait{'s' if found['waiting'] == 1 else ''}{mark}"
        )
    ]
    states = [f"{cards[name]} {name}" for name in ("draining", "failed", "observed") if cards[name]]
    if states:
        lines.append(f"{count_noun(cards['total'], 'card')}: {', '.join(states)}")
    if found["silent_nodes"]:
        names = ", ".join(map(clean_text, found["silent_nodes"]))
        lines.append(f"silent nodes: {names} (gpupool doctor)")
    mine = found["mine"]
    if mine["running"] or mine["starting"] or mine["pending"]:
        counts = [f"{mine[name]} {name}" for name in ("running", "starting", "pending")]
        lines.append(f"your jobs: {', '.join(counts)}")
    lines.append(_describe_today(found["today"]))
    return lines


def _describe_today(today: dict[str, Any]) -> str:
    hours = today["held_card_milliseconds"] / _CARD_HOUR
    line = f"today: {hours:.2f} card hours held"
    if today["idle_card_milliseconds"] is not None:
        line += f", {today['idle_card_milliseconds'] / _CARD_HOUR:.2f} idle"
    if today["cost_micro"] is not None:
        unit = f" {today['currency']}" if today["currency"] else ""
        line += f", {today['cost_micro'] / _MICRO:.2f}{unit}"
    return line


TENANTS = (
    TableColumn("TENANT", lambda row: row["tenant"]),
    TableColumn(
        "HELD",
        lambda row: f"{format_gpu(row['held_milli'])} GPU + {describe_memory(row['held_bytes'])}",
    ),
)
FAILING = (
    TableColumn("CARD", lambda row: row["device"]),
    TableColumn("MODEL", lambda row: row["model"]),
    TableColumn("STATE", lambda row: row["state"]),
    TableColumn(
        "HEALTH",
        lambda row: describe_health({**row, "health_reason": row["reason"]}),
        color=lambda row: {"failed": "red", "warning": "yellow"}.get(row["health"]),
    ),
)
