"""`gpupool logs`: a job's output, as bytes; with -f until the job has ended."""

from __future__ import annotations

import argparse
import os
import sys
import time
from base64 import b64decode
from collections.abc import Callable
from typing import Any

from gpupool.base.errors import ServiceUnavailable
from gpupool.client.attached_run import SETTLE_SECONDS
from gpupool.client.transport import Api
from gpupool.terminal.context import CommandContext, print_notice
from gpupool.terminal.parser import CommandParser, integer_within
from gpupool.terminal.references import job_path

#: Seconds that a request for more output waits at the server, and between two attempts to reach a
#: pool that is restarted.
WAIT_SECONDS = 20
AWAY_PAUSE_SECONDS = 0.5
#: Bytes a request; base64 makes a third more of it. The last megabyte is searched for --tail.
PIECE = 1 << 18
TAIL_PIECE = 1 << 20


def register(parser: CommandParser) -> None:
    parser.about = "What a submitted job wrote to stdout and stderr, byte by byte. Of an array, name one job: sweep.3."
    parser.examples = [
        "gpupool logs train",
        "gpupool logs sweep.3",
        "gpupool logs -f train",
        "gpupool logs -n 20 last",
    ]
    parser.add_argument("job", metavar="JOB", help="name or id; `last` is your newest")
    parser.add_argument(
        "-f", "--follow", action="store_true", help="wait for more until the job has ended"
    )
    parser.add_argument(
        "--attempt",
        type=integer_within("--attempt", "the number of an attempt", 1, 1000),
        metavar="N",
        help="only what attempt N of a job with --retries wrote",
    )
    parser.add_argument(
        "-n",
        "--tail",
        type=integer_within("--tail", "the number of lines", 0, 10**9),
        metavar="LINES",
        help="only the last LINES lines",
    )
    parser.add_argument(
        "--exit-code", action="store_true", help="with -f: exit with the job's code"
    )


def run(options: argparse.Namespace, context: CommandContext) -> int:
    api = context.api
    job = api.request("GET", job_path(options.job))
    attempt = options.attempt
    offset = _find_first_byte(job, attempt)
    if options.tail is not None:
        offset = max(offset, _find_tail(api, job["id"], options.tail, attempt))
    ended = copy_log(api, job["id"], offset, follow=options.follow, attempt=attempt)
    if options.follow and options.exit_code and ended:
        from gpupool.client.attached_run import exit_code_of

        return exit_code_of(api.request("GET", job_path(job["id"])))
    return 0


def submit_followed_job(api: Api, body: dict[str, Any]) -> dict[str, Any]:
    """Submit a job that this command follows; return the answer of the pool.

    Ctrl-C meanwhile stops what was submitted, whether its answer has come or not.
    """
    query = {"wait_seconds": 2}
    key = os.urandom(16).hex()
    try:
        submitted: dict[str, Any] = api.request(
            "POST", "jobs", body, query=query, idempotency_key=key
        )
        return submitted
    except KeyboardInterrupt:
        # Half an answer may be left on the connection. By the same key this is the same job.
        api.close()
        stop_followed_job(api, api.request("POST", "jobs", body, query=query, idempotency_key=key))
        raise


def stop_followed_job(api: Api, submitted: dict[str, Any]) -> None:
    """Stop a job, or a gang, by the answer to its submission."""
    name = submitted.get("array") or submitted["first"]["id"]
    api.request("POST", f"{job_path(name)}/stop", {})


def follow_job(
    api: Api, job: dict[str, Any], tell: Callable[[str, dict[str, Any]], None]
) -> dict[str, Any]:
    """Wait for the job to be placed and copy its output to its end; return the job as it ended."""
    job = wait_for_start(api, job, tell)
    copy_log(api, job["id"], 0, follow=True)
    ended: dict[str, Any] = api.request("GET", job_path(job["id"]))
    return ended


def wait_for_start(
    api: Api, job: dict[str, Any], tell: Callable[[str, dict[str, Any]], None]
) -> dict[str, Any]:
    """Wait for the job to be placed, and tell why it waits and what it gets."""
    # A job that is placed within the first of these has not waited, and has no reason yet.
    seconds = SETTLE_SECONDS
    while job["state"] == "pending":
        # The server answers once the job has another generation: no polling.
        query = {"generation": job["generation"], "wait_seconds": seconds}
        job = api.request("GET", job_path(job["id"]), query=query)
        seconds = WAIT_SECONDS
        if job["state"] == "pending":
            tell("waiting", job)
    if job["seats"]:
        tell("granted", job)
    return job


def _find_first_byte(job: dict[str, Any], attempt: int | None) -> int:
    """Find where the output of an attempt begins; the pool refuses one that is not known."""
    ends = {one["number"]: one["log_bytes"] for one in job.get("attempts", ())}
    return 0 if attempt is None else ends.get(attempt - 1) or 0


def _write_output(data: bytes) -> None:
    # Bytes as they are: a program's output need not be text.
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def copy_log(
    api: Api,
    job: str,
    offset: int,
    *,
    follow: bool,
    attempt: int | None = None,
    write: Callable[[bytes], None] = _write_output,
) -> bool:
    """Write the log from an offset on; True when the job has ended and everything is written."""
    while True:
        try:
            wait_seconds = WAIT_SECONDS if follow else 0
            piece = _fetch_piece(api, job, offset, PIECE, wait_seconds, attempt)
        except ServiceUnavailable:
            if not follow:
                raise
            # The pool is being started again; the job goes on and so does its log.
            time.sleep(AWAY_PAUSE_SECONDS)
            continue
        if piece["offset"] > offset:
            print_notice(
                f"{piece['offset'] - offset} bytes before this were dropped (rotation or quota)"
            )
        data = b64decode(piece["data"])
        write(data)
        offset = piece["next_offset"]
        if piece["ended"] or (not follow and not data):
            return bool(piece["ended"])


def _fetch_piece(
    api: Api, job: str, offset: int, limit: int, wait_seconds: float, attempt: int | None = None
) -> dict[str, Any]:
    query = {"offset": offset, "limit": limit, "wait_seconds": wait_seconds}
    query |= {} if attempt is None else {"attempt": attempt}
    piece: dict[str, Any] = api.request(
        "GET", f"{job_path(job)}/logs", query=query, timeout=wait_seconds + 30
    )
    return piece


def _find_tail(api: Api, job: str, lines: int, attempt: int | None = None) -> int:
    """Return the offset at which the last `lines` lines begin, as far as the last MiB tells."""
    piece = _fetch_piece(api, job, -TAIL_PIECE, TAIL_PIECE, 0, attempt)
    data = b64decode(piece["data"])
    if lines == 0:
        return int(piece["next_offset"])
    position = len(data)
    # A newline at the very end closes the last line and begins no other.
    for _ in range(lines + (1 if data.endswith(b"\n") else 0)):
        position = data.rfind(b"\n", 0, position)
        if position < 0:
            return int(piece["offset"])
    return int(piece["offset"]) + position + 1
