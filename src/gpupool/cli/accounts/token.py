"""`gpupool token`: create, list and revoke tokens."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from gpupool.base.units import parse_duration
from gpupool.terminal.context import CommandContext, print_notice
from gpupool.terminal.listing import add_limit, describe_instant, show_list
from gpupool.terminal.output import TableColumn, print_data
from gpupool.terminal.parser import OBJECT_FORMATS, CommandParser, add_output
from gpupool.terminal.references import quote_segment


def register(parser: CommandParser) -> None:
    parser.about = """
    A token authenticates a user over the network. It is shown once; the pool keeps only its hash. It creates tokens
    only with --may-mint. Revoking it ends its derived tokens and its logins. Only the account itself and pool
    admins create tokens of a user with a Unix account.
    """
    parser.examples = [
        "gpupool token create --label laptop --expires 30d",
        "gpupool token create --user alice --once",
        "gpupool token list",
        "gpupool token revoke TOKEN-ID",
    ]
    parser.add_verbs()
    create = parser.add_verb("create", "create a token; stdout has only the token")
    create.add_argument("--user", metavar="USER", help="the user it is for (default: yourself)")
    create.add_argument("--label", default="", metavar="TEXT", help="what it is for")
    create.add_argument(
        "--expires",
        type=parse_duration,
        metavar="TIME",
        help="ends after 12h, 30d (default: never)",
    )
    create.add_argument(
        "--once", action="store_true", help="for one login, within 10 minutes unless --expires says"
    )
    create.add_argument(
        "--may-mint", action="store_true", help="it may create tokens for its user; those cannot"
    )
    create.add_argument(
        "--scope",
        action="append",
        metavar="RIGHT",
        help="only this of what the role may: read, run … (several times)",
    )
    add_output(create, OBJECT_FORMATS)
    listing = parser.add_verb("list", "tokens that are not revoked")
    listing.add_argument("--user", metavar="USER", help="only this user's")
    add_limit(listing)
    add_output(listing)
    revoke = parser.add_verb("revoke", "revoke a token, its derived tokens and its logins at once")
    revoke.add_argument("tokens", nargs="+", metavar="TOKEN-ID", help="as `token list` shows it")


def run(options: argparse.Namespace, context: CommandContext) -> int:
    return int(_VERBS[options.verb](options, context))


def _create_token(options: argparse.Namespace, context: CommandContext) -> int:
    body = {"user": options.user, "label": options.label, "expires_seconds": options.expires}
    if options.may_mint:
        # Sent only when asked for: an older server refuses a field that it does not know.
        body["may_mint"] = True
    if options.scope:
        body["scopes"] = options.scope
    made = context.api.request("POST", "tokens", body, query={"once": options.once or None})
    if options.output != "table":
        print_data(made, options.output)
        return 0
    # Alone on stdout, so that `$(gpupool token create)` holds the token and nothing else.
    sys.stdout.write(f"{made['token']}\n")
    until = (
        f"until {describe_instant(made['expires_ns'])}"
        if made["expires_ns"]
        else "until it is revoked"
    )
    print_notice(f"token {made['id']} for {made['user']}, {until}; it is not shown again")
    return 0


def _list_tokens(options: argparse.Namespace, context: CommandContext) -> int:
    query = {"user": options.user}
    return show_list(
        context,
        "tokens",
        query,
        COLUMNS,
        options.output,
        limit=options.limit,
        wire=_wire_model,
        empty="no tokens",
    )


def _revoke_tokens(options: argparse.Namespace, context: CommandContext) -> int:
    for token in options.tokens:
        context.api.request("DELETE", f"tokens/{quote_segment(token, 'token')}")
        sys.stdout.write(f"{token} revoked\n")
    return 0


def _wire_model() -> Any:
    from gpupool.wire.people import TokenOut

    return TokenOut


COLUMNS = (
    TableColumn("ID", lambda row: row["id"]),
    TableColumn("USER", lambda row: row["user"]),
    TableColumn("LABEL", lambda row: row["label"]),
    TableColumn("KIND", lambda row: row["kind"]),
    TableColumn("CREATED", lambda row: describe_instant(row["created_ns"])),
    TableColumn("EXPIRES", lambda row: describe_instant(row["expires_ns"]) or "never"),
    TableColumn("LAST USED", lambda row: describe_instant(row["last_used_ns"])),
    TableColumn(
        "SCOPES", lambda row: " ".join(row.get("scopes") or ()) or "all of the role", wide=True
    ),
    TableColumn("MADE BY", lambda row: row["parent"], wide=True),
    TableColumn("MAY MINT", lambda row: "yes" if row["may_mint"] else "no", wide=True),
)
_VERBS = {"create": _create_token, "list": _list_tokens, "revoke": _revoke_tokens}
