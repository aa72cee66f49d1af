"""`gpupool user`: add, list, change and remove users."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from gpupool.base.errors import BadOption
from gpupool.base.ids import check_name
from gpupool.cli.accounts.user_handover import hand_over, register_handover, run_handover
from gpupool.cli.signon.user_logins import register_logins, run_password, run_totp
from gpupool.terminal.confirm import confirm_plan
from gpupool.terminal.context import CommandContext
from gpupool.terminal.listing import add_limit, describe_instant, show_list
from gpupool.terminal.output import TableColumn
from gpupool.terminal.parser import CommandParser, add_output, add_yes, one_of
from gpupool.terminal.references import quote_segment

#: The roles of `model.tenant.Role`; not imported, which would load enum before every command.
ROLES = (
    "admin",
    "operator",
    "auditor",
    "tenant-admin",
    "user",
    "viewer",
    "agent",
    "scrape",
    "meter",
    "scim",
)
NOBODY = "none"


def register(parser: CommandParser) -> None:
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
        "gpupool user add nightly --tenant team-nlp --service",
        "gpupool user password alice",
        "gpupool user handover alice --to bob",
        "gpupool user remove alice --hand-over bob",
    ]
    parser.add_verbs()
    add = parser.add_verb("add", "add a user")
    add.add_argument("user", metavar="USER", help="the name")
    _add_properties(add)
    add.add_argument(
        "--service", action="store_true", help="a program: tokens of at most 365 days, no account"
    )
    listing = parser.add_verb("list", "every user you may see")
    add_limit(listing)
    add_output(listing)
    change = parser.add_verb("set", "change a user; other properties stay")
    change.add_argument("user", metavar="USER", help="which")
    _add_properties(change)
    switch = change.add_mutually_exclusive_group()
    switch.add_argument(
        "--disable",
        dest="disabled",
        action="store_true",
        default=None,
        help="disable the user",
    )
    switch.add_argument(
        "--enable", dest="disabled", action="store_false", default=None, help="enable the user"
    )
    change.add_argument(
        "--hand-over",
        metavar="HEIR",
        help="with --disable: who gets its jobs, schedules, reservations",
    )
    add_yes(change)
    remove = parser.add_verb(
        "remove", "delete a user and its tokens; refused while it has live jobs"
    )
    remove.add_argument("user", metavar="USER", help="which")
    remove.add_argument(
        "--hand-over", metavar="HEIR", help="who gets its jobs, schedules and reservations first"
    )
    add_yes(remove)
    register_handover(parser)
    register_logins(parser)


def _add_properties(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tenant", metavar="TENANT", help="whose user it is")
    parser.add_argument(
        "--role", type=one_of("--role", *ROLES), metavar="ROLE", help=", ".join(ROLES)
    )
    parser.add_argument(
        "--unix-user",
        metavar="ACCOUNT",
        help="Unix account that authenticates the user on the socket (or none)",
    )
    parser.add_argument(
        "--run-as", metavar="ACCOUNT", help="Unix account of its jobs from the network (or none)"
    )


def run(options: argparse.Namespace, context: CommandContext) -> int:
    return int(_VERBS[options.verb](options, context))


def _add_user(options: argparse.Namespace, context: CommandContext) -> int:
    body = {"name": check_name(options.user, "user"), **_read_properties(options)}
    if options.service:
        body["kind"] = "service"
    return _print_user(context.api.request("POST", "users", body))


def _list_users(options: argparse.Namespace, context: CommandContext) -> int:
    return show_list(
        context,
        "users",
        {},
        COLUMNS,
        options.output,
        limit=options.limit,
        wire=_wire_model,
        empty="no users",
    )


def _change_user(options: argparse.Namespace, context: CommandContext) -> int:
    body = _read_properties(options)
    if options.disabled is not None:
        body["disabled"] = options.disabled
    if options.hand_over is not None and options.disabled is not True:
        raise BadOption(
            "--hand-over goes with --disable",
            hint=f"gpupool user handover {options.user} --to {options.hand_over}",
        )
    if not body:
        raise BadOption(
            "nothing to change", hint="name what, e.g. --role viewer;  gpupool user set --help"
        )
    path = f"users/{quote_segment(options.user, 'user')}"
    if options.hand_over is None:
        return _print_user(context.api.request("PATCH", path, body))
    # Disabled first: no job is added while the others are handed over.
    return hand_over(
        context,
        options.user,
        options.hand_over,
        first=f"disable user {options.user}",
        prepare=lambda: _print_user(context.api.request("PATCH", path, body)),
        yes=options.yes,
    )


def _remove_user(options: argparse.Namespace, context: CommandContext) -> int:
    path = f"users/{quote_segment(options.user, 'user')}"
    user = context.api.request("GET", path)
    act = (
        f"remove user {user['name']} of {user['tenant']}, its tokens, schedules, services and "
        "subscriptions"
    )
    if options.hand_over is None:
        confirm_plan([act], yes=options.yes)
    else:
        # A command that was cut off is repeated: what is done stays done.
        hand_over(
            context,
            options.user,
            options.hand_over,
            first=act,
            prepare=lambda: context.api.request("PATCH", path, {"disabled": True}),
            yes=options.yes,
        )
    context.api.request("DELETE", path)
    sys.stdout.write(f"{user['name']} removed\n")
    return 0


def _read_properties(options: argparse.Namespace) -> dict[str, Any]:
    given = {}
    for name in ("tenant", "role", "unix_user", "run_as"):
        value = getattr(options, name)
        if value is None:
            continue
        # Null unbinds an account; a property that is left out stays as it is.
        unbinds = name in ("unix_user", "run_as") and value == NOBODY
        given[name] = None if unbinds else value
    return given


def _print_user(user: dict[str, Any]) -> int:
    bound = f", known as Unix user {user['unix_user']}" if user["unix_user"] else ""
    runs = f", jobs run as {user['run_as']}" if user["run_as"] else ""
    off = ", disabled" if user["disabled"] else ""
    sys.stdout.write(f"{user['name']}: {user['role']} of {user['tenant']}{bound}{runs}{off}\n")
    return 0


def _wire_model() -> Any:
    from gpupool.wire.people import UserOut

    return UserOut


COLUMNS = (
    TableColumn("USER", lambda row: row["name"]),
    TableColumn("TENANT", lambda row: row["tenant"]),
    TableColumn("ROLE", lambda row: row["role"]),
    TableColumn("UNIX USER", lambda row: row["unix_user"]),
    TableColumn("RUN AS", lambda row: row["run_as"]),
    TableColumn("STATE", lambda row: "disabled" if row["disabled"] else "active"),
    TableColumn("KIND", lambda row: row["kind"], wide=True),
    TableColumn("CREATED", lambda row: describe_instant(row["created_ns"]), wide=True),
)
_VERBS = {
    "add": _add_user,
    "list": _list_users,
    "set": _change_user,
    "remove": _remove_user,
    "handover": run_handover,
    "password": run_password,
    "totp": run_totp,
}
