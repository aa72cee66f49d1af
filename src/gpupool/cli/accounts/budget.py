"""`gpupool budget`: what a tenant, project or user may spend, and where it stands."""

from __future__ import annotations

import argparse
import sys
from decimal import Decimal, InvalidOperation
from typing import Any

from gpupool.base.errors import BadOption
from gpupool.base.units import parse_duration
from gpupool.cli.accounts.price import format_micro
from gpupool.terminal.confirm import confirm_plan
from gpupool.terminal.context import CommandContext
from gpupool.terminal.listing import describe_instant
from gpupool.terminal.output import (
    Row,
    TableColumn,
    format_pairs,
    format_table,
    print_data,
    print_list,
)
from gpupool.terminal.parser import (
    OBJECT_FORMATS,
    CommandParser,
    add_output,
    add_yes,
    integer_within,
    one_of,
)
from gpupool.terminal.references import quote_segment

PERIODS = ("month", "quarter")
ON_LIMIT = ("warn", "hold", "preempt")
#: In one GPU-hour, and in one unit of a currency.
_HOUR_MS = 3_600_000
_UNIT_MICRO = 1_000_000
_MOST = 10**18


def register(parser: CommandParser) -> None:
    parser.about = """
    A budget is an amount of money or of GPU-hours for each month or quarter. Each threshold is one event a period.
    From 100 % on no job starts, and jobs that run go on; with --on-limit preempt, preemptible jobs end at 110 %
    after the grace and wait again. What is spent counts running shares to the second.
    """
    parser.examples = [
        "gpupool budget set nlp --amount 5000 --timezone Asia/Shanghai",
        "gpupool budget set nlp --project chat --gpu-hours 1200 --period quarter --warn 60,90",
        "gpupool budget set nlp --user ada --amount 300 --on-limit preempt --grace 2h",
        "gpupool budget list",
        "gpupool explain JOB   says which budget holds a job",
    ]
    parser.add_verbs()
    change = parser.add_verb("set", "set the budget of a tenant, project or user (admins)")
    change.add_argument("tenant", metavar="TENANT", help="whose")
    change.add_argument("--project", metavar="PROJECT", help="only of this project")
    change.add_argument("--user", metavar="USER", help="only of this user")
    change.add_argument("--amount", metavar="AMOUNT", help="money, in the currency of the prices")
    change.add_argument("--gpu-hours", metavar="HOURS", help="hours of whole cards, in place of it")
    change.add_argument(
        "--period",
        default="month",
        type=one_of("--period", *PERIODS),
        metavar="PERIOD",
        help="month or quarter (default: month)",
    )
    change.add_argument(
        "--timezone", default="UTC", metavar="ZONE", help="in which it begins (default: UTC)"
    )
    change.add_argument(
        "--warn", default="50,80", metavar="PERCENTS", help="events alone (default: 50,80)"
    )
    percent = integer_within("--hold-at", "a percentage", 1, 1000)
    change.add_argument(
        "--hold-at",
        type=percent,
        default=100,
        metavar="PERCENT",
        help="no job starts (default: 100)",
    )
    percent = integer_within("--preempt-at", "a percentage", 1, 1000)
    change.add_argument(
        "--preempt-at",
        type=percent,
        default=110,
        metavar="PERCENT",
        help="preemptible jobs end (default: 110)",
    )
    change.add_argument(
        "--grace",
        type=parse_duration,
        default=86_400,
        metavar="TIME",
        help="before that (default: 24h)",
    )
    change.add_argument(
        "--on-limit",
        default="hold",
        type=one_of("--on-limit", *ON_LIMIT),
        metavar="WHAT",
        help="warn, hold or preempt (default: hold)",
    )
    change.add_argument("--force", action="store_true", help="also where more is spent already")
    add_output(change, OBJECT_FORMATS)
    listing = parser.add_verb("list", "budgets, and where they stand")
    add_output(listing)
    show = parser.add_verb("show", "one budget: thresholds and forecast")
    show.add_argument("budget", metavar="BUDGET", help="its id")
    add_output(show, OBJECT_FORMATS)
    delete = parser.add_verb("delete", "delete a budget (admins)")
    delete.add_argument("budget", metavar="BUDGET", help="its id")
    add_yes(delete)


def run(options: argparse.Namespace, context: CommandContext) -> int:
    return int(_VERBS[options.verb](options, context))


def _set_budget(options: argparse.Namespace, context: CommandContext) -> int:
    if (options.amount is None) == (options.gpu_hours is None):
        raise BadOption(
            "a budget is an amount of money or of GPU-hours",
            hint="give --amount 5000, or --gpu-hours 1200",
        )
    if options.amount is not None:
        unit = "money"
        amount = _parse_amount(options.amount, _UNIT_MICRO, "--amount")
    else:
        unit = "gpu-hours"
        amount = parse_hours(options.gpu_hours)
    body = {
        "tenant": options.tenant,
        "project": options.project,
        "user": options.user,
        "period": options.period,
        "timezone": options.timezone,
        "unit": unit,
        "amount": amount,
        "warn_percents": _parse_percents(options.warn),
        "hold_percent": options.hold_at,
        "preempt_percent": options.preempt_at,
        "grace_seconds": options.grace,
        "on_limit": options.on_limit,
        "force": options.force,
    }
    return _print_budget(context.api.request("PUT", "budgets", body), options.output)


