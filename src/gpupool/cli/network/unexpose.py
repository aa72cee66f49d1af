"""`gpupool unexpose`: publish a port of a job no more."""

from __future__ import annotations

import argparse
import sys

from gpupool.terminal.context import CommandContext
from gpupool.terminal.parser import CommandParser, integer_within
from gpupool.terminal.references import job_path


def register(parser: CommandParser) -> None:
    parser.about = """
    Deletes the load balancer that `gpupool expose` put in front of the port, and its port of the machine. The job
    goes on.
    """
    parser.examples = ["gpupool unexpose serve 8000"]
    parser.add_argument("job", metavar="JOB", help="a name or id; `last` is your newest")
    parser.add_argument(
        "port",
        metavar="PORT",
        type=integer_within("PORT", "a port", 1, 65535),
        help="on which the job serves",
    )


def run(options: argparse.Namespace, context: CommandContext) -> int:
    context.api.request("DELETE", f"{job_path(options.job)}/exposures/{options.port}")
    sys.stdout.write(f"port {options.port} of {options.job} is published no more\n")
    return 0
