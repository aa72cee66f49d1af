"""`gpupool report --month` and its verbs: statements, documents, seals and entries of months."""

from __future__ import annotations

import argparse
import os
import sys
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from gpupool.base.errors import BadOption
from gpupool.cli.accounts.energy import describe_energy, format_millionths
from gpupool.cli.accounts.price import format_micro
from gpupool.terminal.context import CommandContext
from gpupool.terminal.language import is_chinese
from gpupool.terminal.listing import describe_instant
from gpupool.terminal.output import (
    Row,
    TableColumn,
    format_pairs,
    format_table,
    print_data,
    print_list,
)
from gpupool.terminal.parser import OBJECT_FORMATS, CommandParser, add_output, one_of, path_of
from gpupool.terminal.references import quote_segment

#: Formats of documents, with the ending of their files.
DOCUMENTS = {"xlsx": "xlsx", "pdf": "pdf", "focus": "focus.csv"}
LANGUAGES = ("en", "zh")
#: Kinds of lines that a tenant pays for; the others are at the price of the cards.
PAID_KINDS = ("tenant", "reserved")
#: A document of a large pool takes longer than other answers.
DOCUMENT_SECONDS = 300.0
_HOUR_MS = 3_600_000


def add_month(parser: CommandParser) -> None:
    """Add the options of statements, and the verbs."""
    parser.add_argument(
        "--month", metavar="YYYY-MM", help="the statement of a month, or of now; in place of usage"
    )
    parser.add_argument(
        "--language",
        type=one_of("--language", *LANGUAGES),
        metavar="LANGUAGE",
        help="of a document: en or zh (default: by LANG)",
    )
    parser.add_argument(
        "--file", type=path_of("--file"), metavar="FILE", help="of a document (default: its name)"
    )
    parser.add_verbs()
    parser.set_defaults(verb="usage")
    seal = parser.add_verb("seal", "seal a month that is over: it changes never (admins)")
    seal.add_argument("sealed_month", metavar="YYYY-MM", help="the month")
    add_output(seal, OBJECT_FORMATS)
    seals = parser.add_verb("seals", "sealed months, each compared with its rows (admins)")
    add_output(seals)
    adjust = parser.add_verb("adjust", "add an entry to the month of today (admins)")
    adjust.add_argument("payer", metavar="TENANT", help="whose")
    adjust.add_argument("--amount", required=True, metavar="AMOUNT", help="-12.50 is a credit")
    adjust.add_argument("--reason", required=True, metavar="TEXT", help="on the statement")
    adjust.add_argument("--corrects", metavar="YYYY-MM", help="the sealed month that it is about")
    add_output(adjust, OBJECT_FORMATS)
    entries = parser.add_verb("adjustments", "entries, the oldest first")
    add_output(entries)


def run_month(options: argparse.Namespace, context: CommandContext) -> int:
    """Print the statement of a month, or write it as a document."""
    if options.month == "now":
        options.month = name_month(context.api.request("GET", "prices"), datetime.now(UTC))
    month = quote_segment(options.month, "month")
    query = {"tenant": options.tenant}
    if options.output in DOCUMENTS:
        return _write_document(options, context, month)
    statement = context.api.request(
        "GET", f"statements/{month}", query=query, timeout=DOCUMENT_SECONDS
    )
    if options.output in ("json", "yaml"):
        print_data(statement, options.output)
    elif options.output == "csv":
        print_list(statement["lines"], (), "csv", fields=_list_fields)
    else:
        sys.stdout.write(format_statement(statement, color=context.color) + "\n")
    return 0


def name_month(lists: list[Row], now: datetime) -> str:
    """Name the month of an instant in the time zone of the price lists, which is one for all.

    >>> name_month([], datetime(2026, 11, 30, 17, tzinfo=UTC))
    '2026-11'
    """
    try:
        zone = ZoneInfo(lists[0]["timezone"]) if lists else UTC
    except ZoneInfoNotFoundError:
        # This machine has no tz database: the statement shows which month it is of.
        zone = UTC
    return now.astimezone(zone).strftime("%Y-%m")


def _write_document(options: argparse.Namespace, context: CommandContext, month: str) -> int:
    query = {
        "tenant": options.tenant,
        "format": options.output,
        "language": options.language or ("zh" if is_chinese() else "en"),
    }
    content = context.api.request(
        "GET", f"documents/{month}", query=query, timeout=DOCUMENT_SECONDS
    )
    data = content if isinstance(content, bytes) else str(content).encode()
    name = f"{options.month}-{options.tenant or 'pool'}.{DOCUMENTS[options.output]}"
    file = Path(options.file or name)
    try:
        file.write_bytes(data)
    except OSError as error:
        raise BadOption(
            f"{file} cannot be written: {error.strerror}", hint="name another one with --file"
        ) from None
    sys.stdout.write(f"{file}\n")
    return 0


