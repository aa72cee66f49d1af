"""`gpupool events`: what happened in the pool, in order; with --follow as it happens."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from typing import Any

from gpupool.cli.context import Context
from gpupool.cli.listing import instant
from gpupool.cli.output import clean
from gpupool.cli.parser import Parser, add_output, number
from gpupool.client.watch import watch

PAGE = 1000


def register(parser: Parser) -> None:
    parser.about = """
    Events are numbered without gaps. --follow survives restarts of the pool and shows every event once; start
    again where you were with --after and the last number you saw.
    """
    parser.examples = ["gpupool events", "gpupool events --follow", "gpupool events --after 1200 -o json"]
    parser.add_argument("-f", "--follow", action="store_true", help="go on as things happen, until Ctrl-C")
    parser.add_argument(
        "--after", type=number("--after", "the number of an event", 0, 2**62), metavar="N", help="only later ones"
    )
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
    if after is None:
        after = max(0, context.api.request("GET", "pool")["last_event"] - options.last)
    events = watch(context.api, after) if options.follow else _until_now(context, after)
    for event in events:
        sys.stdout.write((json.dumps(event, ensure_ascii=False) if options.output == "json" else line(event)) + "\n")
        if options.follow:
            sys.stdout.flush()
    return 0


def _until_now(context: Context, after: int) -> Iterator[dict[str, Any]]:
    while page := context.api.request("GET", "events", query={"after": after, "limit": PAGE}):
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
