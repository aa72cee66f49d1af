"""`gpupool explain`: why a job waits, or why it runs where it runs."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from gpupool.cli.context import Context
from gpupool.cli.output import Column, Row, clean, many, print_data, table
from gpupool.cli.parser import OBJECT_FORMATS, Parser, add_output
from gpupool.cli.references import job_path

MEMBERS = 16
"""So many of a gang are shown; the rest is counted."""


def register(parser: Parser) -> None:
    parser.about = """
    One sentence with the numbers, the count of cards behind each reason, and what would help. Of an array the job
    whose turn is next. Of a gang that holds cards also how many members run, and where each of the first is.
    """
    parser.examples = ["gpupool explain last", "gpupool explain train -o json"]
    parser.add_argument("job", nargs="?", default="last", metavar="JOB", help="name or id (default: last, your newest)")
    add_output(parser, OBJECT_FORMATS)


def run(options: argparse.Namespace, context: Context) -> int:
    answer = context.api.request("GET", f"{job_path(options.job)}/explain")
    if options.output != "table":
        print_data(answer, options.output)
    else:
        sys.stdout.write(text(answer) + "\n")
    return 0


def text(answer: dict[str, Any]) -> str:
    """The answer for people."""
    lines = [f"{answer['job']} ({answer['state']}): {clean(answer['sentence'])}"]
    if array := answer.get("array"):
        which = f"the next of {array['not_made']} that wait" if array["next"] else "its last job"
        lines.insert(0, f"{array['name']} is an array of {many(array['size'], 'job')}; {which}:")
    for noun in ("card", "node"):
        lines += [f"  {many(count, noun)}: {reason}" for reason, count in answer[f"{noun}s"].items()]
    if answer["ahead"]:
        lines.append(f"  {many(answer['ahead'], 'job')} before it")
    if answer["holders"]:
        lines += ["  holding such cards:", *(f"    {clean(holder)}" for holder in answer["holders"])]
    if answer["nearest"]:
        lines.append(f"  would fit now: {answer['nearest']}")
    lines += [f"  {clean(hint)}" for hint in answer["hints"]]
    if answer.get("gang"):  # a server from before the field says nothing of it
        lines += _gang(answer["gang"])
    return "\n".join(lines)


def _gang(gang: dict[str, Any]) -> list[str]:
    """How many of it run, and where each of the first members is."""
    members = gang["members"]
    lines = [f"  gang {clean(gang['name'])}: {gang['running']} of {many(len(members), 'member')} running"]
    lines += [f"    {line}" for line in table(members[:MEMBERS], COLUMNS).splitlines()]
    more = len(members) - MEMBERS
    return [*lines, f"    and {more} more: -o json has all"] if more > 0 else lines


def _cards(member: Row) -> str | None:
    """`0,1`: their numbers on its node."""
    return ",".join(device.rpartition(":")[2] for device in member["devices"]) or None


COLUMNS = (
    Column("MEMBER", lambda row: row["job"]),
    Column("ROLE", lambda row: row["role"]),
    Column("STATE", lambda row: row["state"]),
    Column("NODE", lambda row: row["node"]),
    Column("CARDS", _cards),
)
