"""`gpupool resize`: another share for a running job, without stopping it."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from gpupool.base.units import format_share
from gpupool.cli.context import Context, say
from gpupool.cli.output import print_data
from gpupool.cli.parser import OBJECT_FORMATS, Parser, add_output
from gpupool.cli.references import job_path
from gpupool.client.submission import resize_body

WAIT_SECONDS = 10


def register(parser: Parser) -> None:
    parser.about = """
    The job runs on, on the cards it has; its limits change within 200 ms of the answer. It grows only into what
    is free there now and, for as long as it may run, not held for others (reservations, promised starts), and
    where all quotas have room for the difference; else it is refused with the numbers and the most it could have.
    Shrinking the memory below what is in use takes nothing away: the job gets no more until it has given enough
    back. Sizes are per card, as for `run`.
    """
    parser.examples = [
        "gpupool resize train --gpu 0.5",
        "gpupool resize train --gpu 0.2 --memory 4GiB",
        "gpupool resize last --memory 24GiB -o json",
    ]
    parser.add_argument("job", metavar="JOB", help="a name or id; `last` is your newest")
    parser.add_argument("--gpu", metavar="SHARE", help="compute per card: 0.001 to 1 (default: as it is)")
    parser.add_argument("--memory", "--mem", metavar="SIZE", help="memory per card, e.g. 8GiB (default: as it is)")
    parser.add_argument("--no-wait", action="store_true", help="do not wait until its node has applied it")
    add_output(parser, OBJECT_FORMATS)


def run(options: argparse.Namespace, context: Context) -> int:
    body = resize_body(options.gpu, options.memory)
    query = {} if options.no_wait else {"wait_seconds": WAIT_SECONDS}
    path, key = f"{job_path(options.job)}/resize", os.urandom(16).hex()
    told = context.api.request("POST", path, body, query=query, idempotency_key=key)
    if options.output != "table":
        print_data(told, options.output)
        return 0
    sys.stdout.write(sentence(told) + "\n")
    if told["note"]:
        say(told["note"])
    if told["changed"] and not told["applied"] and not options.no_wait:
        say("it is booked; its node has not answered yet and applies it as soon as it does")
    return 0


def sentence(told: dict[str, Any]) -> str:
    """`train: 0.30 GPU (30 % compute) + 8192 MiB -> 0.50 GPU (50 % compute) + 8192 MiB, in force after 31 ms`."""
    job = told["job"]
    if not told["changed"]:
        return f"{job['name']}: {job['share']} already"
    best_effort = job["sharing"] == "best-effort"
    milli = job["gpu_milli"] if best_effort else told["gpu_milli_before"]
    before = format_share(milli, told["memory_bytes_before"], job["count"], best_effort=best_effort)
    after = told["applied_milliseconds"]
    force = f", in force after {after:.0f} ms" if told["applied"] and after is not None else ""
    return f"{job['name']}: {before} -> {job['share']}{force}"
