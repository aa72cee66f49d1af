"""`gpupool resize`: another share for a running job, without stopping it."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from gpupool.base.units import format_share
from gpupool.client.submission import resize_body
from gpupool.model.claim import SharingKind
from gpupool.terminal.context import CommandContext, print_notice
from gpupool.terminal.output import print_data
from gpupool.terminal.parser import OBJECT_FORMATS, CommandParser, add_output
from gpupool.terminal.references import job_path

#: Seconds to wait for the node; limits change within 200 ms where its agent is heard.
WAIT_SECONDS = 10


def register(parser: CommandParser) -> None:
    parser.about = """
    The job keeps running on its cards; its limits change within 200 ms of the answer. It grows only into free
    capacity that is not held for others during its run time (reservations, promised starts), and within all
    quotas. Otherwise it is refused with the numbers and the largest possible size. If the new memory is less than
    the memory in use, the job keeps that memory and gets no more until it has freed enough. Sizes are per card,
    as for `run`.
    """
    parser.examples = [
        "gpupool resize train --gpu 0.5",
        "gpupool resize train --gpu 0.2 --memory 4GiB",
        "gpupool resize last --memory 24GiB -o json",
    ]
    parser.add_argument("job", metavar="JOB", help="a name or id; `last` is your newest")
    parser.add_argument(
        "--gpu", metavar="SHARE", help="compute per card: 0.001 to 1 (default: as it is)"
    )
    parser.add_argument(
        "--memory", "--mem", metavar="SIZE", help="memory per card, e.g. 8GiB (default: as it is)"
    )
    parser.add_argument(
        "--no-wait", action="store_true", help="do not wait until its node has applied it"
    )
    add_output(parser, OBJECT_FORMATS)


def run(options: argparse.Namespace, context: CommandContext) -> int:
    body = resize_body(options.gpu, options.memory)
    query = {} if options.no_wait else {"wait_seconds": WAIT_SECONDS}
    path = f"{job_path(options.job)}/resize"
    key = os.urandom(16).hex()  # a repetition after a lost answer resizes once
    answer = context.api.request("POST", path, body, query=query, idempotency_key=key)
    if options.output != "table":
        print_data(answer, options.output)
        return 0
    sys.stdout.write(describe_change(answer) + "\n")
    if answer["note"]:
        print_notice(answer["note"])
    if answer["changed"] and not answer["applied"] and not options.no_wait:
        print_notice(
            "it is booked; its node has not answered yet and applies it as soon as it does"
        )
    return 0


def describe_change(answer: dict[str, Any]) -> str:
    """Format the change: `train: 0.30 GPU … -> 0.50 GPU …, in force after 31 ms`."""
    job = answer["job"]
    if not answer["changed"]:
        return f"{job['name']}: {job['share']} already"
    sharing = SharingKind(job["sharing"])
    # Without a promise the compute is a limit of nothing, and it is shown as it is.
    milli = answer["gpu_milli_before"] if sharing.promises_compute else job["gpu_milli"]
    before = format_share(
        milli,
        answer["memory_bytes_before"],
        job["count"],
        unpromised=sharing.unpromised_text,
    )
    after = answer["applied_milliseconds"]
    force = f", in force after {after:.0f} ms" if answer["applied"] and after is not None else ""
    return f"{job['name']}: {before} -> {job['share']}{force}"
