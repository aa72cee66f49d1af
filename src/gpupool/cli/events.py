"""`gpupool events`: what happened in the pool, in order; with --follow as it happens."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from typing import Any

from gpupool.base.errors import EventsReset
from gpupool.cli.context import Context
from gpupool.cli.listing import instant
from gpupool.cli.output import clean
from gpupool.cli.parser import Parser, add_output, number
from gpupool.client.watch import watch

PAGE = 1000


def register(parser: Parser) -> None:
    parser.about = """
    Events are numbered without gaps. --follow survives restarts of the pool and shows every event once; start
    again where you were with --after and the last number you saw. --epoch names the event log that the number is from
    (event_epoch of GET /api/v1/pool). When the pool was restored, its log is another one: --follow says so and goes on
    after the end of the new log; without --follow a number of another log is refused with GP-4004.
    """
    parser.examples = ["gpupool events", "gpupool events --follow", "gpupool events --after 1200 -o json"]
    parser.add_argument("-f", "--follow", action="store_true", help="go on as things happen, until Ctrl-C")
    parser.add_argument(
        "--after", type=number("--after", "the number of an event", 0, 2**62), metavar="N", help="only later ones"
    )
    parser.add_argument("--epoch", metavar="ID", help="the event log that N of --after is from")
    parser.add_argument(
        "-n",
        "--last",
        type=number("--last", "the number of events", 0, 1_000_000),
        default=50,
        metavar="N",
        help="without --after: begin with the last N (default: 50)",
    )
    add_output(parser, ("table", "json"))


def run(options: argparse.Namespace, context: Context) -> int:
    after = options.after
    epoch = options.epoch
    if after is None:
        pool = context.api.request("GET", "pool")
        after = max(0, pool["last_event"] - options.last)
        epoch = epoch or pool.get("event_epoch")  # a pool of an earlier version names none
    if options.follow:
        events = watch(context.api, after, epoch=epoch, on_reset=_tell_reset)
    else:
        events = _until_now(context, after, epoch)
    for event in events:
        sys.stdout.write((json.dumps(event, ensure_ascii=False) if options.output == "json" else line(event)) + "\n")
        if options.follow:
            sys.stdout.flush()
    return 0


def _tell_reset(error: EventsReset) -> None:
    last = error.details["last_event"]
    sys.stderr.write(f"gpupool: {error.code}: {error.message}; going on after event {last}\n")
    sys.stderr.write("  what is before it:  gpupool events\n")


def _until_now(context: Context, after: int, epoch: str | None) -> Iterator[dict[str, Any]]:
    while page := context.api.request("GET", "events", query={"after": after, "limit": PAGE, "epoch": epoch}):
        yield from page
        after = page[-1]["seq"]


def line(event: dict[str, Any]) -> str:
    """`118  2026-11-20T10:00:00Z  job.running  train  tenant=default gpu_milli=300`."""
    data = {"tenant": event["tenant"], **event["data"]}
    said = " ".join(f"{key}={_short(value)}" for key, value in data.items() if value not in (None, "", [], {}))
    head = f"{event['seq']:>6}  {instant(event['at_ns'])}  {event['kind']:<16}  {event['subject']}"
    return clean(f"{head}  {said}".rstrip())


def _short(value: Any) -> str:
    return json.dumps(value, separators=(",", ":")) if isinstance(value, (dict, list)) else str(value)
