"""The verbs of `gpupool sso` for rules from groups to rights."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from gpupool.base.errors import BadOption
from gpupool.terminal.context import CommandContext
from gpupool.terminal.output import TableColumn, print_data, print_list
from gpupool.terminal.parser import (
    OBJECT_FORMATS,
    CommandParser,
    add_output,
    integer_within,
    one_of,
)

#: Roles that a rule may give; the wire's PersonRole.
ROLES = ("admin", "operator", "auditor", "tenant-admin", "user", "viewer")


def register_rules(parser: CommandParser) -> None:
    """Add the verbs."""
    parser.begin_heading("Rules")
    listing = parser.add_verb("rules", "rules in order; the first that matches wins")
    add_output(listing)
    add = parser.add_verb("rule-add", "add a rule, at the end unless --at says")
    add.add_argument("--group", metavar="GROUP", help="whose members (default: every person)")
    add.add_argument("--provider", metavar="NAME", help="of this provider alone")
    add.add_argument(
        "--role",
        required=True,
        type=one_of("--role", *ROLES),
        metavar="ROLE",
        help=", ".join(ROLES),
    )
    add.add_argument("--tenant", required=True, metavar="TENANT", help="whose users they are")
    add.add_argument("--project", metavar="PROJECT", help="of jobs that name none")
    add.add_argument(
        "--run-as",
        metavar="ACCOUNT",
        help="Unix account of jobs from the network; {preferred_username} is a claim",
    )
    add.add_argument(
        "--at", type=integer_within("--at", "a place", 1, 500), metavar="N", help="its number"
    )
    remove = parser.add_verb("rule-remove", "remove a rule by its number")
    remove.add_argument(
        "number", type=integer_within("NUMBER", "a rule", 1, 500), metavar="NUMBER", help="which"
    )
    explain = parser.add_verb("explain", "what a login of these groups would get; exit code 3: no")
    explain.add_argument(
        "--groups", default="", metavar="A,B", help="groups of the person, with commas"
    )
    explain.add_argument("--user", metavar="USER", help="name at the provider, for --run-as")
    explain.add_argument("--provider", metavar="NAME", help="of this provider (default: any)")
    add_output(explain, OBJECT_FORMATS)


def _list_rules(options: argparse.Namespace, context: CommandContext) -> int:
    rows = _number(context.api.request("GET", "sso/rules")["rules"])
    print_list(rows, COLUMNS, options.output, empty="no rules: every login is refused")
    return 0


def _add_rule(options: argparse.Namespace, context: CommandContext) -> int:
    rules = context.api.request("GET", "sso/rules")["rules"]
    fields = ("provider", "group", "role", "tenant", "project", "run_as")
    rule = {field: getattr(options, field) for field in fields}
    place = len(rules) if options.at is None else min(options.at - 1, len(rules))
    rules.insert(place, rule)
    _put_rules(context, rules)
    sys.stdout.write(f"rule {place + 1}: {_describe(rule)}\n")
    return 0


def _remove_rule(options: argparse.Namespace, context: CommandContext) -> int:
    rules = context.api.request("GET", "sso/rules")["rules"]
    if options.number > len(rules):
        raise BadOption(
            f"there is no rule {options.number}, the last is {len(rules)}", hint="gpupool sso rules"
        )
    gone = rules.pop(options.number - 1)
    _put_rules(context, rules)
    sys.stdout.write(f"removed rule {options.number}: {_describe(gone)}\n")
    return 0


def _explain_login(options: argparse.Namespace, context: CommandContext) -> int:
    groups = [group.strip() for group in options.groups.split(",") if group.strip()]
    body = {"groups": groups, "user": options.user, "provider": options.provider}
    found = context.api.request("POST", "sso/explain", body)
    if options.output == "table":
        sys.stdout.write(f"{found['text']}\n")
    else:
        print_data(found, options.output)
    return 0 if found["rule"] is not None else 3


def _put_rules(context: CommandContext, rules: list[dict[str, Any]]) -> None:
    # What was read, so that of two admins that edit at once the second sees the first's change.
    context.api.request("PUT", "sso/rules", {"rules": rules}, if_match=context.api.etag)


def _number(rules: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"number": number, **rule} for number, rule in enumerate(rules, start=1)]


def _describe(rule: dict[str, Any]) -> str:
    persons = f"group {rule['group']}" if rule["group"] else "every person"
    provider = f" of {rule['provider']}" if rule["provider"] else ""
    runs = f", jobs run as {rule['run_as']}" if rule["run_as"] else ""
    return f"{persons}{provider} -> {rule['role']} of {rule['tenant']}{runs}"


COLUMNS = (
    TableColumn("RULE", lambda row: row["number"]),
    TableColumn("PROVIDER", lambda row: row["provider"] or "any"),
    TableColumn("GROUP", lambda row: row["group"] or "every person"),
    TableColumn("ROLE", lambda row: row["role"]),
    TableColumn("TENANT", lambda row: row["tenant"]),
    TableColumn("PROJECT", lambda row: row["project"]),
    TableColumn("RUN AS", lambda row: row["run_as"]),
)
VERBS = {
    "rules": _list_rules,
    "rule-add": _add_rule,
    "rule-remove": _remove_rule,
    "explain": _explain_login,
}
