"""`gpupool events`: what happened in the pool, in order; with --follow as it happens."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from typing import Any

from gpupool.base.errors import EventsReset
from gpupool.client.watch import watch_events
from gpupool.terminal.context import CommandContext
from gpupool.terminal.listing import describe_instant
from gpupool.terminal.output import clean_text
from gpupool.terminal.parser import CommandParser, add_output, integer_within

#: Events a request; the most that the API gives.
PAGE = 1000


def register(parser: CommandParser) -> None:
    parser.about = """
    Events are numbered without gaps. --follow survives restarts of the pool and shows every event once; start
    again where you were with --after and the last number you saw. --epoch names the event log that the number is from
    (event_epoch of GET /api/v1/pool). When the pool was restored, its log is another one: --follow says so and goes on
    after the end of the new log; without --follow a number of another log is refused with GP-4004.
    """
    parser.examples = [
        "gpupool events",
        "gpupool events --follow",
        "gpupool events --after 1200 -o json",
    ]
    parser.add_argument(
        "-f", "--follow", action="store_true", help="go on as things happen, until Ctrl-C"
    )
    parser.add_argument(
        "--after",
        type=integer_within("--after", "the number of an event", 0, 2**62),
        metavar="N",
        help="only later ones",
    )
    parser.add_argument("--epoch", metavar="ID", help="the event log that N of --after is from")
    parser.add_argument(
        "-n",
        "--last",
        type=integer_within("--last", "the number of events", 0, 1_000_000),
        default=50,
        metavar="N",
        help="without --after: begin with the last N (default: 50)",
    )
    add_output(parser, ("table", "json"))


def run(options: argparse.Namespace, context: CommandContext) -> int:
    after = options.after
    epoch = options.epoch
    if after is None:
        pool = context.api.request("GET", "pool")
        after = max(0, pool["last_event"] - options.last)
        epoch = epoch or pool.get("event_epoch")  # a pool of an earlier version names none
    if options.follow:
        events = watch_events(context.api, after, epoch=epoch, on_reset=_tell_reset)
    else:
        events = _read_until_now(context, after, epoch)
    for event in events:
        as_json = options.output == "json"
        text = json.dumps(event, ensure_ascii=False) if as_json else format_event(event)
        sys.stdout.write(text + "\n")
        if options.follow:
            # A pipe is buffered: a reader of --follow would see events kilobytes later.
            sys.stdout.flush()
    return 0


def _tell_reset(error: EventsReset) -> None:
    last = error.details["last_event"]
    sys.stderr.write(f"gpupool: {error.code}: {error.message}; going on after event {last}\n")
    sys.stderr.write("  what is before it:  gpupool events\n")


def _read_until_now(
    context: CommandContext, after: int, epoch: str | None
) -> Iterator[dict[str, Any]]:
    while page := context.api.request(
        "GET", "events", query={"after": after, "limit": PAGE, "epoch": epoch}
    ):
        yield from page
        after = page[-1]["seq"]


def format_event(event: dict[str, Any]) -> str:
    """Format an event: `118  2026-11-20T10:00:00Z  job.running  train  tenant=default …`."""
    data = {"tenant": event["tenant"], **event["data"]}
    words = []
    for key, value in data.items():
        if value not in (None, "", [], {}):  # 0 and false say something
            words.append(f"{key}={_shorten_value(value)}")
    head = f"{event['seq']:>6}  {describe_instant(event['at_ns'])}  {event['kind']:<16}  {event['subject']}"
    return clean_text(f"{head}  {' '.join(words)}".rstrip())


def _shorten_value(value: Any) -> str:
    return (
        json.dumps(value, separators=(",", ":")) if isinstance(value, (dict, list)) else str(value)
    )
