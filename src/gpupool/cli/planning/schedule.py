"""`gpupool schedule`: jobs that are submitted at the instants of a cron expression."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from gpupool.base.errors import BadOption
from gpupool.base.units import format_duration, parse_duration
from gpupool.terminal.context import CommandContext
from gpupool.terminal.listing import describe_instant
from gpupool.terminal.output import TableColumn, print_data, print_list
from gpupool.terminal.parser import OBJECT_FORMATS, CommandParser, add_output
from gpupool.terminal.references import quote_segment
from gpupool.terminal.share_options import OF, make_job_body, read_plain


def register(parser: CommandParser) -> None:
    parser.about = """
    At each instant the pool submits the job as you, named NAME-YYYYMMDD-HHMMSS (UTC), with the environment and the
    directory of `schedule add`. An instant that comes while no server runs is made up for once, up to
    --starting-deadline. The options of the job come after --, as for  gpupool submit, then -- and the command.
    """
    parser.examples = [
        "gpupool schedule add nightly --cron '0 2 * * *' --tz Asia/Shanghai -- --gpu 1 -- python eval.py",
        "gpupool schedule list",
        "gpupool schedule history nightly",
        "gpupool schedule change nightly --cron '30 3 * * 1-5'",
        "gpupool schedule pause nightly",
        "gpupool schedule run-now nightly",
    ]
    parser.add_verbs()
    _register_add(parser)
    _register_change(parser)
    add_output(parser.add_verb("list", "the schedules of your tenant"))
    for verb, text in (
        ("show", "one schedule"),
        ("pause", "let its instants pass"),
        ("resume", "go on with the next instant"),
        ("remove", "remove it and its history; its jobs go on"),
        ("run-now", "submit its job now"),
        ("history", "what became of its latest instants"),
    ):
        one = parser.add_verb(verb, text)
        one.add_argument("name", metavar="NAME", help="as `schedule list` shows it")
        if verb == "history":
            add_output(one)
        elif verb != "remove":
            add_output(one, OBJECT_FORMATS)


def _register_add(parser: CommandParser) -> None:
    add = parser.add_verb("add", "submit a job from the next instant on")
    add.add_argument("name", metavar="NAME", help="its name, and the beginning of its jobs' names")
    add.add_argument(
        "--cron", required=True, metavar="EXPRESSION", help="minute hour day month weekday"
    )
    add.add_argument("--tz", default="UTC", metavar="ZONE", help="time zone (default UTC)")
    add.add_argument(
        "--overlap",
        choices=("skip", "queue", "replace"),
        default="skip",
        help="while the last job lives: skip the instant, queue behind it, or stop it (default skip)",
    )
    add.add_argument(
        "--starting-deadline",
        type=parse_duration,
        default=3600,
        metavar="TIME",
        help="an instant is missed if it is later than that (default 1h)",
    )
    add.add_argument(
        "words", nargs="+", metavar="WORD", help="after --: options of submit, --, the command"
    )
    add_output(add, OBJECT_FORMATS)


def _register_change(parser: CommandParser) -> None:
    change = parser.add_verb("change", "other instants, or as its owner another job")
    change.add_argument("name", metavar="NAME", help="as `schedule list` shows it")
    change.add_argument("--cron", metavar="EXPRESSION", help="minute hour day month weekday")
    change.add_argument("--tz", metavar="ZONE", help="time zone")
    change.add_argument(
        "--overlap",
        choices=("skip", "queue", "replace"),
        help="while the last job lives: skip the instant, queue behind it, or stop it",
    )
    change.add_argument(
        "--starting-deadline",
        type=parse_duration,
        metavar="TIME",
        help="an instant is missed if it is later than that",
    )
    change.add_argument(
        "words", nargs="*", metavar="WORD", help="after --: options of submit, --, the command"
    )
    add_output(change, OBJECT_FORMATS)


def run(options: argparse.Namespace, context: CommandContext) -> int:
    if options.verb == "add":
        return _add(options, context)
    if options.verb == "list":
        rows = context.api.request("GET", "schedules")["items"]
        print_list(
            rows,
            COLUMNS,
            options.output,
            fields=_list_fields,
            empty="no schedules; make one: gpupool schedule add NAME --cron '0 2 * * *' -- COMMAND",
            color=context.color,
        )
        return 0
    path = f"schedules/{quote_segment(options.name, 'schedule')}"
    if options.verb == "change":
        return _change(options, context, path)
    if options.verb == "history":
        rows = context.api.request("GET", f"{path}/runs")["items"]
        print_list(
            rows,
            RUN_COLUMNS,
            options.output,
            fields=_list_run_fields,
            empty="no instant has come yet",
            color=context.color,
        )
        return 0
    return _act(options, context, path)


def _act(options: argparse.Namespace, context: CommandContext, path: str) -> int:
    if options.verb == "remove":
        context.api.request("DELETE", path)
        sys.stdout.write(f"{options.name} removed\n")
        return 0
    if options.verb == "run-now":
        done = context.api.request("POST", f"{path}/run", {})
        if options.output != "table":
            print_data(done, options.output)
        else:
            sys.stdout.write(f"{done['job'] or done['outcome'] + ': ' + done['text']}\n")
        return 0 if done["outcome"] == "submitted" else 3
    if options.verb == "show":
        return _print_schedule(context.api.request("GET", path), options.output)
    return _print_schedule(
        context.api.request("POST", f"{path}/{options.verb}", {}), options.output
    )


def _add(options: argparse.Namespace, context: CommandContext) -> int:
    body = {
        "name": options.name,
        "cron": options.cron,
        "time_zone": options.tz,
        "overlap": options.overlap,
        "deadline_seconds": options.starting_deadline,
        "job": _read_job(options.words, context),
    }
    return _print_schedule(context.api.request("POST", "schedules", body), options.output)


def _change(options: argparse.Namespace, context: CommandContext, path: str) -> int:
    given = {
        "cron": options.cron,
        "time_zone": options.tz,
        "overlap": options.overlap,
        "deadline_seconds": options.starting_deadline,
        "job": _read_job(options.words, context) if options.words else None,
    }
    named = {name: value for name, value in given.items() if value is not None}
    if not named:
        raise BadOption(
            "nothing to change: got a name alone",
            hint="add --cron, --tz, --overlap, --starting-deadline, or  -- OPTIONS -- COMMAND",
        )
    before = context.api.request("GET", path)
    kept = {name: before[name] for name in given if name != "job"}
    changed = context.api.request("PUT", path, kept | named, if_match=context.api.etag)
    return _print_schedule(changed, options.output)


def _read_job(words: list[str], context: CommandContext) -> dict[str, Any]:
    """Read options of submit and a command. Raises BadOption."""
    words = words[1:] if words[:1] == ["--"] else words
    asked = read_plain("submit", words)
    if asked is None or not asked.command:
        known = ", ".join(flags[0] for flags, *_ in OF["submit"][:4])
        raise BadOption(
            f"{' '.join(words) or 'nothing'}: got no options of submit and a command",
            hint=f"write  -- [{known} ...] -- COMMAND;  gpupool submit --help  has all options",
        )
    return make_job_body(asked, attached=False, local=context.api.local)


def _print_schedule(one: dict[str, Any], output: str) -> int:
    if output != "table":
        print_data(one, output)
        return 0
    state = one["state"] + (f": {one['reason']}" if one["reason"] else "")
    deadline = format_duration(one["deadline_seconds"])
    sys.stdout.write(
        f"{one['name']}  {state}\n"
        f"  instants   {one['cron']}  {one['time_zone']}; {deadline} late at most\n"
        f"  overlap    {one['overlap']}\n"
        f"  next       {describe_instant(one['next_ns']) or '--'}\n"
        f"  last job   {one['last_job'] or '--'}\n"
        f"  owner      {one['user']} of {one['tenant']}\n"
    )
    return 0


def _list_fields() -> Any:
    from gpupool.wire.chains.schedules import ScheduleOut

    return list(ScheduleOut.model_fields)


def _list_run_fields() -> Any:
    from gpupool.wire.chains.schedules import ScheduleRunOut

    return list(ScheduleRunOut.model_fields)


COLUMNS = (
    TableColumn("NAME", lambda row: row["name"]),
    TableColumn("STATE", lambda row: row["state"]),
    TableColumn("CRON", lambda row: row["cron"]),
    TableColumn("ZONE", lambda row: row["time_zone"]),
    TableColumn("OVERLAP", lambda row: row["overlap"]),
    TableColumn("NEXT", lambda row: describe_instant(row["next_ns"])),
    TableColumn("LAST JOB", lambda row: row["last_job"]),
    TableColumn("USER", lambda row: row["user"]),
    TableColumn("REASON", lambda row: row["reason"]),
)
RUN_COLUMNS = (
    TableColumn("INSTANT", lambda row: describe_instant(row["due_ns"])),
    TableColumn("OUTCOME", lambda row: row["outcome"]),
    TableColumn("JOB", lambda row: row["job"]),
    TableColumn("TEXT", lambda row: row["text"]),
)
