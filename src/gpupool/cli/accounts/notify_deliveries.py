"""`gpupool notify deliveries` and `gpupool notify dead`: what was sent, waits, or was given up."""

from __future__ import annotations

import argparse
from typing import Any, Final

from gpupool.base.errors import BadOption
from gpupool.terminal.context import CommandContext
from gpupool.terminal.listing import describe_instant
from gpupool.terminal.output import TableColumn, print_list
from gpupool.terminal.parser import CommandParser, add_output
from gpupool.terminal.references import quote_segment

#: Of one answer; the server's limit.
_MOST_DEAD: Final = 1000


def register_deliveries(parser: CommandParser) -> None:
    """Add the verbs."""
    shown = parser.add_verb("deliveries", "what was sent, waits or was given up")
    shown.add_argument("--state", choices=("waiting", "sent", "dead"), help="only these")
    add_output(shown)
    dead = parser.add_verb("dead", "what was given up: list it, or try it again now")
    dead.add_argument("action", choices=("list", "retry"), help="what to do")
    dead.add_argument("ids", nargs="*", metavar="ID", help="as `notify dead list` shows it")
    dead.add_argument("--all", action="store_true", help="retry all that you see")
    add_output(dead)


def list_deliveries(options: argparse.Namespace, context: CommandContext) -> int:
    """List deliveries."""
    rows = context.api.request("GET", "deliveries", query={"state": options.state})
    return _print_deliveries(rows, options, context)


def treat_dead(options: argparse.Namespace, context: CommandContext) -> int:
    """List what was given up, or try it again."""
    is_list = options.action == "list"
    if is_list and (options.ids or options.all):
        raise BadOption("`notify dead list` takes no ids", hint="gpupool notify dead retry ID")
    if not is_list and bool(options.ids) == options.all:
        raise BadOption(
            "`notify dead retry` needs ids or --all", hint="gpupool notify dead list  shows them"
        )
    rows: list[dict[str, Any]] = []
    if not options.ids:
        query = {"state": "dead", "limit": _MOST_DEAD}
        rows = context.api.request("GET", "deliveries", query=query)
    if not is_list:
        ids = options.ids or [row["id"] for row in rows]
        rows = [_retry_delivery(one, context) for one in ids]
    return _print_deliveries(rows, options, context)


def _retry_delivery(delivery: str, context: CommandContext) -> dict[str, Any]:
    path = f"deliveries/{quote_segment(delivery, 'delivery')}/retry"
    done: dict[str, Any] = context.api.request("POST", path, {})
    return done


def _print_deliveries(
    rows: list[dict[str, Any]], options: argparse.Namespace, context: CommandContext
) -> int:
    print_list(
        rows,
        COLUMNS,
        options.output,
        fields=_list_delivery_fields,
        empty="no deliveries",
        color=context.color,
    )
    return 0


def _list_delivery_fields() -> list[str]:
    from gpupool.wire.notifications import DeliveryOut

    return list(DeliveryOut.model_fields)


COLUMNS = (
    TableColumn("ID", lambda row: row["id"]),
    TableColumn("SUBSCRIPTION", lambda row: row["subscription"]),
    TableColumn("TOPIC", lambda row: row["topic"]),
    TableColumn("SUBJECT", lambda row: row["subject"]),
    TableColumn("AT", lambda row: describe_instant(row["at_ns"])),
    TableColumn("STATE", lambda row: row["state"]),
    TableColumn("ATTEMPTS", lambda row: str(row["attempts"])),
    TableColumn("ERROR", lambda row: row["error"] or "--"),
)
