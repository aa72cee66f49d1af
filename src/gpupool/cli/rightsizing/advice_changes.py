"""`gpupool advise apply`: plans the resizes of running jobs, asks, and makes them one by one."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from gpupool.base.errors import BadInput, NoPermission, NotFound, RequestRejection
from gpupool.base.errors.people import NothingAdvised, SeveralFamilies, UnknownFamily
from gpupool.base.ids import is_id
from gpupool.base.units import format_gpu, format_mib
from gpupool.cli.work.resize import WAIT_SECONDS, describe_change
from gpupool.terminal.confirm import confirm_plan
from gpupool.terminal.context import CommandContext, print_notice
from gpupool.terminal.output import Row, print_data
from gpupool.terminal.parser import OBJECT_FORMATS, CommandParser, add_output
from gpupool.terminal.references import job_path


def add_apply(parser: CommandParser) -> None:
    """Add the options of `apply`."""
    parser.about = """
    Resizes each running job of a family, or one job, to the advice: as `gpupool resize`, on the cards that it has,
    and only where card and quota have room. Jobs with a partition or a whole card keep their size; the plan says so.
    New jobs are not changed: what to submit them with is printed. The exit code is 1 if a resize was refused.
    """
    parser.examples = [
        "gpupool advise apply train --dry-run",
        "gpupool advise apply nlp/default/ada/train --yes",
        "gpupool advise apply train-17",
    ]
    parser.add_argument(
        "target", metavar="FAMILY|JOB", help="a family as `gpupool advise` shows it, or a job"
    )
    # Without a default: what stands before the verb stays.
    add_since(parser, default=argparse.SUPPRESS)
    parser.add_argument("--dry-run", action="store_true", help="show the plan and change nothing")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    add_output(parser, OBJECT_FORMATS)


def add_since(parser: argparse.ArgumentParser, *, default: str) -> None:
    """Add the option that says how far back runs are read."""
    parser.add_argument(
        "--since", default=default, metavar="TIME", help="runs from when on (default: 30d)"
    )


def apply_advice(options: argparse.Namespace, context: CommandContext) -> int:
    """Plan, ask and resize. Returns 1 if a job could not be resized.

    Raises:
        NothingAdvised: Too little is known of the family.
        SeveralFamilies: The name is that of several families.
        UnknownFamily: It is the name of no family and no job.
        BadOption: There is no terminal to ask on, and --yes was not given.
    """
    advice, live = _find_targets(options, context)
    if advice["advice"] == "unknown":
        raise NothingAdvised(
            f"nothing is advised for {advice['family']}: {advice['reason']}",
            hint=f"gpupool advise --family {advice['family']} --since 90d  reads more runs",
            measured=advice["measured_runs"],
        )
    changes = [(job, body) for job in live if (body := _make_body(job, advice))]
    plan = [_describe_step(job, body) for job, body in changes]
    if options.output == "table":
        _print_fixed(live)
    if not changes:
        return _end_without_change(options, advice)
    if options.dry_run:
        if options.output == "table":
            sys.stdout.write("".join(f"would {line}\n" for line in plan))
        else:
            print_data(
                {"advice": advice, "plan": [_list_step(*one) for one in changes]}, options.output
            )
        return 0
    if options.output == "table" or not options.yes:
        confirm_plan(plan, yes=options.yes)
    return _resize_jobs(options, context, advice, changes)


def _find_targets(
    options: argparse.Namespace, context: CommandContext
) -> tuple[dict[str, Any], list[Row]]:
    """Find the advice, and the running jobs that are meant: all of a family, or one job."""
    query = {"since": options.since}
    found: list[dict[str, Any]] = []
    if not is_id(options.target):
        try:
            found = context.api.request("GET", "advice", query={**query, "family": options.target})
        except UnknownFamily:
            found = []
    if len(found) > 1:
        names = [one["family"] for one in found]
        raise SeveralFamilies(
            f"{len(found)} families are named {options.target!r}: {', '.join(names[:5])}",
            hint=f"gpupool advise apply {names[0]}",
            families=names,
        )
    if found:
        return found[0], found[0]["live"]
    (advice,) = context.api.request("GET", "advice", query={**query, "job": options.target})
    job = context.api.request("GET", job_path(options.target))
    return advice, [one for one in advice["live"] if one["job"] == job["id"]]


def _make_body(job: Row, advice: Row) -> dict[str, int]:
    """Make the body of a resize: what differs from what the job holds; empty: nothing can."""
    body: dict[str, int] = {}
    if job["fixed"]:
        return body
    milli = advice["gpu_milli"]
    if milli is not None and job["gpu_milli"] and milli != job["gpu_milli"]:
        body["gpu_milli"] = milli
    memory = advice["memory_bytes"]
    if memory is not None and memory != job["memory_bytes"]:
        body["memory_bytes"] = memory
    return body


def _describe_step(job: Row, body: dict[str, int]) -> str:
    parts = list[str]()
    if "gpu_milli" in body:
        parts.append(f"{format_gpu(job['gpu_milli'])} -> {format_gpu(body['gpu_milli'])} GPU")
    if "memory_bytes" in body:
        after = format_mib(body["memory_bytes"])
        parts.append(f"{format_mib(job['memory_bytes'])} -> {after}")
    return f"resize {job['name']} ({job['job']}): {', '.join(parts)}"


def _list_step(job: Row, body: dict[str, int]) -> dict[str, Any]:
    return {"job": job["job"], "name": job["name"], **body}


def _print_fixed(live: list[Row]) -> None:
    for job in live:
        if job["fixed"]:
            print_notice(f"{job['name']} ({job['job']}) stays as it is: {job['fixed']}")


def _end_without_change(options: argparse.Namespace, advice: Row) -> int:
    if options.output != "table":
        print_data({"advice": advice, "plan": []}, options.output)
        return 0
    sys.stdout.write(f"no running job to resize; {_describe_request(advice)}\n")
    return 0


def _describe_request(advice: Row) -> str:
    """Describe what to submit the next jobs of the family with."""
    words = list[str]()
    if advice["gpu_milli"]:
        words.append(f"--gpu {advice['gpu_milli'] / 1000:g}")
    if advice["memory_bytes"] is not None:
        words.append(f"--memory {format_mib(advice['memory_bytes']).replace(' ', '')}")
    return f"submit the next ones with {' '.join(words)}"


def _resize_jobs(
    options: argparse.Namespace,
    context: CommandContext,
    advice: Row,
    changes: list[tuple[Row, dict[str, int]]],
) -> int:
    """Resize one job after the other. A refusal stops none of the others."""
    answers: list[dict[str, Any]] = []
    failed = 0
    for job, body in changes:
        key = os.urandom(16).hex()  # a repetition after a lost answer resizes once
        try:
            answer = context.api.request(
                "POST",
                f"{job_path(job['job'])}/resize",
                body,
                query={"wait_seconds": WAIT_SECONDS},
                idempotency_key=key,
            )
        except (BadInput, NoPermission, NotFound, RequestRejection) as problem:
            failed += 1
            answers.append({"job": job["job"], "name": job["name"], "error": problem.code})
            print_notice(f"{job['name']} stays as it is: {problem.code}: {problem.message}")
            if problem.hint:
                print_notice(problem.hint)
            continue
        answers.append(answer)
        if options.output == "table":
            sys.stdout.write(describe_change(answer) + "\n")
    if options.output != "table":
        print_data({"advice": advice, "resized": answers}, options.output)
    else:
        sys.stdout.write(f"{_describe_request(advice)}\n")
    return 1 if failed else 0