def format_statement(statement: dict[str, Any], *, color: bool = False) -> str:
    """Format a statement for people: lines, entries, totals, and how the month closes."""
    currency = statement["currency"]
    facts = [
        ("month", f"{statement['month']} ({statement['timezone']})"),
        ("of", statement["tenant"] or "the whole pool"),
        ("charges until", describe_instant(statement["end_ns"])),
        ("seal", statement["sha256"] or "not sealed: a draft"),
    ]
    if statement["simulated"]:
        facts.append(("cards", "SIMULATED"))
    if statement["unpriced"]:
        facts.append(("no price for", ", ".join(statement["unpriced"])))
    parts = [format_pairs(facts), format_table(statement["lines"], LINE_COLUMNS, color=color)]
    if statement["adjustments"]:
        parts.append(format_table(statement["adjustments"], ENTRY_COLUMNS, color=color))
    parts.append(format_table(statement["totals"], TOTAL_COLUMNS, color=color))
    parts.append(f"total {format_micro(statement['total_micro'])} {currency}".rstrip())
    parts.append(describe_energy(statement, _sum_card_time(statement)))
    if statement["closing"] is not None:
        parts.append(describe_closing(statement["closing"], currency))
    return "\n\n".join(parts)


def _sum_card_time(statement: dict[str, Any]) -> int:
    """Sum up the card time of a statement: the capacity, or what a tenant held."""
    closing = statement["closing"]
    if closing is not None:
        return int(closing["capacity_card_milliseconds"])
    return sum(total["card_milliseconds"] for total in statement["totals"])


def describe_closing(closing: dict[str, Any], currency: str) -> str:
    """Say whether tenants and the rest are the capacity times its price.

    The sum is counted here: the statement is checked, not believed.
    """
    # A month without such time has no part of it, and a server from before the field neither.
    reserved = ("reserved",) if closing.get("reserved_micro") else ()
    kinds = ("tenants", *reserved, "idle", "overhead", "unmanaged")
    total = sum(closing[f"{kind}_micro"] for kind in kinds)
    shown = ", ".join(f"{kind} {format_micro(closing[f'{kind}_micro'])}" for kind in kinds)
    capacity = format_micro(closing["capacity_micro"])
    if total == closing["capacity_micro"] and closing["closes"]:
        return f"closes: {shown} are capacity times price exactly, {capacity} {currency}".rstrip()
    return f"DOES NOT CLOSE: {shown}; capacity times price {capacity} {currency}".rstrip()


def seal_month(options: argparse.Namespace, context: CommandContext) -> int:
    """Seal a month."""
    body = {"month": options.sealed_month}
    seal = context.api.request(
        "POST",
        "seals",
        body,
        idempotency_key=os.urandom(16).hex(),
        timeout=DOCUMENT_SECONDS,
    )
    if options.output != "table":
        print_data(seal, options.output)
        return 0
    sys.stdout.write(f"{seal['month']} sealed: {seal['lines']} lines, {seal['sha256']}\n")
    return 0


def list_seals(options: argparse.Namespace, context: CommandContext) -> int:
    """List seals; the exit code is 1 if one does not fit its rows."""
    seals = context.api.request("GET", "seals", timeout=DOCUMENT_SECONDS)
    print_list(seals, SEAL_COLUMNS, options.output, empty="no month is sealed")
    return 0 if all(seal["intact"] for seal in seals) else 1


def add_entry(options: argparse.Namespace, context: CommandContext) -> int:
    """Add an entry."""
    body = {
        "tenant": options.payer,
        "amount_micro": _parse_micro(options.amount),
        "reason": options.reason,
        "corrects": options.corrects,
    }
    entry = context.api.request("POST", "adjustments", body, idempotency_key=os.urandom(16).hex())
    if options.output != "table":
        print_data(entry, options.output)
        return 0
    sys.stdout.write(f"{entry['id']} is billed in {entry['month']}\n")
    return 0


def list_entries(options: argparse.Namespace, context: CommandContext) -> int:
    """List entries."""
    entries = context.api.request("GET", "adjustments")
    print_list(entries, ENTRY_COLUMNS, options.output, empty="no entries")
    return 0


