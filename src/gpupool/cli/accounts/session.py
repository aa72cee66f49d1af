"""`gpupool session`: list and end logins of browsers."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from gpupool.base.errors import BadOption
from gpupool.client.paging import iterate_items
from gpupool.terminal.context import CommandContext
from gpupool.terminal.listing import add_limit, describe_instant, show_list
from gpupool.terminal.output import TableColumn
from gpupool.terminal.parser import CommandParser, add_output
from gpupool.terminal.references import quote_segment


def register(parser: CommandParser) -> None:
    parser.about = """
    A session is the login of one browser to the console. It ends 12 hours after its login, an hour after its last use,
    and when its user is disabled or gets another role or tenant. Admins see those of every user, tenants' admins
    those of their users.
    """
    parser.examples = [
        "gpupool session list",
        "gpupool session end SESSION-ID",
        "gpupool session end --user alice",
    ]
    parser.add_verbs()
    listing = parser.add_verb("list", "sessions that have not ended")
    listing.add_argument("--user", metavar="USER", help="only this user's")
    add_limit(listing)
    add_output(listing)
    end = parser.add_verb("end", "end sessions at once")
    end.add_argument("sessions", nargs="*", metavar="SESSION-ID", help="as `session list` shows it")
    end.add_argument("--user", metavar="USER", help="every session of this user")


def run(options: argparse.Namespace, context: CommandContext) -> int:
    return int(_VERBS[options.verb](options, context))


def _list_sessions(options: argparse.Namespace, context: CommandContext) -> int:
    return show_list(
        context,
        "sessions",
        {"user": options.user},
        COLUMNS,
        options.output,
        limit=options.limit,
        wire=_wire_model,
        empty="no sessions",
    )


def _end_sessions(options: argparse.Namespace, context: CommandContext) -> int:
    if bool(options.sessions) == (options.user is not None):
        raise BadOption(
            "session end needs sessions or --user", hint="gpupool session list  shows their ids"
        )
    found = options.sessions or [
        row["id"] for row in iterate_items(context.api, "sessions", {"user": options.user})
    ]
    for session in found:
        context.api.request("DELETE", f"sessions/{quote_segment(session, 'session')}")
        sys.stdout.write(f"{session} ended\n")
    if not found:
        sys.stdout.write("no sessions\n")
    return 0


def _wire_model() -> Any:
    from gpupool.wire.sessions import SessionRowOut

    return SessionRowOut


COLUMNS = (
    TableColumn("ID", lambda row: row["id"]),
    TableColumn("USER", lambda row: row["user"]),
    TableColumn("LOGIN", lambda row: describe_instant(row["created_ns"])),
    TableColumn("LAST USED", lambda row: describe_instant(row["used_ns"])),
    TableColumn("ENDS", lambda row: describe_instant(row["expires_ns"])),
    TableColumn("FROM", lambda row: row["address"]),
    TableColumn("TENANT", lambda row: row["tenant"], wide=True),
    TableColumn("BROWSER", lambda row: row["browser"], wide=True),
)
_VERBS = {"list": _list_sessions, "end": _end_sessions}
