"""What `defrag` and `rebalance` share: how far a plan may go, and making its moves."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

from gpupool.base.units import format_duration, format_gpu, format_mib, parse_duration
from gpupool.terminal.confirm import confirm_plan
from gpupool.terminal.context import CommandContext
from gpupool.terminal.output import TableColumn, count_noun, print_data
from gpupool.terminal.parser import CommandParser, integer_within


def add_apply(parser: CommandParser) -> None:
    """Add the options that say whether a plan is carried out."""
    parser.add_argument(
        # It changes nothing: people type it to be sure that nothing moves.
        "--plan",
        action="store_true",
        help="only show what would be moved (the default)",
    )
    parser.add_argument(
        "--apply", action="store_true", help="move them, after the plan and a question"
    )
    parser.add_argument("--yes", action="store_true", help="do not ask")


def add_limits(parser: CommandParser) -> None:
    """Add the options that bound a plan."""
    moves = integer_within("--max-moves", "the number of moves", 0, 10_000)
    parser.add_argument("--max-moves", type=moves, metavar="N", help="limit of moves")
    tenant = integer_within("--max-per-tenant", "the number of moves", 0, 10_000)
    parser.add_argument(
        "--max-per-tenant",
        type=tenant,
        metavar="N",
        help="limit of moves of one tenant's jobs",
    )
    parser.add_argument(
        "--max-lost", type=parse_duration, metavar="TIME", help="limit of lost work"
    )


def read_limits(options: argparse.Namespace) -> dict[str, Any]:
    """Return the bounds as the API names them."""
    return {
        "max_moves": options.max_moves,
        "max_moves_per_tenant": options.max_per_tenant,
        "max_lost_seconds": options.max_lost,
    }


def describe_reserved(found: dict[str, Any]) -> str:
    """Describe what reservations hold, in a line; nothing where they hold nothing."""
    held = found["reserved"]
    if not held["cards"]:
        return ""
    free = f"{format_gpu(held['gpu_milli'])} GPU + {format_mib(held['memory_bytes'])}"
    return f"no move takes what reservations hold: {free} of what is free now, on {count_noun(held['cards'], 'card')}\n"


def show_and_apply(
    options: argparse.Namespace,
    context: CommandContext,
    found: dict[str, Any],
    text: Callable[[dict[str, Any]], str],
) -> int:
    """Print the plan; with --apply ask, and make its moves. Returns the exit code."""
    moving: dict[str, Any] | None = None
    if options.output == "table":
        sys.stdout.write(text(found))
    if options.apply and found["moves"]:
        moving = _apply_moves(options, context, found["moves"])
    if options.output != "table":
        print_data({**found, "applied": moving}, options.output)
    elif moving is not None:
        told = count_noun(len(moving["moving"]), "job")
        sys.stdout.write(f"{told} told to move; gpupool events -f  tells when they start again\n")
    return 0


def _apply_moves(
    options: argparse.Namespace, context: CommandContext, moves: list[dict[str, Any]]
) -> dict[str, Any]:
    confirm_plan(
        [
            (
                f"stop {count_noun(len(moves), 'job')} and start {'it' if len(moves) == 1 else 'them'} "
                "again"
            )
        ],
        yes=options.yes,
    )
    # With the generations that the plan read: the pool refuses a move whose job changed since.
    asked = []
    for move in moves:
        asked.append({key: move[key] for key in ("job", "cards", "generations")})
    made: dict[str, Any] = context.api.request("POST", "defrag/moves", {"moves": asked})
    return made


#: Columns that both plans have.
JOB = TableColumn("JOB", lambda move: move["name"])
TENANT = TableColumn("TENANT", lambda move: move["tenant"])
LOSES = TableColumn("LOSES", lambda move: format_duration(move["lost_seconds"]), right=True)
