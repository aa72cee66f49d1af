"""`gpupool ps`: jobs. Live ones, and those that ended within the last hour."""

from __future__ import annotations

import argparse
import time
from typing import Any

from gpupool.base.units import format_duration, format_gpu
from gpupool.terminal.chain_lines import describe_attempt
from gpupool.terminal.context import CommandContext
from gpupool.terminal.listing import add_limit, describe_instant, describe_memory, show_list
from gpupool.terminal.output import Row, TableColumn, count_noun
from gpupool.terminal.parser import CommandParser, add_output, one_of

#: Words of `model.job.JobState`, repeated: a live job has one of the first three.
STATES = ("pending", "starting", "running", "done", "failed", "stopped", "lost")
_COLORS = {
    "running": "green",
    "pending": "yellow",
    "starting": "yellow",
    "suspended": "yellow",
    "failed": "red",
    "lost": "red",
}
_LIVE = STATES[:3]
#: Words of the API's `sort`.
ORDERS = ("submitted", "started", "ended", "name", "gpu")


def register(parser: CommandParser) -> None:
    parser.about = """
    Live jobs, newest first, then jobs that ended within the last hour. You see your tenant's jobs; an admin
    sees all jobs. USE is the GPU time between the last two samples as a part of the job's share: 100 % is
    all of it, more is borrowed, -- is not measured. The waiting rest of an array is one line. A waiting job shows
    its start time if it is known: `by` is a promise, `about` an estimate.
    """
    parser.examples = [
        "gpupool ps",
        "gpupool ps --state pending -o wide",
        "gpupool ps --all -o csv > jobs.csv",
        "gpupool ps --search llama --state failed --sort=-ended",
    ]
    parser.add_argument(
        "name", nargs="?", metavar="NAME", help="only jobs of this name, array or gang"
    )
    parser.add_argument("-a", "--all", action="store_true", help="also jobs that ended earlier")
    parser.add_argument("--live", action="store_true", help="only jobs that wait, start or run")
    parser.add_argument(
        "--state",
        action="append",
        type=one_of("--state", *STATES),
        metavar="STATE",
        help=", ".join(STATES),
    )
    parser.add_argument("--tenant", metavar="TENANT", help="only this tenant's (admins)")
    parser.add_argument("--project", metavar="PROJECT", help="only this project's")
    parser.add_argument("--user", metavar="USER", help="only this user's")
    parser.add_argument("--mine", action="store_true", help="only your own")
    parser.add_argument(
        "-q",
        "--search",
        dest="text",
        metavar="TEXT",
        help="all jobs with this in their name, user or image, or at the beginning of their id",
    )
    parser.add_argument(
        "--sort",
        type=one_of("--sort", *ORDERS, *(f"-{word}" for word in ORDERS)),
        metavar="ORDER",
        help=f"all jobs by {', '.join(ORDERS)}; --sort=-gpu: the largest first",
    )
    add_limit(parser)
    add_output(parser)


def run(options: argparse.Namespace, context: CommandContext) -> int:
    user = context.api.request("GET", "whoami")["user"] if options.mine else options.user
    query = {
        "all": options.all or None,
        "live": options.live or None,
        "state": options.state,
        "name": options.name,
        "tenant": options.tenant,
        "project": options.project,
        "user": user,
        "q": options.text,
        "sort": options.sort,
    }
    return show_list(
        context,
        "jobs",
        query,
        COLUMNS,
        options.output,
        limit=options.limit,
        wire=_wire_model,
        empty="no jobs",
    )


def _wire_model() -> Any:
    from gpupool.wire.jobs import JobOut

    return JobOut


def describe_duration(job: Row) -> str | None:
    """Format how long a job has run or waited, or did run."""
    begin = job["started_ns"] or (job["submitted_ns"] if job["state"] in _LIVE else None)
    if begin is None:
        return None
    # The wall clock of this machine: the list's own instant is not part of the answer.
    return format_duration(((job["ended_ns"] or time.time_ns()) - begin) / 1e9)


