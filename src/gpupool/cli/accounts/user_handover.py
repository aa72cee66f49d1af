"""`gpupool user handover`: jobs, schedules and reservations of a user go to another user."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gpupool.terminal.confirm import confirm_plan
from gpupool.terminal.context import CommandContext, print_notice
from gpupool.terminal.output import TableColumn, print_data, print_list
from gpupool.terminal.parser import OBJECT_FORMATS, CommandParser, add_output, add_yes
from gpupool.terminal.references import quote_segment

#: Seconds: each job is a transaction, and a leaver may have thousands.
TIMEOUT = 600.0


def register_handover(parser: CommandParser) -> None:
    """Add the verb."""
    verb = parser.add_verb(
        "handover", "give a user's jobs, schedules and reservations to another user"
    )
    verb.add_argument("user", metavar="USER", help="whose they are")
    verb.add_argument("--to", required=True, metavar="USER", help="of the same tenant")
    verb.add_argument("--jobs", metavar="A,B", help="only these ids or names, with commas")
    verb.add_argument("--dry-run", action="store_true", help="only show the plan")
    add_yes(verb)
    add_output(verb, OBJECT_FORMATS)


def run_handover(options: argparse.Namespace, context: CommandContext) -> int:
    """Show the plan, ask, and hand over; exit code 3 if a unit stays."""
    only = None if options.jobs is None else _split_names(options.jobs)
    plan = _ask(context, options.user, options.to, only, dry_run=True)
    if options.output != "table":
        done = plan
        if not options.dry_run:
            if plan["handed"]:
                confirm_plan(_list_acts(plan), yes=options.yes)
            done = _ask(context, options.user, options.to, only, dry_run=False)
        print_data(done, options.output)
        return _compute_code(done)
    _print_plan(plan)
    if options.dry_run or not plan["handed"]:
        return _compute_code(plan)
    confirm_plan(_list_acts(plan), yes=options.yes)
    done = _ask(context, options.user, options.to, only, dry_run=False)
    _print_result(done)
    return _compute_code(done)


def hand_over(
    context: CommandContext,
    user: str,
    heir: str,
    *,
    first: str,
    prepare: Callable[[], object],
    yes: bool,
) -> int:
    """Show the plan, ask, disable the user, and hand over what it owns.

    Args:
        context: Of the command.
        user: Whose things they are.
        heir: The user that gets them.
        first: What the command does beside, for the plan.
        prepare: Disables the user.
        yes: The plan is agreed to.
    """
    plan = _ask(context, user, heir, None, dry_run=True)
    _print_plan(plan)
    confirm_plan([first, *_list_acts(plan)], yes=yes)
    prepare()
    done = _ask(context, user, heir, None, dry_run=False)
    _print_result(done)
    return _compute_code(done)


def _ask(
    context: CommandContext, user: str, heir: str, only: list[str] | None, *, dry_run: bool
) -> dict[str, Any]:
    path = f"users/{quote_segment(user, 'user')}/handover"
    body = {"to": heir, "only": only, "dry_run": dry_run}
    found: dict[str, Any] = context.api.request("POST", path, body, timeout=TIMEOUT)
    return found


def _split_names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _print_plan(plan: Mapping[str, Any]) -> None:
    empty = f"{plan['user']} has no jobs, schedules or reservations to hand over"
    print_list(plan["units"], COLUMNS, "table", empty=empty)


def _list_acts(plan: Mapping[str, Any]) -> list[str]:
    if not plan["handed"]:
        return []
    things = "1 thing" if plan["handed"] == 1 else f"{plan['handed']} things"
    acts = [f"hand {things} of {plan['user']} over to {plan['to']}"]
    accounts = _list_accounts(plan["units"])
    if accounts:
        acts.append(
            f"let jobs go on as the Unix account {', '.join(accounts)}; {plan['to']} can enter them"
        )
    return acts


def _list_accounts(units: Sequence[Mapping[str, Any]]) -> list[str]:
    found = {unit["account"] for unit in units if unit["account"] and unit["refusal"] is None}
    return sorted(found)


def _print_result(done: Mapping[str, Any]) -> None:
    if done["handed"]:
        _print_handed(done)
    for unit in done["units"]:
        if unit["refusal"] is not None:
            print_notice(f"{unit['kind']} {unit['name']} stays: {unit['refusal']}")


def _print_handed(done: Mapping[str, Any]) -> None:
    jobs = "1 job" if done["jobs"] == 1 else f"{done['jobs']} jobs"
    things = "1 thing" if done["handed"] == 1 else f"{done['handed']} things"
    sys.stdout.write(f"{things} of {done['user']} with {jobs} now {done['to']}'s\n")


def _compute_code(done: Mapping[str, Any]) -> int:
    return 3 if any(unit["refusal"] is not None for unit in done["units"]) else 0


COLUMNS = (
    TableColumn("KIND", lambda row: row["kind"]),
    TableColumn("NAME", lambda row: row["name"]),
    TableColumn("STATE", lambda row: row["state"]),
    TableColumn("JOBS", lambda row: row["jobs"]),
    TableColumn("RUNS AS", lambda row: row["account"]),
    TableColumn("PROJECT", lambda row: row["project"], wide=True),
    TableColumn("ID", lambda row: row["id"], wide=True),
    TableColumn("STAYS", lambda row: row["refusal"] or "no"),
)
