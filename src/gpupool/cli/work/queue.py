"""`gpupool queue`: what waits, in the order of its turn."""

from __future__ import annotations

import argparse
from typing import Any

from gpupool.base.units import format_duration
from gpupool.terminal.context import CommandContext
from gpupool.terminal.listing import add_limit, show_list
from gpupool.terminal.output import Row, TableColumn, count_noun
from gpupool.terminal.parser import CommandParser, add_output


def register(parser: CommandParser) -> None:
    parser.about = """
    Waiting jobs in queue order: promised starts, then higher priority, then claims within their tenant's guarantee,
    then the tenant with the least usage. A later claim that fits may start before an earlier one that does not, but
    never delays a promised start. START is `by` a time if it is promised, `about` a time if it is an estimate from
    limits and past runs (with how many of 10 such claims start by then), -- if it is unknown. Of other tenants you
    see only the number of jobs.
    """
    parser.examples = ["gpupool queue", "gpupool queue -o json", "gpupool explain last"]
    add_limit(parser)
    add_output(parser)


def run(options: argparse.Namespace, context: CommandContext) -> int:
    return show_list(
        context,
        "queue",
        {},
        COLUMNS,
        options.output,
        limit=options.limit,
        wire=_wire_model,
        empty="nothing waits",
    )


def _wire_model() -> Any:
    from gpupool.wire.views.job_pages import QueuedOut

    return QueuedOut


def _describe_job(row: Row) -> str:
    if row["job"] is None:
        return f"{count_noun(row['count'], 'job')} of other tenants"
    # An array's waiting rest stands behind the job whose turn is next; a gang is counted whole.
    of = "members" if row["gang"] else "behind it"
    more = row["count"] - (0 if row["gang"] else 1)
    return f"{row['job']} ({more} {of})" if more > 0 else str(row["job"])


COLUMNS = (
    TableColumn("PLACE", lambda row: row["place"], right=True),
    TableColumn("JOB", _describe_job),
    TableColumn("ID", lambda row: row["id"], wide=True),
    TableColumn("TENANT", lambda row: row["tenant"], spare=4),
    TableColumn("USER", lambda row: row["user"], wide=True),
    TableColumn("SHARE", lambda row: row["share"], spare=2),
    TableColumn("PRIORITY", lambda row: row["priority"], right=True, spare=3),
    TableColumn(
        "WAITED",
        lambda row: (
            None if row["waited_seconds"] is None else format_duration(row["waited_seconds"])
        ),
        right=True,
        spare=1,
    ),
    TableColumn("START", lambda row: row.get("start")),  # a server from before the field has none
    TableColumn("REASON", lambda row: row["reason"]),
)
