"""What the listing commands share: pages, the limit of a table, instants and shares as text."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gpupool.base.units import MIB, format_duration, format_gpu, format_instant, format_percent
from gpupool.client.paging import iterate_items, list_first
from gpupool.terminal.context import CommandContext, print_notice
from gpupool.terminal.output import TableColumn, print_list
from gpupool.terminal.parser import integer_within

#: Rows of a table unless --limit says otherwise: what a person reads. One page of the API.
LIMIT = 100


def add_limit(parser: argparse.ArgumentParser) -> None:
    """Add `--limit`, for tables; the other formats always give everything."""
    parser.add_argument(
        "--limit",
        type=integer_within("--limit", "the number of rows", 1, 1_000_000),
        default=LIMIT,
        metavar="N",
        help=f"rows of a table (default: {LIMIT}); json, yaml and csv always have all",
    )


def fetch_rows(
    context: CommandContext, path: str, query: Mapping[str, Any], output: str, limit: int = LIMIT
) -> tuple[list[dict[str, Any]], bool]:
    """Fetch the rows to print; the second value is whether a table leaves some out.

    Programs get everything whatever the limit: a script must not lose rows without an error.
    """
    if output in ("table", "wide"):
        return list_first(context.api, path, query, limit)
    return list(iterate_items(context.api, path, query)), False


def show_list(
    context: CommandContext,
    path: str,
    query: Mapping[str, Any],
    columns: Sequence[TableColumn],
    output: str,
    *,
    limit: int = LIMIT,
    wire: Callable[[], Any],
    empty: str,
) -> int:
    """Fetch and print a list; return the exit code.

    Args:
        wire: Returns the shape of a row. It is asked only for the head of an empty CSV, because
            importing the shapes costs more than the request.
    """
    rows, more = fetch_rows(context, path, query, output, limit)
    print_list(
        rows,
        columns,
        output,
        fields=lambda: list(wire().model_fields),
        empty=empty,
        color=context.color,
    )
    if more:
        print_more_hint(limit)
    return 0


def print_more_hint(limit: int) -> None:
    """Say that the table is not whole."""
    print_notice(
        f"only the first {limit} are shown; more with --limit {limit * 10}, all with -o json"
    )


def describe_compute(milli: int) -> str:
    """`0.30 GPU (30 %)`."""
    return f"{format_gpu(milli)} GPU ({format_percent(milli)} %)"


def describe_memory(size: int | None) -> str | None:
    """Format bytes as `8192 MiB`; None is unknown."""
    return None if size is None else f"{size // MIB} MiB"


def describe_instant(at_ns: int | None) -> str | None:
    """Format an instant in UTC; None is unknown."""
    return None if at_ns is None else format_instant(at_ns)


def describe_age(at_ns: int | None) -> str | None:
    """Format how long ago an instant of the wall clock was."""
    # This machine's clock may be behind the pool's: an age is never negative.
    return None if at_ns is None else format_duration(max(0, time.time_ns() - at_ns) / 1e9)


def describe_limit(milli: int | None) -> str:
    """Format a quota's compute; None is no limit."""
    return "no limit" if milli is None else f"{format_gpu(milli)} GPU"


def describe_memory_limit(size: int | None) -> str:
    """Format a quota's memory; None is no limit."""
    return "no limit" if size is None else f"{size // MIB} MiB"
