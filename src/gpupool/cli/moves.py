"""What `defrag` and `rebalance` share: how far a plan may go, and to make its moves when asked to."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

from gpupool.base.units import format_duration, format_gpu, format_mib, parse_duration
from gpupool.cli.confirm import confirm
from gpupool.cli.context import Context
from gpupool.cli.output import Column, many, print_data
from gpupool.cli.parser import Parser, number


def add_apply(parser: Parser) -> None:
    parser.add_argument("--plan", action="store_true", help="only show what would be moved (the default)")
    parser.add_argument("--apply", action="store_true", help="move them, after the plan and a question")
    parser.add_argument("--yes", action="store_true", help="do not ask")


def add_limits(parser: Parser) -> None:
    moves = number("--max-moves", "the number of moves", 0, 10_000)
    parser.add_argument("--max-moves", type=moves, metavar="N", help="at most so many moves in all")
    tenant = number("--max-per-tenant", "the number of moves", 0, 10_000)
    parser.add_argument("--max-per-tenant", type=tenant, metavar="N", help="at most so many moves of one tenant's jobs")
    parser.add_argument("--max-lost", type=parse_duration, metavar="TIME", help="at most so much lost work in all")


def limits(options: argparse.Namespace) -> dict[str, Any]:
    """As the pool is asked."""
    return {
        "max_moves": options.max_moves,
        "max_moves_per_tenant": options.max_per_tenant,
        "max_lost_seconds": options.max_lost,
    }


def reserved(found: dict[str, Any]) -> str:
    """A line on what reservations hold, where they hold something."""
    held = found["reserved"]
    if not held["cards"]:
        return ""
    free = f"{format_gpu(held['gpu_milli'])} GPU + {format_mib(held['memory_bytes'])}"
    return f"no move takes what reservations hold: {free} of what is free now, on {many(held['cards'], 'card')}\n"


def show_and_apply(
    options: argparse.Namespace, context: Context, found: dict[str, Any], text: Callable[[dict[str, Any]], str]
) -> int:
    """Print the plan; with --apply ask, and make its moves."""
    moving: dict[str, Any] | None = None
    if options.output == "table":
        sys.stdout.write(text(found))
    if options.apply and found["moves"]:
        moving = _apply(options, context, found["moves"])
    if options.output != "table":
        print_data({**found, "applied": moving}, options.output)
    elif moving is not None:
        told = many(len(moving["moving"]), "job")
        sys.stdout.write(f"{told} told to move; gpupool events -f  tells when they start again\n")
    return 0


def _apply(options: argparse.Namespace, context: Context, moves: list[dict[str, Any]]) -> dict[str, Any]:
    confirm([f"stop {many(len(moves), 'job')} and start {'it' if len(moves) == 1 else 'them'} again"], yes=options.yes)
    asked = [{key: move[key] for key in ("job", "cards", "generations")} for move in moves]
    made: dict[str, Any] = context.api.request("POST", "defrag/moves", {"moves": asked})
    return made


JOB = Column("JOB", lambda move: move["name"])
TENANT = Column("TENANT", lambda move: move["tenant"])
LOSES = Column("LOSES", lambda move: format_duration(move["lost_seconds"]), right=True)
