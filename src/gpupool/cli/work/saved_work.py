"""`gpupool saved`: a job says that its work is saved, so that an eviction loses only later work."""

from __future__ import annotations

import argparse
import os
import sys

from gpupool.terminal.context import CommandContext
from gpupool.terminal.output import print_data
from gpupool.terminal.parser import OBJECT_FORMATS, CommandParser, add_output
from gpupool.terminal.references import job_path


def register(parser: CommandParser) -> None:
    parser.about = """
    Jobs that lose the least work are evicted or moved first. A job that calls this after each checkpoint loses
    only later work. Inside a job no name is needed.
    """
    parser.examples = ["gpupool saved", "gpupool saved train"]
    parser.add_argument(
        "job", nargs="?", metavar="JOB", help="name or id (default: the job it is called in)"
    )
    add_output(parser, OBJECT_FORMATS)


def run(options: argparse.Namespace, context: CommandContext) -> int:
    # The supervisor sets GPUPOOL_JOB in every job.
    job = options.job or os.environ.get("GPUPOOL_JOB") or "last"
    told = context.api.request("POST", f"{job_path(job)}/saved")
    if options.output != "table":
        print_data(told, options.output)
    else:
        sys.stdout.write(f"{told['name']}: saved; preempted now, it would lose nothing\n")
    return 0
