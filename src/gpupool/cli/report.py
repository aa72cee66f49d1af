"""`gpupool report`: who used what. The rows add up to the capacity exactly."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from gpupool.cli.context import Context
from gpupool.cli.listing import instant
from gpupool.cli.output import Column, Row, clean, print_data, table, write_csv
from gpupool.cli.parser import Parser, add_output, one_of

BY = ("tenant", "project", "user", "job", "card")
RULES = ("max", "compute-only", "memory-only")


def register(parser: Parser) -> None:
    parser.about = """
    Card-hours of every tenant, and what became of the rest: idle, overhead (adopted but draining, failed or
    lost), unmanaged (cards the pool only observes). Together they are the capacity, to the millisecond of a
    card. Prices are applied afterwards; they change no hours.
    """
    parser.examples = [
        "gpupool report --since 24h",
        "gpupool report --since 2026-11 --until 2026-12 --by tenant,user -o csv",
        "gpupool report --since 7d --by card",
        "gpupool report --since 2026-11 --price H200:3.50 --price '*:1.20' --currency EUR",
    ]
    parser.add_argument(
        "--since", default="24h", metavar="TIME", help="2h (ago), 2026-11, 2026-11-20, ISO (default: 24h)"
    )
    parser.add_argument("--until", default="now", metavar="TIME", help="the same forms (default: now)")
    parser.add_argument("--by", default="tenant", metavar="WHAT", help=f"{', '.join(BY)}; several with commas")
    parser.add_argument("--tenant", metavar="TENANT", help="only this tenant's rows")
    parser.add_argument(
        "--price", action="append", metavar="MODEL:PRICE", help="per card and hour; * is every other model"
    )
    parser.add_argument(
        "--rule",
        default="max",
        type=one_of("--rule", *RULES),
        metavar="RULE",
        help=f"what is charged: {', '.join(RULES)}",
    )
    parser.add_argument("--currency", metavar="NAME", help="what the prices are in")
    add_output(parser)


def run(options: argparse.Namespace, context: Context) -> int:
    by = [one_of("--by", *BY)(word) for word in options.by.split(",") if word]
    query = {
        "since": options.since,
        "until": options.until,
        "by": by,
        "tenant": options.tenant,
        "price": options.price,
        "rule": options.rule,
        "currency": options.currency,
    }
    report = context.api.request("GET", "report", query=query)
    if options.output in ("json", "yaml"):
        print_data(report, options.output)
    elif options.output == "csv":
        _csv(report)
    else:
        sys.stdout.write(text(report, wide=options.output == "wide", color=context.color) + "\n")
    return 0


def _csv(report: dict[str, Any]) -> None:
    """The rows as the books have them, then one of kind `capacity`: what the others add up to."""
    from gpupool.wire.report import ReportRow

    beside = {
        "since": instant(report["since_ns"]),
        "until": instant(report["until_ns"]),
        "currency": report["currency"],
        "simulated": {True: "SIMULATED", False: "no", None: None}[report["simulated"]],
    }
    rows = []
    for row in (*report["rows"], _capacity(report)):
        card_hours = f"{row['card_milliseconds'] / 3_600_000:.3f}"
        rows.append({**row, "card_hours": card_hours, **beside})
    write_csv(rows, [*ReportRow.model_fields, "card_hours", *beside])


def _capacity(report: dict[str, Any]) -> Row:
    return {
        "kind": "capacity",
        "card_milliseconds": report["capacity_card_milliseconds"],
        "memory_mib_seconds": report["capacity_memory_mib_seconds"],
        "cost": report["total_cost"],
    }


def text(report: dict[str, Any], *, wide: bool = False, color: bool = False) -> str:
    """The report for people: title, rows, total, whether it closes."""
    mark = {True: "   SIMULATED", False: "", None: ""}[report["simulated"]]
    title = f"{instant(report['since_ns'])} to {instant(report['until_ns'])}, by {', '.join(report['by'])}{mark}"
    priced = report["total_cost"] is not None
    named = {name for row in report["rows"] for name in _NAMES if row.get(name) is not None}
    columns = [
        Column("", lambda row: row["kind"]),
        *(_named(name) for name in _NAMES if name in named),
        Column("CARD-HOURS", lambda row: hours(row["card_milliseconds"]), right=True),
        Column("OF CAPACITY", lambda row: _part(row, report), right=True),
        Column("MEMORY GiB-HOURS", lambda row: gib_hours(row["memory_mib_seconds"]), right=True),
        Column("GPU TIME", lambda row: _hours_or_none(row.get("delivered_gpu_milliseconds")), right=True, wide=True),
        Column("CPU TIME", lambda row: _hours_or_none(row.get("cpu_milliseconds")), right=True, wide=True),
        *(
            [Column(f"COST {report['currency'] or ''}".strip(), lambda row: row.get("cost"), right=True)]
            if priced
            else []
        ),
    ]
    total = _capacity(report)
    shown = [column for column in columns if wide or not column.wide]
    lines = [title, "", table([*report["rows"], total], shown, color=color), "", closing(report)]
    if report["rule"]:
        lines.append(clean(f"counted: {report['rule']}"))
    if report["resolution_seconds"] > 1:
        lines.append(f"books of this range are kept by {report['resolution_seconds']} s")
    if report.get("starts"):  # a server from before the field says nothing of it
        lines.append(starts(report["starts"]))
    return "\n".join(lines)


def starts(counted: dict[str, int]) -> str:
    """What came of the starts that waiting jobs were told.

    >>> starts({"promises_kept": 7, "promises_broken": 0, "estimates_true": 3, "estimates_false": 1})
    'promised starts since the pool exists: 7 kept, 0 broken; estimated starts: 3 of 4 came true'
    """
    estimates = counted["estimates_true"] + counted["estimates_false"]
    kept, broken = counted["promises_kept"], counted["promises_broken"]
    told = f"promised starts since the pool exists: {kept} kept, {broken} broken"
    return f"{told}; estimated starts: {counted['estimates_true']} of {estimates} came true"


def _named(name: str) -> Column:
    return Column(name.replace("_", " ").upper(), lambda row: row.get(name) or " ")


def closing(report: dict[str, Any]) -> str:
    """Whether the rows are the capacity, with the integers; counted here, not believed."""
    total = sum(row["card_milliseconds"] for row in report["rows"])
    capacity = report["capacity_card_milliseconds"]
    if total == capacity and report["closes"]:
        return f"closes: the rows are the capacity exactly, {capacity} card-milliseconds"
    return f"DOES NOT CLOSE: rows {total}, capacity {capacity} card-milliseconds"


def hours(card_milliseconds: int) -> str:
    """Card-hours with four decimals.

    >>> hours(5_400_000)
    '1.5000'
    """
    return f"{card_milliseconds / 3_600_000:.4f}"


def gib_hours(memory_mib_seconds: int) -> str:
    return f"{memory_mib_seconds / 1024 / 3600:.2f}"


def _hours_or_none(milliseconds: int | None) -> str | None:
    return None if milliseconds is None else f"{milliseconds / 3_600_000:.4f} h"


def _part(row: Row, report: dict[str, Any]) -> str | None:
    capacity = report["capacity_card_milliseconds"]
    return f"{100 * row['card_milliseconds'] / capacity:.1f} %" if capacity else None


_NAMES = ("tenant", "project", "user", "job", "job_name", "device", "model")