def _parse_micro(text: str) -> int:
    try:
        micro = Decimal(text) * 1_000_000
    except InvalidOperation:
        micro = Decimal("NaN")
    if not micro.is_finite() or micro != micro.to_integral_value() or abs(micro) > 10**18:
        raise BadOption(f"--amount {text[:40]} is no amount", hint="write it as -12.50")
    return int(micro)


def _list_fields() -> list[str]:
    from gpupool.wire.billing.statements import StatementLine

    return list(StatementLine.model_fields)


def _name_owner(line: Row) -> str:
    return str(line["tenant"] if line["kind"] in PAID_KINDS else line["kind"])


def _describe_project(line: Row) -> str:
    reservation = line.get("reservation")
    return f"reserved: {reservation}" if reservation else line["project"] or " "


def _describe_share(line: Row) -> str | None:
    words = [word for word in (line["mechanism"], line["sharing"]) if word]
    if line["preemptible"]:
        words.append("preemptible")
    return ", ".join(words) or None


def _describe_price(line: Row) -> str | None:
    return None if line["price_micro"] is None else format_micro(line["price_micro"])


def _describe_amount(line: Row) -> str:
    # What was left of the cards has the price of the card; a tenant pays for none of it.
    return format_micro(line["amount_micro" if line["kind"] in PAID_KINDS else "list_micro"])


def _format_hours(milliseconds: int | None) -> str | None:
    return None if milliseconds is None else f"{milliseconds / _HOUR_MS:.4f}"


LINE_COLUMNS = (
    TableColumn("TENANT", _name_owner),
    TableColumn("PROJECT", _describe_project),
    TableColumn("MODEL", lambda row: row["model"]),
    TableColumn("SHARE", _describe_share),
    TableColumn("GPU-HOURS", lambda row: _format_hours(row["card_milliseconds"]), right=True),
    TableColumn(
        "CHARGED", lambda row: _format_hours(row["charged_micro_seconds"] // 1000), right=True
    ),
    TableColumn("PRICE", _describe_price, right=True),
    TableColumn("PART", lambda row: f"{row['factor_milli'] / 10:g} %", right=True),
    TableColumn("AMOUNT", _describe_amount, right=True),
)
TOTAL_COLUMNS = (
    TableColumn("TENANT", lambda row: row["tenant"]),
    TableColumn("PROMISED h", lambda row: _format_hours(row["card_milliseconds"]), right=True),
    TableColumn(
        "DELIVERED h", lambda row: _format_hours(row["delivered_milliseconds"]), right=True
    ),
    TableColumn("LINES", lambda row: format_micro(row["lines_micro"]), right=True),
    TableColumn("ENTRIES", lambda row: format_micro(row["adjustments_micro"]), right=True),
    TableColumn("TAX", lambda row: format_micro(row["tax_micro"]), right=True),
    TableColumn("TOTAL", lambda row: format_micro(row["total_micro"]), right=True),
    TableColumn(
        "ENERGY kWh", lambda row: format_millionths(row.get("energy_milliwatt_hours")), right=True
    ),
    TableColumn("CO2e kg", lambda row: format_millionths(row.get("co2e_milligrams")), right=True),
)
ENTRY_COLUMNS = (
    TableColumn("ENTRY", lambda row: row["id"]),
    TableColumn("TENANT", lambda row: row["tenant"]),
    TableColumn("MONTH", lambda row: row["month"]),
    TableColumn("CORRECTS", lambda row: row["corrects"] or " "),
    TableColumn("AMOUNT", lambda row: format_micro(row["amount_micro"]), right=True),
    TableColumn("REASON", lambda row: row["reason"]),
    TableColumn("BY", lambda row: row["made_by"]),
)
SEAL_COLUMNS = (
    TableColumn("MONTH", lambda row: row["month"]),
    TableColumn("LINES", lambda row: row["lines"], right=True),
    TableColumn("AMOUNT", lambda row: format_micro(row["amount_micro"]), right=True),
    TableColumn("CURRENCY", lambda row: row["currency"] or " "),
    TableColumn("STATE", lambda row: "intact" if row["intact"] else "CHANGED"),
    TableColumn("SHA-256", lambda row: row["sha256"]),
    TableColumn("BY", lambda row: row["sealed_by"], wide=True),
)
MONTH_VERBS = {
    "seal": seal_month,
    "seals": list_seals,
    "adjust": add_entry,
    "adjustments": list_entries,
}
