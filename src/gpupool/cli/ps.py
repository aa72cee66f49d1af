"""`gpupool ps`: jobs. Live ones, and those that ended within the last hour."""

from __future__ import annotations

import argparse
import time
from typing import Any

from gpupool.base.units import format_duration
from gpupool.cli.context import Context
from gpupool.cli.listing import add_limit, instant, mib, show_list
from gpupool.cli.output import Column, Row, many
from gpupool.cli.parser import Parser, add_output, one_of

STATES = ("pending", "starting", "running", "done", "failed", "stopped", "lost")
_COLORS = {"running": "green", "pending": "yellow", "starting": "yellow", "failed": "red", "lost": "red"}
_LIVE = STATES[:3]


def register(parser: Parser) -> None:
    parser.about = """
    Live jobs, newest first, then those that ended within the last hour. You see your tenant's jobs; an admin
    sees all jobs. USE is the GPU time between the last two samples as a part of the job's own share: 100 % is
    all of it, more is borrowed; it is -- where nothing measures it. What an array still has to start is one line.
    A job that waits says when it starts, where that is known: `by` a time is a promise, `about` one an estimate.
    """
    parser.examples = ["gpupool ps", "gpupool ps --state pending -o wide", "gpupool ps --all -o csv > jobs.csv"]
    parser.add_argument("name", nargs="?", metavar="NAME", help="only jobs of this name, array or gang")
    parser.add_argument("-a", "--all", action="store_true", help="also those that ended longer ago")
    parser.add_argument("--live", action="store_true", help="only those that wait, start or run")
    parser.add_argument(
        "--state", action="append", type=one_of("--state", *STATES), metavar="STATE", help=", ".join(STATES)
    )
    parser.add_argument("--tenant", metavar="TENANT", help="only this tenant's (admins)")
    parser.add_argument("--user", metavar="USER", help="only this user's")
    parser.add_argument("--mine", action="store_true", help="only your own")
    add_limit(parser)
    add_output(parser)


def run(options: argparse.Namespace, context: Context) -> int:
    user = context.api.request("GET", "whoami")["user"] if options.mine else options.user
    query = {
        "all": options.all or None,
        "live": options.live or None,
        "state": options.state,
        "name": options.name,
        "tenant": options.tenant,
        "user": user,
    }
    return show_list(context, "jobs", query, COLUMNS, options.output, limit=options.limit, wire=_wire, empty="no jobs")


def _wire() -> Any:
    from gpupool.wire.jobs import JobOut

    return JobOut


def lasted(job: Row) -> str | None:
    """How long it has run or waited, or did run."""
    begin = job["started_ns"] or (job["submitted_ns"] if job["state"] in _LIVE else None)
    if begin is None:
        return None
    return format_duration(((job["ended_ns"] or time.time_ns()) - begin) / 1e9)


def where(job: Row) -> str | None:
    """Its cards, or `--`."""
    if not job["device"]:
        return None
    more = len(job["seats"]) - 1
    return f"{job['device']} +{more}" if more > 0 else str(job["device"])


def ending(job: Row) -> str | None:
    """Exit code or signal of an ended job."""
    if job["signal"] is not None:
        return f"signal {job['signal']}"
    return None if job["exit_code"] is None else str(job["exit_code"])


def use(job: Row, name: str, form: str) -> str | None:
    """A figure of its latest sample, None where there is none."""
    value = job["use"] and job["use"][name]
    return None if value is None else form.format(value)


def used_memory(job: Row, name: str = "memory_bytes") -> str | None:
    """The same for memory."""
    return mib(job["use"] and job["use"][name])


def remark(job: Row) -> str:
    """When it starts and why it waits, or how it ended; else what it runs."""
    start = f"starts {job['start']}; " if job.get("start") else ""  # a server from before the fields has none
    if job.get("jobs", 1) > 1:
        return f"{many(job['jobs'], 'job')}: {start}{job['reason']}"
    return start + job["reason"] or " ".join(job["command"])


COLUMNS = (
    Column("NAME", lambda job: job["name"]),
    Column("ID", lambda job: job["id"], wide=True),
    Column("STATE", lambda job: job["state"], color=lambda job: _COLORS.get(job["state"])),
    Column("SHARE", lambda job: job["share"]),
    Column("CARD", where, spare=2),
    Column("USE", lambda job: use(job, "share_percent", "{:.0f} %"), right=True, spare=4),
    Column("TIME", lasted, right=True, spare=1),
    Column("USED", used_memory, wide=True, right=True),
    Column("UNACCOUNTED", lambda job: used_memory(job, "unaccounted_bytes"), wide=True, right=True),
    Column("REFUSALS", lambda job: use(job, "refusals", "{}"), wide=True, right=True),
    Column("USER", lambda job: f"{job['tenant']}/{job['user']}", spare=3),
    Column("PROJECT", lambda job: job["project"], wide=True),
    Column("PRIORITY", lambda job: job["priority"], wide=True, right=True),
    Column("GANG", lambda job: job["gang"] and f"{job['array']} {job['gang_role']}", wide=True),
    Column("PREEMPTED", lambda job: job["preemptions"] or None, wide=True, right=True),
    Column("SHARING", lambda job: job["sharing"], wide=True),
    Column("FENCE", lambda job: job["fence"], wide=True),
    Column("SIMULATED", lambda job: {True: "SIMULATED", False: "no", None: None}[job["simulated"]], wide=True),
    Column("SUBMITTED", lambda job: instant(job["submitted_ns"]), wide=True),
    Column("EXIT", ending, wide=True),
    Column("REASON OR COMMAND", remark),
)
