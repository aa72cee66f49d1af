"""The verbs of `gpupool sso` for what becomes of the jobs of leavers."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from typing import Any

from gpupool.base.units import format_duration, parse_duration, parse_when
from gpupool.terminal.context import CommandContext
from gpupool.terminal.listing import describe_instant
from gpupool.terminal.output import TableColumn, print_list
from gpupool.terminal.parser import CommandParser, add_output, one_of

#: As the wire's LeaverAct.
ACTS = ("stop", "keep", "hand-over")


def register_policies(parser: CommandParser) -> None:
    """Add the verbs."""
    parser.begin_heading("Leavers")
    listing = parser.add_verb("leavers", "users that left and whose jobs are not settled yet")
    listing.add_argument("--all", action="store_true", help="also those that are settled")
    add_output(listing)
    policies = parser.add_verb(
        "policies", "what becomes of leavers' jobs; the tenant's comes first"
    )
    add_output(policies)
    change = parser.add_verb("policy-set", "set what becomes of leavers' jobs")
    change.add_argument(
        "act", type=one_of("ACT", *ACTS), metavar="ACT", help="stop, keep or hand-over"
    )
    _add_scope(change)
    change.add_argument("--to", metavar="USER", help="with hand-over: the new owner")
    change.add_argument(
        "--for", dest="keep_for", metavar="TIME", help="with keep: stop them after this, as 30d"
    )
    change.add_argument("--until", metavar="TIME", help="with keep: stop them then, as 2027-01-31")
    remove = parser.add_verb("policy-remove", "remove a policy; leavers of before keep it")
    _add_scope(remove)


def _add_scope(parser: CommandParser) -> None:
    parser.add_argument(
        "--tenant",
        metavar="TENANT",
        help="of its users (default: any; for an admin of a tenant: its own)",
    )
    parser.add_argument("--provider", metavar="NAME", help="of its persons (default: any)")


def read_seconds(text: str | None) -> int | None:
    """Read a time as `30d`, in seconds. Raises BadDuration."""
    return None if text is None else int(parse_duration(text))


def describe_choice(row: Mapping[str, Any]) -> str:
    """Describe an act with its end or its new owner."""
    if row["act"] == "hand-over":
        return f"hand over to {row['heir'] or '--'}"
    seconds = row.get("keep_seconds")
    if seconds is not None:
        days, rest = divmod(seconds, 86400)
        return f"keep for {format_duration(seconds) if rest else f'{days}d'}"
    if row["until_ns"] is not None:
        return f"keep until {describe_instant(row['until_ns'])}"
    return str(row["act"])


def _list_leavers(options: argparse.Namespace, context: CommandContext) -> int:
    query = {"all": "true"} if options.all else {}
    rows = context.api.request("GET", "sso/leavers", query=query)["items"]
    print_list(rows, LEAVERS, options.output, empty="no leavers")
    return 0


def _list_policies(options: argparse.Namespace, context: CommandContext) -> int:
    rows = context.api.request("GET", "sso/leaver-policies")
    print_list(rows, POLICIES, options.output, empty="no policies: jobs of leavers are kept")
    return 0


def _set_policy(options: argparse.Namespace, context: CommandContext) -> int:
    body = {
        "act": options.act,
        "tenant": options.tenant,
        "provider": options.provider,
        "heir": options.to,
        "keep_seconds": read_seconds(options.keep_for),
        "until_ns": _read_instant(options.until),
    }
    made = context.api.request("PUT", "sso/leaver-policies", body)
    sys.stdout.write(f"{_describe_scope(made)}: {describe_choice(made)}\n")
    return 0


def _remove_policy(options: argparse.Namespace, context: CommandContext) -> int:
    scope = {"tenant": options.tenant, "provider": options.provider}
    query = {key: value for key, value in scope.items() if value is not None}
    context.api.request("DELETE", "sso/leaver-policies", query=query)
    sys.stdout.write(f"removed: {_describe_scope(scope)}\n")
    return 0


def _read_instant(text: str | None) -> int | None:
    if text is None:
        return None
    from datetime import UTC, datetime

    return int(parse_when(text, datetime.now(UTC)).timestamp()) * 10**9


def _describe_scope(row: Mapping[str, Any]) -> str:
    return f"leavers of {row['tenant'] or 'any tenant'}, {row['provider'] or 'any provider'}"


LEAVERS = (
    TableColumn("USER", lambda row: row["user"]),
    TableColumn("TENANT", lambda row: row["tenant"]),
    TableColumn("POLICY", describe_choice),
    TableColumn("STATE", lambda row: row["state"]),
    TableColumn("STOPPED", lambda row: row["stopped"]),
    TableColumn("HANDED OVER", lambda row: row["handed"]),
    TableColumn("NOTE", lambda row: row["note"]),
    TableColumn("REASON", lambda row: row["reason"], wide=True),
    TableColumn("SINCE", lambda row: describe_instant(row["made_ns"])),
    TableColumn("NOT BEFORE", lambda row: describe_instant(row.get("due_ns")), wide=True),
)
POLICIES = (
    TableColumn("TENANT", lambda row: row["tenant"] or "any"),
    TableColumn("PROVIDER", lambda row: row["provider"] or "any"),
    TableColumn("POLICY", describe_choice),
    TableColumn("SET BY", lambda row: row["changed_by"]),
)
VERBS = {
    "leavers": _list_leavers,
    "policies": _list_policies,
    "policy-set": _set_policy,
    "policy-remove": _remove_policy,
}