def describe_state(job: Row) -> str:
    """Return the state; of a running job that is not on its cards, where it is on its way."""
    suspension = job.get("suspension")
    if suspension is None or suspension["state"] == "failed":
        return str(job["state"])
    return str(suspension["state"])


def describe_place(job: Row) -> str | None:
    """Format a job's cards: the first, and how many more."""
    if not job["device"]:
        return None
    more = len(job["seats"]) - 1
    return f"{job['device']} +{more}" if more > 0 else str(job["device"])


def describe_request(job: Row) -> str | None:
    """Format what a job asked for, where an advice policy gave it less."""
    # A server from before the field has none.
    advice = job.get("advice")
    if advice is None or advice["state"] not in ("applied", "waits"):
        return None
    return f"{format_gpu(advice['asked_milli'])} + {describe_memory(advice['asked_bytes']) or '--'}"


def describe_ending(job: Row) -> str | None:
    """Format exit code or signal of an ended job."""
    if job["signal"] is not None:
        return f"signal {job['signal']}"
    return None if job["exit_code"] is None else str(job["exit_code"])


def describe_use(job: Row, name: str, form: str) -> str | None:
    """Format a figure of a job's latest sample, None where there is none."""
    value = job["use"] and job["use"][name]
    return None if value is None else form.format(value)


def describe_used_memory(job: Row, name: str = "memory_bytes") -> str | None:
    """Format an amount of memory of a job's latest sample."""
    return describe_memory(job["use"] and job["use"][name])


def describe_remark(job: Row) -> str:
    """Format when a job starts and why it waits, or how it ended; else what it runs."""
    start = (
        f"starts {job['start']}; " if job.get("start") else ""
    )  # a server from before the fields has none
    if job.get("jobs", 1) > 1:
        return f"{count_noun(job['jobs'], 'job')}: {start}{job['reason']}"
    return start + job["reason"] or " ".join(map(_cut_word, job["command"]))


def _cut_word(word: str) -> str:
    """Cut a word of a command behind its first line: a script would fill the screen."""
    first, newline, _ = word.partition("\n")
    return f"{first} …" if newline else word


COLUMNS = (
    TableColumn("NAME", lambda job: job["name"]),
    TableColumn("ID", lambda job: job["id"], wide=True),
    TableColumn("STATE", describe_state, color=lambda job: _COLORS.get(describe_state(job))),
    TableColumn("SHARE", lambda job: job["share"]),
    TableColumn("ASKED", describe_request, wide=True),
    TableColumn("CARD", describe_place, spare=2),
    TableColumn(
        "USE", lambda job: describe_use(job, "share_percent", "{:.0f} %"), right=True, spare=4
    ),
    TableColumn("TIME", describe_duration, right=True, spare=1),
    TableColumn("USED", describe_used_memory, wide=True, right=True),
    TableColumn(
        "UNACCOUNTED",
        lambda job: describe_used_memory(job, "unaccounted_bytes"),
        wide=True,
        right=True,
    ),
    TableColumn("REFUSALS", lambda job: describe_use(job, "refusals", "{}"), wide=True, right=True),
    TableColumn("USER", lambda job: f"{job['tenant']}/{job['user']}", spare=3),
    TableColumn("PROJECT", lambda job: job["project"], wide=True),
    TableColumn("PRIORITY", lambda job: job["priority"], wide=True, right=True),
    TableColumn(
        "GANG", lambda job: job["gang"] and f"{job['array']} {job['gang_role']}", wide=True
    ),
    TableColumn("ATTEMPT", describe_attempt, wide=True),
    TableColumn("PREEMPTED", lambda job: job["preemptions"] or None, wide=True, right=True),
    TableColumn("SHARING", lambda job: job["sharing"], wide=True),
    TableColumn("FENCE", lambda job: job["fence"], wide=True),
    TableColumn(
        "SIMULATED",
        lambda job: {True: "SIMULATED", False: "no", None: None}[job["simulated"]],
        wide=True,
    ),
    TableColumn("SUBMITTED", lambda job: describe_instant(job["submitted_ns"]), wide=True),
    TableColumn("EXIT", describe_ending, wide=True),
    TableColumn("REASON OR COMMAND", describe_remark),
)
