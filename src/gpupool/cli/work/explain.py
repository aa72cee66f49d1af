"""`gpupool explain`: why a job waits, or why it runs where it runs."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from gpupool.terminal.context import CommandContext
from gpupool.terminal.mechanism_lines import format_plan
from gpupool.terminal.output import (
    Row,
    TableColumn,
    clean_text,
    count_noun,
    format_table,
    print_data,
)
from gpupool.terminal.parser import OBJECT_FORMATS, CommandParser, add_output
from gpupool.terminal.references import job_path

#: So many of a gang are shown; the rest is counted.
# A screen's worth.
MEMBERS = 16


def register(parser: CommandParser) -> None:
    parser.about = """
    One sentence with the numbers, the count of cards behind each reason, and what would help. Of an array the job
    whose turn is next. Of a gang that holds cards also how many members run, and where each of the first is. Of a job
    with --isolation, --goal or --host also its mechanism, what that enforces, and why it gets no other one; -o json
    has that of every job (mechanism, holds, rejected).
    """
    parser.examples = ["gpupool explain last", "gpupool explain train -o json"]
    parser.add_argument(
        "job",
        nargs="?",
        default="last",
        metavar="JOB",
        help="name or id (default: last, your newest)",
    )
    add_output(parser, OBJECT_FORMATS)


def run(options: argparse.Namespace, context: CommandContext) -> int:
    answer = context.api.request("GET", f"{job_path(options.job)}/explain")
    if options.output != "table":
        print_data(answer, options.output)
    else:
        sys.stdout.write(format_answer(answer) + "\n")
    return 0


def format_answer(answer: dict[str, Any]) -> str:
    """Format the answer for people."""
    lines = [f"{answer['job']} ({answer['state']}): {clean_text(answer['sentence'])}"]
    # Of an array the answer is about one job; which one is said first.
    if array := answer.get("array"):
        which = f"the next of {array['not_made']} that wait" if array["next"] else "its last job"
        lines.insert(
            0, f"{array['name']} is an array of {count_noun(array['size'], 'job')}; {which}:"
        )
    for noun in ("card", "node"):
        for reason, count in answer[f"{noun}s"].items():
            lines.append(f"  {count_noun(count, noun)}: {reason}")
    # A start that is known is among the hints.
    if answer["state"] == "pending" and answer.get("start", "") is None:
        lines.append("  earliest start: --")
    if answer["ahead"]:
        lines.append(f"  {count_noun(answer['ahead'], 'job')} before it")
    if answer.get("needs"):  # a server from before the field says nothing of it
        lines += [f"  {line}" for line in format_plan(answer)]
    if answer["holders"]:
        lines += [
            "  holding such cards:",
            *(f"    {clean_text(holder)}" for holder in answer["holders"]),
        ]
    if answer["nearest"]:
        lines.append(f"  would fit now: {answer['nearest']}")
    lines += [f"  {clean_text(hint)}" for hint in answer["hints"]]
    if answer.get("gang"):  # a server from before the field says nothing of it
        lines += _format_gang(answer["gang"])
    return "\n".join(lines)


def _format_gang(gang: dict[str, Any]) -> list[str]:
    """Format how many of a gang run, and where each of the first members is."""
    members = gang["members"]
    lines = [
        (
            f"  gang {clean_text(gang['name'])}: {gang['running']} of "
            f"{count_noun(len(members), 'member')} running"
        )
    ]
    lines += [f"    {line}" for line in format_table(members[:MEMBERS], COLUMNS).splitlines()]
    more = len(members) - MEMBERS
    return [*lines, f"    and {more} more: -o json has all"] if more > 0 else lines


def _describe_cards(member: Row) -> str | None:
    """Format the numbers of a member's cards on its node: `0,1`."""
    return ",".join(device.rpartition(":")[2] for device in member["devices"]) or None


COLUMNS = (
    TableColumn("MEMBER", lambda row: row["job"]),
    TableColumn("ROLE", lambda row: row["role"]),
    TableColumn("STATE", lambda row: row["state"]),
    TableColumn("NODE", lambda row: row["node"]),
    TableColumn("CARDS", _describe_cards),
)
