"""`gpupool use`: what a running job used of its share, from its start until now."""

from __future__ import annotations

import argparse
from typing import Any

from gpupool.terminal.context import CommandContext
from gpupool.terminal.listing import describe_instant, describe_memory
from gpupool.terminal.output import Row, TableColumn, print_data, print_list
from gpupool.terminal.parser import CommandParser, add_output
from gpupool.terminal.references import job_path

#: Columns of the answer that have an entry for each stretch of time.
SERIES = ("at_ns", "gpu_percent", "share_percent", "memory_bytes")


def register(parser: CommandParser) -> None:
    parser.about = """
    One line for each stretch of time, at most 120 for a run of any length. SHARE is the GPU time as a part of the
    job's own share: 100 % is all of it, more is borrowed, -- is not measured. The server keeps this in memory: it is
    shorter after a restart of the server, and empty when the job has ended.
    """
    parser.examples = ["gpupool use train", "gpupool use last -o csv"]
    parser.add_argument("job", metavar="JOB", help="name, id or last")
    add_output(parser)


def run(options: argparse.Namespace, context: CommandContext) -> int:
    found = context.api.request("GET", f"{job_path(options.job)}/use")
    if options.output in ("json", "yaml"):
        print_data(found, options.output)
        return 0
    print_list(
        list_rows(found),
        COLUMNS,
        options.output,
        fields=lambda: list(SERIES),
        empty="no use is known: the job has just started, does not run, or has no fence",
        color=context.color,
    )
    return 0


def list_rows(found: dict[str, Any]) -> list[Row]:
    """List the entries of the columns as rows, the oldest first."""
    rows = zip(*(found[name] for name in SERIES), strict=True)
    return [dict(zip(SERIES, row, strict=True)) for row in rows]


def _describe_percent(value: float | None) -> str | None:
    return None if value is None else f"{value:.0f} %"


COLUMNS = (
    TableColumn("UNTIL", lambda row: describe_instant(row["at_ns"])),
    TableColumn("SHARE", lambda row: _describe_percent(row["share_percent"]), right=True),
    TableColumn("GPU", lambda row: _describe_percent(row["gpu_percent"]), right=True),
    TableColumn("MEMORY", lambda row: describe_memory(row["memory_bytes"]), right=True),
)