def parse_hours(text: str) -> int:
    """Parse GPU-hours into milliseconds of a card. Raises BadOption."""
    return _parse_amount(text, _HOUR_MS, "--gpu-hours")


def _parse_amount(text: str, scale: int, option: str) -> int:
    try:
        scaled = Decimal(text) * scale
    except InvalidOperation:
        scaled = Decimal("NaN")
    if not scaled.is_finite() or not 0 < scaled <= _MOST or scaled != scaled.to_integral_value():
        raise BadOption(
            f"{option} {text[:40]} is no amount of a budget",
            hint=f"a number above 0 and up to {_MOST // scale}, as {option} 1200",
        )
    return int(scaled)


def _parse_percents(text: str) -> list[int]:
    check = integer_within("--warn", "a percentage", 1, 1000)
    return [check(word.strip()) for word in text.split(",") if word.strip()]


def _list_budgets(options: argparse.Namespace, context: CommandContext) -> int:
    found = context.api.request("GET", "budgets")
    print_list(found, COLUMNS, options.output, empty="no budgets", color=context.color)
    return 0


def _show_budget(options: argparse.Namespace, context: CommandContext) -> int:
    return _print_budget(context.api.request("GET", _path(options.budget)), options.output)


def _delete_budget(options: argparse.Namespace, context: CommandContext) -> int:
    confirm_plan([f"delete budget {options.budget}; no job waits for it then"], yes=options.yes)
    context.api.request("DELETE", _path(options.budget))
    sys.stdout.write(f"{options.budget} deleted\n")
    return 0


def _path(budget: str) -> str:
    return f"budgets/{quote_segment(budget, 'budget')}"


def _print_budget(budget: dict[str, Any], output: str) -> int:
    if output != "table":
        print_data(budget, output)
        return 0
    facts = [
        ("budget", budget["id"]),
        ("of", _describe_owner(budget)),
        ("period", f"{budget['period_name']} ({budget['timezone']})"),
        ("amount", format_amount(budget, budget["amount"])),
        ("spent", f"{format_amount(budget, budget['spent'])} ({budget['spent_percent']} %)"),
        ("state", _describe_state(budget)),
        *_list_forecast(budget),
    ]
    table = format_table(budget["thresholds"], THRESHOLD_COLUMNS)
    sys.stdout.write(f"{format_pairs(facts)}\n\n{table}\n")
    return 0


def _list_forecast(budget: dict[str, Any]) -> list[tuple[str, object]]:
    seen = budget["forecast"]
    if seen is None:
        return [("forecast", None)]
    band = f"{format_amount(budget, seen['low'])} to {format_amount(budget, seen['high'])}"
    facts: list[tuple[str, object]] = [
        ("forecast", f"{format_amount(budget, seen['end'])} at the end ({band})")
    ]
    runs_out = describe_instant(seen["runs_out_ns"])
    facts.append(("runs out", runs_out or "not in this period"))
    return facts


def format_amount(budget: Row, amount: int) -> str:
    """Format an amount in the unit of its budget."""
    if budget["unit"] == "gpu-hours":
        return f"{amount / _HOUR_MS:.2f} GPU-hours"
    return f"{format_micro(amount // 10_000 * 10_000)} {budget['currency']}".strip()


def _describe_owner(budget: Row) -> str:
    parts = [budget["tenant"]]
    if budget["project"] is not None:
        parts.append(f"project {budget['project']}")
    if budget["user"] is not None:
        parts.append(f"user {budget['user']}")
    return ", ".join(parts)


def _describe_state(budget: Row) -> str:
    return "no job starts" if budget["on_hold"] else "jobs start"


def _describe_run_out(budget: Row) -> str | None:
    seen = budget["forecast"]
    if seen is None:
        return None
    return describe_instant(seen["runs_out_ns"]) or "not in this period"


COLUMNS = (
    TableColumn("BUDGET", lambda row: row["id"]),
    TableColumn("OF", _describe_owner),
    TableColumn("PERIOD", lambda row: row["period_name"]),
    TableColumn("AMOUNT", lambda row: format_amount(row, row["amount"]), right=True),
    TableColumn("SPENT", lambda row: format_amount(row, row["spent"]), right=True),
    TableColumn("OF IT", lambda row: f"{row['spent_percent']} %", right=True),
    TableColumn("STATE", _describe_state),
    TableColumn("RUNS OUT", _describe_run_out),
)
_EFFECTS = {"warn": "an event", "hold": "no job starts", "preempt": "preemptible jobs end"}
THRESHOLD_COLUMNS = (
    TableColumn("THRESHOLD", lambda row: f"{row['percent']} %", right=True),
    TableColumn("THEN", lambda row: _EFFECTS[row["effect"]]),
    TableColumn("REACHED", lambda row: describe_instant(row["reached_ns"]) or "not yet"),
)
_VERBS = {
    "set": _set_budget,
    "list": _list_budgets,
    "show": _show_budget,
    "delete": _delete_budget,
}
