"""`gpupool stop`: end jobs and free their shares."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable
from typing import Any

from gpupool.base.errors import BadOption, GpupoolError, WrongState
from gpupool.base.units import parse_duration
from gpupool.cli.confirm import confirm
from gpupool.cli.context import Context, say
from gpupool.cli.output import print_error
from gpupool.cli.parser import Parser, add_yes
from gpupool.cli.references import job_path
from gpupool.client.attached import ENDED
from gpupool.client.paging import every
from gpupool.client.transport import Api

PATIENCE_SECONDS = 30
"""How long after the grace we wait for a job's end before we say that it goes on ending."""


def register(parser: Parser) -> None:
    parser.about = """
    A job gets SIGTERM, and SIGKILL when its grace is over; its share is free when it has ended, which is when
    this command returns. An array is stopped by its name.
    """
    parser.examples = ["gpupool stop train", "gpupool stop train-1 train-2 --grace 60s", "gpupool stop --all --yes"]
    parser.add_argument("jobs", nargs="*", metavar="JOB", help="names or ids; `last` is your newest")
    parser.add_argument("--all", action="store_true", help="every live job of yours")
    parser.add_argument("--grace", type=grace_seconds, metavar="TIME", help="time to end by itself (default: 10s)")
    parser.add_argument("--no-wait", action="store_true", help="do not wait for the end")
    add_yes(parser)


def grace_seconds(text: str) -> int:
    return 0 if text in ("0", "0s") else parse_duration(text)


def run(options: argparse.Namespace, context: Context) -> int:
    if options.all == bool(options.jobs):
        raise BadOption("name the jobs to stop, or --all for every job of yours", hint="gpupool ps  lists them")
    api = context.api
    names = options.jobs
    if options.all:
        user = api.request("GET", "whoami")["user"]
        live = list(every(api, "jobs", {"live": True, "user": user}))
        if not live:
            sys.stdout.write("no live jobs\n")
            return 0
        plan = [f"end {job['name']} ({job['state']}, {job['share']})" for job in live]
        confirm(plan, yes=options.yes)
        names = [job["id"] for job in live]
    worst, stopping = 0, []
    for name in names:
        try:
            stopping += end(api, name, options.grace, live=options.all)
        except GpupoolError as error:
            print_error(error)
            worst = worst or error.exit_code
    if options.no_wait:
        for job in stopping:
            sys.stdout.write(f"{job['name']} is being stopped\n")
        return worst
    return await_ends(api, stopping, 10 if options.grace is None else options.grace) or worst


def end(api: Api, name: str, grace: int | None, *, live: bool) -> list[dict[str, Any]]:
    """Tell a job to end. One that was `live` a moment ago may have ended since, as a gang's members do together."""
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
        while job["state"] not in ENDED and (left := deadline - time.monotonic()) > 0:
            query = {"generation": job["generation"], "wait_seconds": min(20.0, round(left, 1))}
            job = api.request("GET", job_path(job["id"]), query=query)
        if job["state"] in ENDED:
            sys.stdout.write(f"{job['name']} {job['state']}\n")
        else:
            say(f"{job['name']} has not ended yet (it is {job['state']}); gpupool show {job['name']}")
            late = 1
        sys.stdout.flush()
    return late
