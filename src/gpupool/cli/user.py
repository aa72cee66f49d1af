"""`gpupool user`: add, list, change and remove users."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from gpupool.base.errors import BadOption
from gpupool.base.ids import check_name
from gpupool.cli.confirm import confirm
from gpupool.cli.context import Context
from gpupool.cli.listing import add_limit, instant, show_list
from gpupool.cli.output import Column
from gpupool.cli.parser import Parser, add_output, add_yes, one_of
from gpupool.cli.references import segment

ROLES = ("admin", "tenant-admin", "user", "viewer", "agent", "scrape", "meter")
NOBODY = "none"


def register(parser: Parser) -> None:
    parser.about = """
    On the machine of the pool a Unix user is known without any of this. Users are added to give a person a
    role, another tenant, or a token for use over the network; jobs that come over the network run as the Unix
    user that an admin bound with --run-as. That account is then also this user on the pool's machine: one person
    is one user. A second user of the same account needs --unix-user none.
    """
    parser.examples = [
        "gpupool user add alice --tenant team-nlp --unix-user alice",
        "gpupool user add ci --role user --run-as builder --unix-user none",
        "gpupool user set alice --role tenant-admin",
        "gpupool user set alice --disable",
    ]
    parser.group()
    add = parser.verb("add", "add a user")
    add.add_argument("user", metavar="USER", help="the name")
    _common(add)
    listing = parser.verb("list", "every user you may see")
    add_limit(listing)
    add_output(listing)
    change = parser.verb("set", "change a user; what is not named stays")
    change.add_argument("user", metavar="USER", help="which")
    _common(change)
    switch = change.add_mutually_exclusive_group()
    switch.add_argument("--disable", dest="disabled", action="store_true", default=None, help="refuse it from now on")
    switch.add_argument("--enable", dest="disabled", action="store_false", default=None, help="let it in again")
    remove = parser.verb("remove", "take a user and its tokens out; refused while it has live jobs")
    remove.add_argument("user", metavar="USER", help="which")
    add_yes(remove)


def _common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tenant", metavar="TENANT", help="whose user it is")
    parser.add_argument("--role", type=one_of("--role", *ROLES), metavar="ROLE", help=", ".join(ROLES))
    parser.add_argument("--unix-user", metavar="ACCOUNT", help="known by this Unix account on the socket (or none)")
    parser.add_argument("--run-as", metavar="ACCOUNT", help="Unix account of its jobs from the network (or none)")


def run(options: argparse.Namespace, context: Context) -> int:
    return int(_VERBS[options.verb](options, context))


def _add(options: argparse.Namespace, context: Context) -> int:
    body = {"name": check_name(options.user, "user"), **_given(options)}
    return _print(context.api.request("POST", "users", body))


def _list(options: argparse.Namespace, context: Context) -> int:
    return show_list(context, "users", {}, COLUMNS, options.output, limit=options.limit, wire=_wire, empty="no users")


def _set(options: argparse.Namespace, context: Context) -> int:
    body = _given(options)
    if options.disabled is not None:
        body["disabled"] = options.disabled
    if not body:
        raise BadOption("nothing to change", hint="name what, e.g. --role viewer;  gpupool user set --help")
    return _print(context.api.request("PATCH", f"users/{segment(options.user, 'user')}", body))


def _remove(options: argparse.Namespace, context: Context) -> int:
    path = f"users/{segment(options.user, 'user')}"
    user = context.api.request("GET", path)
    confirm([f"remove user {user['name']} of {user['tenant']} and its tokens"], yes=options.yes)
    context.api.request("DELETE", path)
    sys.stdout.write(f"{user['name']} removed\n")
    return 0


def _given(options: argparse.Namespace) -> dict[str, Any]:
    names = ("tenant", "role", "unix_user", "run_as")
    given = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    return {name: None if name in names[2:] and value == NOBODY else value for name, value in given.items()}


def _print(user: dict[str, Any]) -> int:
    bound = f", known as Unix user {user['unix_user']}" if user["unix_user"] else ""
    runs = f", jobs run as {user['run_as']}" if user["run_as"] else ""
    off = ", disabled" if user["disabled"] else ""
    sys.stdout.write(f"{user['name']}: {user['role']} of {user['tenant']}{bound}{runs}{off}\n")
    return 0


def _wire() -> Any:
    from gpupool.wire.people import UserOut

    return UserOut


COLUMNS = (
    Column("USER", lambda row: row["name"]),
    Column("TENANT", lambda row: row["tenant"]),
    Column("ROLE", lambda row: row["role"]),
    Column("UNIX USER", lambda row: row["unix_user"]),
    Column("RUN AS", lambda row: row["run_as"]),
    Column("STATE", lambda row: "disabled" if row["disabled"] else "active"),
    Column("CREATED", lambda row: instant(row["created_ns"]), wide=True),
)
_VERBS = {"add": _add, "list": _list, "set": _set, "remove": _remove}
