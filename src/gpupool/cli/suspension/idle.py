"""`gpupool idle`: jobs that do not use their share, and the policies that say what follows."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from gpupool.base.units import format_span, parse_duration
from gpupool.cli.accounts.price import format_micro
from gpupool.cli.suspension import idle_policy
from gpupool.terminal.context import CommandContext, print_notice
from gpupool.terminal.listing import describe_compute, describe_instant
from gpupool.terminal.output import Row, TableColumn, format_pairs, print_data, print_list
from gpupool.terminal.parser import OBJECT_FORMATS, CommandParser, add_output
from gpupool.terminal.references import job_path

_HOUR_MS = 3_600_000


def register(parser: CommandParser) -> None:
    parser.about = """
    A job is idle while no kernel or copy of it runs on its cards and no byte goes into or out of it: terminal, ssh,
    exec, forwarded port, notebook. A policy says what follows: a warning, then less compute, then a suspend, then the
    end. Any use begins the time anew, and a job that was shrunk gets its share back where there is room. What is not
    known is not idle: a job without a fence is left alone. Without a policy nothing happens.
    """
    parser.examples = [
        "gpupool idle list",
        "gpupool idle keep nb 2h",
        "gpupool idle policy set --warn 50m --shrink 60m --suspend 90m --stop 2h --dry-run",
        "gpupool idle report --since 7d",
        "gpupool idle policy set --kind notebook --warn 50m --suspend 60m",
        "gpupool notify add me --mail ada@example.com --on job-idle",
    ]
    parser.add_verbs()
    listing = parser.add_verb("list", "idle jobs: for how long, what comes next, what they cost")
    listing.add_argument("--all", action="store_true", help="also jobs that are active")
    add_output(listing)
    show = parser.add_verb("show", "one running job: is it idle, and what follows")
    show.add_argument("job", metavar="JOB", help="id, name or last")
    add_output(show, OBJECT_FORMATS)
    keep = parser.add_verb("keep", "leave an idle job alone for a while")
    keep.add_argument("job", metavar="JOB", help="id, name or last")
    keep.add_argument(
        "time", metavar="TIME", nargs="?", type=parse_duration, help="2h (default: the longest)"
    )
    add_output(keep, OBJECT_FORMATS)
    report = parser.add_verb("report", "what policies gave back, and dry runs would have")
    report.add_argument("--since", default="7d", metavar="TIME", help="from when (default: 7d)")
    report.add_argument("--until", metavar="TIME", help="to when (default: now)")
    report.add_argument("--tenant", metavar="TENANT", help="only of this tenant")
    add_output(report)
    idle_policy.register_policies(parser)


def run(options: argparse.Namespace, context: CommandContext) -> int:
    return int((_VERBS | idle_policy.VERBS)[options.verb](options, context))


def _list_jobs(options: argparse.Namespace, context: CommandContext) -> int:
    query = {"all": "true" if options.all else None}
    rows = context.api.request("GET", "idle/jobs", query=query)
    print_list(rows, COLUMNS, options.output, empty="no idle jobs")
    return 0


def _show_job(options: argparse.Namespace, context: CommandContext) -> int:
    return _print_job(context.api.request("GET", f"{job_path(options.job)}/idle"), options.output)


def _keep_job(options: argparse.Namespace, context: CommandContext) -> int:
    path = f"{job_path(options.job)}/idle/keep"
    key = os.urandom(16).hex()
    kept = context.api.request("POST", path, {"seconds": options.time}, idempotency_key=key)
    if options.output != "table":
        return _print_job(kept, options.output)
    until = describe_instant(kept["keep_until_ns"])
    sys.stdout.write(
        f"{kept['name']} is kept until {until}; {kept['keeps_left']} more in these 24 hours\n"
    )
    return 0


def _print_job(job: dict[str, Any], output: str) -> int:
    if output != "table":
        print_data(job, output)
        return 0
    facts: list[tuple[str, object]] = [
        ("job", f"{job['name']} ({job['job']})"),
        ("of", f"{job['user']}, tenant {job['tenant']}"),
        ("kind", job["kind"]),
        ("state", job["state"]),
        ("idle", _describe_idle(job)),
        ("holds", describe_compute(job["gpu_milli"])),
        ("costs", _describe_cost(job)),
        ("policy", job["rule"] or "none: nothing happens"),
        ("last step", _describe_last(job)),
        ("next step", _describe_next(job)),
        ("keeps left", job["keeps_left"]),
    ]
    sys.stdout.write(format_pairs(facts) + "\n")
    return 0


def _show_report(options: argparse.Namespace, context: CommandContext) -> int:
    query = {"since": options.since, "until": options.until, "tenant": options.tenant}
    report = context.api.request("GET", "idle/report", query=query)
    if options.output in ("json", "yaml"):
        print_data(report, options.output)
        return 0
    rows = [{**row, "currency": report["currency"]} for row in report["rows"]]
    empty = "no idle policy took or counted anything in this time"
    print_list(rows, REPORT_COLUMNS, options.output, empty=empty)
    if report.get("left_out"):
        print_notice(
            f"newer steps left out: {report['left_out']}; for less time give --since and --until"
        )
    return 0


def _describe_idle(job: Row) -> str | None:
    return None if job["idle_seconds"] is None else _shorten(job["idle_seconds"])


def _shorten(seconds: int) -> str:
    """Format a time without the seconds of long ones."""
    return format_span(seconds - seconds % 60 if seconds >= 600 else seconds)


def _describe_cost(job: Row) -> str | None:
    if job["cost_per_hour_micro"] is None:
        return None
    return f"{format_micro(job['cost_per_hour_micro'])} {job['currency']}/h"


def _describe_last(job: Row) -> str:
    if job["act"] is None:
        return "waits for its share" if job["waits_to_grow"] else "none"
    skip = f", not possible: {job['skip']}" if job["skip"] else ""
    dry = " (dry run)" if job["mode"] == "dry-run" else ""
    return f"{job['act']} at {describe_instant(job['act_ns'])}{dry}{skip}"


def _describe_next(job: Row) -> str | None:
    if job["next_act"] is None:
        return "none" if job["state"] != "unknown" else None
    return f"{job['next_act']} at {describe_instant(job['next_ns'])}"


def _describe_hours(row: Row) -> str | None:
    milliseconds = row["card_milliseconds"]
    return None if milliseconds is None else f"{milliseconds / _HOUR_MS:.2f}"


def _describe_saving(row: Row) -> str | None:
    if row["cost_micro"] is None:
        return None
    return f"{format_micro(row['cost_micro'] // 10_000 * 10_000)} {row['currency']}".strip()


COLUMNS = (
    TableColumn("JOB", lambda row: row["name"]),
    TableColumn("USER", lambda row: f"{row['tenant']}/{row['user']}"),
    TableColumn("STATE", lambda row: row["state"]),
    TableColumn("IDLE", _describe_idle, right=True),
    TableColumn("GPU", lambda row: describe_compute(row["gpu_milli"]), right=True),
    TableColumn("COST", _describe_cost, right=True),
    TableColumn("LAST STEP", lambda row: row["act"] or "none"),
    TableColumn("NEXT STEP", _describe_next),
)
REPORT_COLUMNS = (
    TableColumn("TENANT", lambda row: row["tenant"]),
    TableColumn("STEP", lambda row: row["act"]),
    TableColumn("MODE", lambda row: "dry run" if row["dry_run"] else "done"),
    TableColumn("STEPS", lambda row: row["steps"], right=True),
    TableColumn("JOBS", lambda row: row["jobs"], right=True),
    TableColumn("GPU-HOURS", _describe_hours, right=True),
    TableColumn("MONEY", _describe_saving, right=True),
)
_VERBS = {"list": _list_jobs, "show": _show_job, "keep": _keep_job, "report": _show_report}
