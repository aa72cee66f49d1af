"""What the listing commands share: pages, the limit of a table, instants and shares as text."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gpupool.base.units import MIB, format_duration, format_gpu, format_instant, format_percent
from gpupool.cli.context import Context, say
from gpupool.cli.output import Column, print_list
from gpupool.cli.parser import number
from gpupool.client.paging import every, first

LIMIT = 100


def add_limit(parser: argparse.ArgumentParser) -> None:
    """`--limit`, for tables; the other formats always give everything."""
    parser.add_argument(
        "--limit",
        type=number("--limit", "the number of rows", 1, 1_000_000),
        default=LIMIT,
        metavar="N",
        help=f"rows of a table (default: {LIMIT}); json, yaml and csv always have all",
    )


def fetch(
    context: Context, path: str, query: Mapping[str, Any], output: str, limit: int = LIMIT
) -> tuple[list[dict[str, Any]], bool]:
    """The rows to print, and whether a table leaves some out."""
    if output in ("table", "wide"):
        return first(context.api, path, query, limit)
    return list(every(context.api, path, query)), False


def show_list(
    context: Context,
    path: str,
    query: Mapping[str, Any],
    columns: Sequence[Column],
    output: str,
    *,
    limit: int = LIMIT,
    wire: Callable[[], Any],
    empty: str,
) -> int:
    """Fetch and print a list; `wire` gives the shape of its rows, asked only for the head of an empty CSV."""
    rows, more = fetch(context, path, query, output, limit)
    print_list(rows, columns, output, fields=lambda: list(wire().model_fields), empty=empty, color=context.color)
    if more:
        more_hint(limit)
    return 0


def more_hint(limit: int) -> None:
    say(f"only the first {limit} are shown; more with --limit {limit * 10}, all with -o json")


def compute(milli: int) -> str:
    """`0.30 GPU (30 %)`."""
    return f"{format_gpu(milli)} GPU ({format_percent(milli)} %)"


def mib(size: int | None) -> str | None:
    return None if size is None else f"{size // MIB} MiB"


def instant(at_ns: int | None) -> str | None:
    return None if at_ns is None else format_instant(at_ns)


def ago(at_ns: int | None) -> str | None:
    """Age of an instant, as a clock would show it."""
    return None if at_ns is None else format_duration(max(0, time.time_ns() - at_ns) / 1e9)


def limit_of(milli: int | None) -> str:
    """A quota's compute; None is no limit."""
    return "no limit" if milli is None else f"{format_gpu(milli)} GPU"


def memory_limit(size: int | None) -> str:
    return "no limit" if size is None else f"{size // MIB} MiB"
