"""`gpupool report`: usage and costs by tenant, user, job or card; the rows are the capacity."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from gpupool.base.errors import BadOption
from gpupool.cli.accounts.energy import ENERGY_FIELDS, describe_energy, list_energy_columns
from gpupool.cli.accounts.month import DOCUMENTS, MONTH_VERBS, add_month, run_month
from gpupool.cli.accounts.promises import (
    EXPLANATION,
    PROMISE_FIELDS,
    list_promise_columns,
    sum_promises,
)
from gpupool.terminal.context import CommandContext
from gpupool.terminal.listing import describe_instant
from gpupool.terminal.output import (
    Row,
    TableColumn,
    clean_text,
    format_table,
    print_data,
    write_csv,
)
from gpupool.terminal.parser import LIST_FORMATS, CommandParser, add_output, one_of

#: What rows are of, and which of compute and memory is charged; the words of the API.
BY = ("tenant", "project", "user", "job", "card")
RULES = ("max", "compute-only", "memory-only")
#: Of a row: processors and main memory held, where they have a price.
HOST_FIELDS = ("host_cpu_milli_seconds", "host_memory_mib_seconds")


def register(parser: CommandParser) -> None:
    parser.about = """
    Card-hours of every tenant, and the rest: reserved by a tenant and unused, idle, overhead (adopted but draining,
    failed or lost), unmanaged (cards that the pool only observes). They add up to the capacity, to the millisecond of a
    card. Prices are applied afterwards and change no hours. By card, reserved time is idle: a reservation names no
    card.
    """
    parser.examples = [
        "gpupool report --since 24h",
        "gpupool report --since 2026-11 --until 2026-12 --by tenant,user -o csv",
        "gpupool report --since 7d --by card",
        "gpupool report --since 24h --by job --promises",
        "gpupool report --since 2026-11 --price H200:3.50 --price '*:1.20' --currency EUR",
        "gpupool report --month 2026-11 --tenant nlp -o pdf",
        "gpupool report seal 2026-11",
        "gpupool report --since 2026-11 --price '*:1.20' --cpu-price 0.04 --memory-price 0.005",
    ]
    parser.add_argument(
        "--since",
        default="24h",
        metavar="TIME",
        help="2h (ago), 2026-11, 2026-11-20, ISO (default: 24h)",
    )
    parser.add_argument(
        "--until", default="now", metavar="TIME", help="the same forms (default: now)"
    )
    parser.add_argument(
        "--by", default="tenant", metavar="WHAT", help=f"{', '.join(BY)}; several with commas"
    )
    parser.add_argument("--tenant", metavar="TENANT", help="only this tenant's rows")
    parser.add_argument(
        "--price",
        action="append",
        metavar="MODEL:PRICE",
        help="per card and hour; * is every other model",
    )
    parser.add_argument(
        "--cpu-price", metavar="PRICE", help="per processor and hour, as jobs hold it"
    )
    parser.add_argument(
        "--memory-price", metavar="PRICE", help="per GiB of main memory and hour, as jobs hold it"
    )
    parser.add_argument(
        "--rule",
        default="max",
        type=one_of("--rule", *RULES),
        metavar="RULE",
        help=f"what is charged: {', '.join(RULES)}",
    )
    parser.add_argument("--currency", metavar="NAME", help="currency of the prices")
    parser.add_argument(
        "--promises",
        action="store_true",
        help="GPU time promised, delivered, borrowed and denied (json and csv always have it)",
    )
    add_month(parser)
    add_output(parser, (*LIST_FORMATS, *DOCUMENTS))


def run(options: argparse.Namespace, context: CommandContext) -> int:
    if options.verb in MONTH_VERBS:
        return int(MONTH_VERBS[options.verb](options, context))
    if options.month is not None:
        return run_month(options, context)
    if options.output in DOCUMENTS:
        raise BadOption(f"-o {options.output} is of a month", hint="add --month 2026-11")
    by = [one_of("--by", *BY)(word) for word in options.by.split(",") if word]
    query = {
        "since": options.since,
        "until": options.until,
        "by": by,
        "tenant": options.tenant,
        "price": options.price,
        "cpu_price": options.cpu_price,
        "memory_price": options.memory_price,
        "rule": options.rule,
        "currency": options.currency,
    }
    report = context.api.request("GET", "report", query=query)
    if options.output in ("json", "yaml"):
        print_data(report, options.output)
    elif options.output == "csv":
        _write_rows(report)
    elif options.promises:
        sys.stdout.write(format_promises(report, color=context.color) + "\n")
    else:
        sys.stdout.write(
            format_report(report, wide=options.output == "wide", color=context.color) + "\n"
        )
    return 0


def _write_rows(report: dict[str, Any]) -> None:
    """Write the rows as the books have them, then one of kind `capacity`: the sum of the others."""
    from gpupool.wire.report import ReportRow

    beside = {
        "since": describe_instant(report["since_ns"]),
        "until": describe_instant(report["until_ns"]),
        "currency": report["currency"],
        # Not true or false: a figure of simulated cards must not be read as one of hardware.
        "simulated": {True: "SIMULATED", False: "no", None: None}[report["simulated"]],
    }
    rows = []
    for row in (*report["rows"], _capacity_row(report)):
        card_hours = f"{row['card_milliseconds'] / 3_600_000:.3f}"
        rows.append({**row, "card_hours": card_hours, **beside})
    # What came later stands last: programs may read the columns by their numbers.
    later = (*PROMISE_FIELDS, *HOST_FIELDS, *ENERGY_FIELDS)
    first = [name for name in ReportRow.model_fields if name not in later]
    write_csv(rows, [*first, "card_hours", *beside, *later])


def _capacity_row(report: dict[str, Any]) -> Row:
    return {
        "kind": "capacity",
        "card_milliseconds": report["capacity_card_milliseconds"],
        "memory_mib_seconds": report["capacity_memory_mib_seconds"],
        "cost": report["total_cost"],
        **{name: report.get(name) for name in ENERGY_FIELDS},
    }


def format_report(report: dict[str, Any], *, wide: bool = False, color: bool = False) -> str:
    """Format the report for people: title, rows, total, whether it closes."""
    columns = _list_name_columns(report["rows"])
    columns += [
        TableColumn("CARD-HOURS", lambda row: format_hours(row["card_milliseconds"]), right=True),
        TableColumn("OF CAPACITY", lambda row: _describe_part(row, report), right=True),
        TableColumn(
            "MEMORY GiB-HOURS", lambda row: format_gib_hours(row["memory_mib_seconds"]), right=True
        ),
        TableColumn(
            "GPU TIME",
            lambda row: _hours_or_none(row.get("delivered_gpu_milliseconds")),
            right=True,
            wide=True,
        ),
        TableColumn(
            "CPU TIME",
            lambda row: _hours_or_none(row.get("cpu_milliseconds")),
            right=True,
            wide=True,
        ),
    ]
    if any(row.get(HOST_FIELDS[0]) is not None for row in report["rows"]):
        columns += [
            TableColumn("CPU-HOURS", _describe_cpu_hours, right=True),
            TableColumn("RAM GiB-HOURS", _describe_host_memory, right=True),
        ]
    columns += list_energy_columns(report)
    if report["total_cost"] is not None:
        cost = f"COST {report['currency'] or ''}".strip()
        columns.append(TableColumn(cost, lambda row: row.get("cost"), right=True))
    total = _capacity_row(report)
    shown = [column for column in columns if wide or not column.wide]
    lines = [
        _describe_title(report),
        "",
        format_table([*report["rows"], total], shown, color=color),
        "",
        describe_closing(report),
        describe_energy(report, report["capacity_card_milliseconds"]),
    ]
    if report["rule"]:
        lines.append(clean_text(f"counted: {report['rule']}"))
    if report["resolution_seconds"] > 1:
        lines.append(f"books of this range are kept by {report['resolution_seconds']} s")
    if report.get("starts"):  # a server from before the field says nothing of it
        lines.append(describe_starts(report["starts"]))
    return "\n".join(lines)


def format_promises(report: dict[str, Any], *, color: bool = False) -> str:
    """Format what the tenants were promised and what became of it."""
    rows = [row for row in report["rows"] if row["kind"] == "tenant"]
    if not rows:
        return f"{_describe_title(report)}\n\nno share was held in this range"
    columns = [*_list_name_columns(rows), *list_promise_columns(rows)]
    table = format_table([*rows, sum_promises(rows)], columns, color=color)
    return f"{_describe_title(report)}\n\n{table}\n\n{EXPLANATION}"


def _describe_title(report: dict[str, Any]) -> str:
    mark = {True: "   SIMULATED", False: "", None: ""}[report["simulated"]]
    since = describe_instant(report["since_ns"])
    until = describe_instant(report["until_ns"])
    return f"{since} to {until}, by {', '.join(report['by'])}{mark}"


def _list_name_columns(rows: list[Row]) -> list[TableColumn]:
    columns = [TableColumn("", _describe_kind)]
    for name in _NAMES:
        if any(row.get(name) is not None for row in rows):
            columns.append(_name_column(name))
    return columns


def _describe_kind(row: Row) -> str:
    return "reserved, unused" if row["kind"] == "reserved" else str(row["kind"])


def describe_starts(counted: dict[str, int]) -> str:
    """Describe what came of the starts that waiting jobs were told.

    >>> describe_starts(
    ...     {"promises_kept": 7, "promises_broken": 0, "estimates_true": 3, "estimates_false": 1}
    ... )
    'promised starts since the pool exists: 7 kept, 0 broken; estimated starts: 3 of 4 came true'
    """
    estimates = counted["estimates_true"] + counted["estimates_false"]
    kept = counted["promises_kept"]
    broken = counted["promises_broken"]
    told = f"promised starts since the pool exists: {kept} kept, {broken} broken"
    return f"{told}; estimated starts: {counted['estimates_true']} of {estimates} came true"


def _name_column(name: str) -> TableColumn:
    return TableColumn(name.replace("_", " ").upper(), lambda row: row.get(name) or " ")


def describe_closing(report: dict[str, Any]) -> str:
    """Say whether the rows are the capacity, with the integers.

    The sum is counted here: the report is checked, not believed.
    """
    total = sum(row["card_milliseconds"] for row in report["rows"])
    capacity = report["capacity_card_milliseconds"]
    if total == capacity and report["closes"]:
        return f"closes: the rows are the capacity exactly, {capacity} card-milliseconds"
    return f"DOES NOT CLOSE: rows {total}, capacity {capacity} card-milliseconds"


def format_hours(card_milliseconds: int) -> str:
    """Format card-hours with four decimals.

    >>> format_hours(5_400_000)
    '1.5000'
    """
    return f"{card_milliseconds / 3_600_000:.4f}"


def format_gib_hours(memory_mib_seconds: int) -> str:
    return f"{memory_mib_seconds / 1024 / 3600:.2f}"


def _hours_or_none(milliseconds: int | None) -> str | None:
    return None if milliseconds is None else f"{milliseconds / 3_600_000:.4f} h"


def _describe_cpu_hours(row: Row) -> str | None:
    held = row.get(HOST_FIELDS[0])
    # Thousandths times seconds are milliseconds of one.
    return None if held is None else format_hours(held)


def _describe_host_memory(row: Row) -> str | None:
    held = row.get(HOST_FIELDS[1])
    return None if held is None else format_gib_hours(held)


def _describe_part(row: Row, report: dict[str, Any]) -> str | None:
    capacity = report["capacity_card_milliseconds"]
    return f"{100 * row['card_milliseconds'] / capacity:.1f} %" if capacity else None


_NAMES = ("tenant", "project", "user", "job", "job_name", "device", "model")
