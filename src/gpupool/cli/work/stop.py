"""`gpupool stop`: end jobs and free their shares."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable
from typing import Any

from gpupool.base.errors import BadOption, GpupoolError, WrongState
from gpupool.base.units import parse_duration
from gpupool.client.attached_run import ENDED
from gpupool.client.paging import iterate_items
from gpupool.client.transport import Api
from gpupool.terminal.confirm import confirm_plan
from gpupool.terminal.context import CommandContext, print_notice
from gpupool.terminal.output import print_error
from gpupool.terminal.parser import CommandParser, add_yes
from gpupool.terminal.references import job_path

#: How long after the grace we wait for a job's end before we say that it goes on ending.
PATIENCE_SECONDS = 30


def register(parser: CommandParser) -> None:
    parser.about = """
    A job gets SIGTERM, and SIGKILL after the grace period. The command returns when the job has ended and its share
    is free. An array is stopped by its name.
    """
    parser.examples = [
        "gpupool stop train",
        "gpupool stop train-1 train-2 --grace 60s",
        "gpupool stop --all --yes",
    ]
    parser.add_argument(
        "jobs", nargs="*", metavar="JOB", help="names or ids; `last` is your newest"
    )
    parser.add_argument("--all", action="store_true", help="every live job of yours")
    parser.add_argument(
        "--grace", type=grace_seconds, metavar="TIME", help="grace period (default: 10s)"
    )
    parser.add_argument("--no-wait", action="store_true", help="do not wait for the end")
    add_yes(parser)


def grace_seconds(text: str) -> int:
    """Read the grace period in seconds; 0 is SIGKILL at once."""
    return 0 if text in ("0", "0s") else parse_duration(text)


def run(options: argparse.Namespace, context: CommandContext) -> int:
    if options.all == bool(options.jobs):
        raise BadOption(
            "name the jobs to stop, or --all for every job of yours", hint="gpupool ps  lists them"
        )
    api = context.api
    names = options.jobs
    if options.all:
        user = api.request("GET", "whoami")["user"]
        live = list(iterate_items(api, "jobs", {"live": True, "user": user}))
        if not live:
            sys.stdout.write("no live jobs\n")
            return 0
        plan = [f"end {job['name']} ({job['state']}, {job['share']})" for job in live]
        confirm_plan(plan, yes=options.yes)
        names = [job["id"] for job in live]
    worst = 0
    stopping = []
    for name in names:
        try:
            stopping += end_job(api, name, options.grace, live=options.all)
        except GpupoolError as error:
            print_error(error)
            # One job that cannot be stopped must not keep the others: all are tried.
            worst = worst or error.exit_code
    if options.no_wait:
        for job in stopping:
            sys.stdout.write(f"{job['name']} is being stopped\n")
        return worst
    return await_ends(api, stopping, 10 if options.grace is None else options.grace) or worst


def end_job(api: Api, name: str, grace: int | None, *, live: bool) -> list[dict[str, Any]]:
    """Tell a job to end; return the jobs that this ends, several for an array.

    Args:
        live: Whether it was alive a moment ago. It may have ended since, as a gang's members do
            together; that is no error then.
    """
    try:
        body = {} if grace is None else {"grace_seconds": grace}
        return list(api.request("POST", f"{job_path(name)}/stop", body))
    except WrongState:
        if not live:
            raise
        return [api.request("GET", job_path(name))]


def await_ends(api: Api, jobs: Iterable[dict[str, Any]], grace_seconds: int) -> int:
    """Say each job's end as it comes; 1 when one does not end in time."""
    deadline = time.monotonic() + grace_seconds + PATIENCE_SECONDS
    late = 0
    for job in jobs:
        # Long polls of 20 s: the server answers at once when the job changes.
        while job["state"] not in ENDED and (left := deadline - time.monotonic()) > 0:
            query = {"generation": job["generation"], "wait_seconds": min(20.0, round(left, 1))}
            job = api.request("GET", job_path(job["id"]), query=query)
        if job["state"] in ENDED:
            sys.stdout.write(f"{job['name']} {job['state']}\n")
        else:
            print_notice(
                f"{job['name']} has not ended yet (it is {job['state']}); gpupool show "
                f"{job['name']}"
            )
            late = 1
        sys.stdout.flush()
    return late
