"""`gpupool explain`: why a job waits, or why it runs where it runs."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from gpupool.cli.context import Context
from gpupool.cli.output import clean, many, print_data
from gpupool.cli.parser import OBJECT_FORMATS, Parser, add_output
from gpupool.cli.references import job_path


def register(parser: Parser) -> None:
    parser.about = "One sentence with the numbers, the count of cards behind each reason, and what would help."
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
    for noun in ("card", "node"):
        lines += [f"  {many(count, noun)}: {reason}" for reason, count in answer[f"{noun}s"].items()]
    if answer["ahead"]:
        lines.append(f"  {many(answer['ahead'], 'job')} before it")
    if answer["holders"]:
        lines += ["  holding such cards:", *(f"    {clean(holder)}" for holder in answer["holders"])]
    if answer["nearest"]:
        lines.append(f"  would fit now: {answer['nearest']}")
    lines += [f"  {clean(hint)}" for hint in answer["hints"]]
    return "\n".join(lines)
