"""`gpupool resume`: bring a suspended job back to its cards."""

from __future__ import annotations

import argparse
import sys

from gpupool.cli.suspension.suspend import move_job
from gpupool.terminal.context import CommandContext, print_notice
from gpupool.terminal.output import print_data
from gpupool.terminal.parser import OBJECT_FORMATS, CommandParser, add_output


def register(parser: CommandParser) -> None:
    parser.about = """
    The job gets its share of the same cards again, its memory moves back, and its processes go on where they were.
    It waits for nothing: if the cards or the quotas have too little left, it is refused with the numbers and stays
    suspended.
    """
    parser.examples = ["gpupool resume train", "gpupool resume last -o json"]
    parser.add_argument("job", metavar="JOB", help="a name or id; `last` is your newest")
    parser.add_argument(
        "--no-wait", action="store_true", help="do not wait until its node has moved the memory"
    )
    add_output(parser, OBJECT_FORMATS)


def run(options: argparse.Namespace, context: CommandContext) -> int:
    job = move_job(context, options.job, "resume", wait=not options.no_wait)
    if options.output != "table":
        print_data(job, options.output)
    elif not job["suspension"]:
        sys.stdout.write(f"{job['name']}: runs, {job['share']}\n")
    else:
        print_notice(f"{job['name']} is being resumed; gpupool ps  shows when it runs")
    return 0
