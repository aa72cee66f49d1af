"""`gpupool saved`: a job says that its work is saved, so that its leaving loses only what comes after."""

from __future__ import annotations

import argparse
import os
import sys

from gpupool.cli.context import Context
from gpupool.cli.output import print_data
from gpupool.cli.parser import OBJECT_FORMATS, Parser, add_output
from gpupool.cli.references import job_path


def register(parser: Parser) -> None:
    parser.about = """
    When jobs are preempted or moved, those that lose least work leave first. A job that calls this after each
    checkpoint loses only what it did since. Inside a job no name is needed.
    """
    parser.examples = ["gpupool saved", "gpupool saved train"]
    parser.add_argument("job", nargs="?", metavar="JOB", help="name or id (default: the job it is called in)")
    add_output(parser, OBJECT_FORMATS)


def run(options: argparse.Namespace, context: Context) -> int:
    job = options.job or os.environ.get("GPUPOOL_JOB") or "last"
    told = context.api.request("POST", f"{job_path(job)}/saved")
    if options.output != "table":
        print_data(told, options.output)
    else:
        sys.stdout.write(f"{told['name']}: saved; preempted now, it would lose nothing\n")
    return 0
