"""`gpupool suspend`: move a running job's memory to the host and give its cards to others."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from gpupool.base.errors import RequestRejection
from gpupool.terminal.context import CommandContext, print_notice
from gpupool.terminal.listing import describe_memory
from gpupool.terminal.output import print_data
from gpupool.terminal.parser import OBJECT_FORMATS, CommandParser, add_output
from gpupool.terminal.references import job_path

#: Seconds of one request; the client asks again while the memory moves.
WAIT_SECONDS = 20


def register(parser: CommandParser) -> None:
    parser.about = """
    The driver moves what the job has on its cards to main memory, then its processes are stopped. Its share is free
    for other claims, and no GPU time or card memory is charged until `gpupool resume`. Its time limit goes on.
    Work that was submitted to a card is finished first; a kernel that runs longer than 10 s refuses the suspend,
    and so does too little main memory. Then the job runs on. Needs NVIDIA driver R570 or simulated cards.
    """
    parser.examples = ["gpupool suspend train", "gpupool suspend last -o json"]
    parser.add_argument("job", metavar="JOB", help="a name or id; `last` is your newest")
    parser.add_argument(
        "--no-wait", action="store_true", help="do not wait until its node has moved the memory"
    )
    add_output(parser, OBJECT_FORMATS)


def run(options: argparse.Namespace, context: CommandContext) -> int:
    job = move_job(context, options.job, "suspend", wait=not options.no_wait)
    if options.output != "table":
        print_data(job, options.output)
    elif find_state(job) == "suspended":
        moved = describe_memory(job["suspension"]["host_bytes"])
        sys.stdout.write(f"{job['name']}: suspended, {moved} in main memory\n")
    else:
        print_notice(f"{job['name']} is being suspended; gpupool ps  shows when it is")
    return 0


def move_job(context: CommandContext, named: str, verb: str, *, wait: bool) -> dict[str, Any]:
    """Suspend or resume a job; with `wait` until its node has answered.

    Raises:
        RequestRejection: The node could not do it; the job is where it was.
    """
    path = job_path(named)
    query = {"wait_seconds": WAIT_SECONDS} if wait else {}
    job: dict[str, Any] = context.api.request("POST", f"{path}/{verb}", {}, query=query)
    while wait and find_state(job) in ("suspending", "resuming"):
        query = {"wait_seconds": WAIT_SECONDS, "generation": job["generation"]}
        job = context.api.request("GET", job_path(job["id"]), query=query)
    note = (job["suspension"] or {}).get("note")
    if note:
        where = "runs on" if find_state(job) == "failed" else "stays suspended"
        raise RequestRejection(
            f"job {job['name']} {where}: {note}",
            hint=f"gpupool show {job['name']}  and  gpupool gpus  show what it has",
        )
    return job


def find_state(job: dict[str, Any]) -> str | None:
    """Return how far the suspension of a job is; None for one that was not suspended."""
    return job["suspension"] and str(job["suspension"]["state"])
