"""`gpupool queue`: what waits, in the order of its turn."""

from __future__ import annotations

import argparse
from typing import Any

from gpupool.base.units import format_duration
from gpupool.cli.context import Context
from gpupool.cli.listing import add_limit, show_list
from gpupool.cli.output import Column, Row, many
from gpupool.cli.parser import Parser, add_output


def register(parser: Parser) -> None:
    parser.about = """
    What waits, in the order of its turn: promised starts, then higher priority, then claims inside their tenant's
    guarantee, then the tenant that used least of the pool. A later claim that fits may start before an earlier one that
    does not, but never delays a promised start. START is `by` a time where it is promised, `about` one where it is an
    estimate from limits and past runs (with how many of 10 such claims start by then), -- where nothing is known. Of
    other tenants you see how many jobs stand where.
    """
    parser.examples = ["gpupool queue", "gpupool queue -o json", "gpupool explain last"]
    add_limit(parser)
    add_output(parser)


def run(options: argparse.Namespace, context: Context) -> int:
    return show_list(
        context, "queue", {}, COLUMNS, options.output, limit=options.limit, wire=_wire, empty="nothing waits"
    )


def _wire() -> Any:
    from gpupool.wire.jobs import QueuedOut

    return QueuedOut


def _job(row: Row) -> str:
    if row["job"] is None:
        return f"{many(row['count'], 'job')} of other tenants"
    of = "members" if row["gang"] else "behind it"
    more = row["count"] - (0 if row["gang"] else 1)
    return f"{row['job']} ({more} {of})" if more > 0 else str(row["job"])


COLUMNS = (
    Column("PLACE", lambda row: row["place"], right=True),
    Column("JOB", _job),
    Column("ID", lambda row: row["id"], wide=True),
    Column("TENANT", lambda row: row["tenant"]),
    Column("USER", lambda row: row["user"], wide=True),
    Column("SHARE", lambda row: row["share"]),
    Column("PRIORITY", lambda row: row["priority"], right=True),
    Column(
        "WAITED",
        lambda row: None if row["waited_seconds"] is None else format_duration(row["waited_seconds"]),
        right=True,
    ),
    Column("START", lambda row: row.get("start")),  # a server from before the field has none
    Column("REASON", lambda row: row["reason"]),
)
