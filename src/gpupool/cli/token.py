"""`gpupool token`: create, list and revoke tokens."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from gpupool.base.units import parse_duration
from gpupool.cli.context import Context, say
from gpupool.cli.listing import add_limit, instant, show_list
from gpupool.cli.output import Column, print_data
from gpupool.cli.parser import OBJECT_FORMATS, Parser, add_output
from gpupool.cli.references import segment


def register(parser: Parser) -> None:
    parser.about = """
    A token stands for a user over the network. It is shown once, when it is made; the pool keeps only its hash.
    It makes no tokens itself unless --may-mint says so. Revoking it ends what it made and every login with it.
    Tokens of a user that is bound to a Unix account are made by that account and by pool admins alone.
    """
    parser.examples = [
        "gpupool token create --label laptop --expires 30d",
        "gpupool token create --user alice --once",
        "gpupool token list",
        "gpupool token revoke TOKEN-ID",
    ]
    parser.group()
    create = parser.verb("create", "make a token; it alone goes to stdout")
    create.add_argument("--user", metavar="USER", help="the user it is for (default: yourself)")
    create.add_argument("--label", default="", metavar="TEXT", help="what it is for")
    create.add_argument("--expires", type=parse_duration, metavar="TIME", help="ends after 12h, 30d (default: never)")
    create.add_argument("--once", action="store_true", help="for one login, within 10 minutes unless --expires says")
    create.add_argument("--may-mint", action="store_true", help="it may make tokens for its user; those never may")
    add_output(create, OBJECT_FORMATS)
    listing = parser.verb("list", "tokens that are not revoked")
    listing.add_argument("--user", metavar="USER", help="only this user's")
    add_limit(listing)
    add_output(listing)
    revoke = parser.verb("revoke", "end a token, what it made and its logins, now")
    revoke.add_argument("tokens", nargs="+", metavar="TOKEN-ID", help="as `token list` shows it")


def run(options: argparse.Namespace, context: Context) -> int:
    return int(_VERBS[options.verb](options, context))


def _create(options: argparse.Namespace, context: Context) -> int:
    body = {"user": options.user, "label": options.label, "expires_seconds": options.expires}
    if options.may_mint:
        body["may_mint"] = True
    made = context.api.request("POST", "tokens", body, query={"once": options.once or None})
    if options.output != "table":
        print_data(made, options.output)
        return 0
    sys.stdout.write(f"{made['token']}\n")
    until = f"until {instant(made['expires_ns'])}" if made["expires_ns"] else "until it is revoked"
    say(f"token {made['id']} for {made['user']}, {until}; it is not shown again")
    return 0


def _list(options: argparse.Namespace, context: Context) -> int:
    query = {"user": options.user}
    return show_list(
        context, "tokens", query, COLUMNS, options.output, limit=options.limit, wire=_wire, empty="no tokens"
    )


def _revoke(options: argparse.Namespace, context: Context) -> int:
    for token in options.tokens:
        context.api.request("DELETE", f"tokens/{segment(token, 'token')}")
        sys.stdout.write(f"{token} revoked\n")
    return 0


def _wire() -> Any:
    from gpupool.wire.people import TokenOut

    return TokenOut


COLUMNS = (
    Column("ID", lambda row: row["id"]),
    Column("USER", lambda row: row["user"]),
    Column("LABEL", lambda row: row["label"]),
    Column("KIND", lambda row: row["kind"]),
    Column("CREATED", lambda row: instant(row["created_ns"])),
    Column("EXPIRES", lambda row: instant(row["expires_ns"]) or "never"),
    Column("LAST USED", lambda row: instant(row["last_used_ns"])),
    Column("MADE BY", lambda row: row["parent"], wide=True),
    Column("MAY MINT", lambda row: "yes" if row["may_mint"] else "no", wide=True),
)
_VERBS = {"create": _create, "list": _list, "revoke": _revoke}
