"""`gpupool whatif`: what the queue would come to with other nodes, another policy, other quotas."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from gpupool.base.errors import BadOption
from gpupool.base.units import format_chance, format_duration, format_gpu, parse_duration
from gpupool.cli.context import Context
from gpupool.cli.output import Column, many, print_data, table
from gpupool.cli.parser import OBJECT_FORMATS, Parser, add_output
from gpupool.cli.quota_limits import parse_cards

ANSWER_SECONDS = 300.0


def register(parser: Parser) -> None:
    parser.about = """
    Plays the pool's present state forward twice, as it is and with the change: what runs ends when its limit says,
    or what such jobs took before; what waits starts when the scheduler would start it; nothing new comes. Changes
    nothing. Jobs of unknown end never end here, and are counted. Every user sees the pool's totals and the
    own tenant's numbers, an admin all of them.
    --tune looks back instead: it replays the pool's own history as it was, then with other policies and quotas, one
    change at a time, and tells which would have shortened waits, with the interval in which the difference lies. It
    computes on this machine, behind everything else, and ends at --within or Ctrl-C; only for admins.
    """
    parser.examples = [
        "gpupool whatif --add 4xL40S",
        "gpupool whatif --remove node-3 --horizon 7d",
        "gpupool whatif --policy fgd",
        "gpupool whatif --quota team-nlp=8 -o json",
        "gpupool whatif --tune --history 30d --within 1h",
    ]
    add = parser.add_argument
    add("--add", action="append", default=[], metavar="SPEC", help="nodes more, as for up --sim: 4xL40S, 2x8xH200")
    add("--remove", action="append", default=[], metavar="NODE", help="a node less; what runs there waits again")
    add("--policy", metavar="NAME", help="another rule of placement")
    add("--quota", action="append", default=[], metavar="TENANT=N", help="another guaranteed compute, in cards")
    add("--horizon", default="24h", metavar="TIME", help="how far to look ahead (default: 24h)")
    add("--tune", action="store_true", help="what would have shortened waits in the past; --policy a,b: only these")
    add("--history", default="14d", metavar="TIME", help="with --tune: how far to look back (default: 14d)")
    add("--within", default="10m", metavar="TIME", help="with --tune: end after this time (default: 10m)")
    add("--log", metavar="FILE", help="with --tune: an event log instead of the pool's own")
    add_output(parser, OBJECT_FORMATS)


def run(options: argparse.Namespace, context: Context) -> int:
    if options.tune:
        from gpupool.cli import tune

        return tune.run(options, context)
    answer = context.api.request("POST", "whatif", asked(options), timeout=ANSWER_SECONDS)
    if options.output != "table":
        print_data(answer, options.output)
    else:
        sys.stdout.write(text(answer) + "\n")
    return 0


def asked(options: argparse.Namespace) -> dict[str, Any]:
    """The request. Raises BadMachine, UnknownModel, BadOption, BadFraction, BadDuration."""
    body: dict[str, Any] = {"horizon_seconds": parse_duration(options.horizon)}
    if options.add:
        body["add"] = [node for spec in options.add for node in _nodes(spec)]
    if options.remove:
        body["remove"] = options.remove
    if options.policy:
        body["policy"] = options.policy
    if options.quota:
        body["nominal_milli"] = dict(map(parse_quota, options.quota))
    return body


def _nodes(spec: str) -> list[dict[str, Any]]:
    """One entry for each kind of node; the cards of a node are alike."""
    from gpupool.simulation.nodes import read_nodes

    counts: dict[tuple[str, int, int], int] = {}
    for node in read_nodes(spec):
        if len(set(node.cards)) > 1:
            raise BadOption(f"--add {spec}: the cards of a node are alike here", hint="--add 4xL40S --add 2xT4")
        kind = (*node.cards[0], len(node.cards))
        counts[kind] = counts.get(kind, 0) + 1
    return [
        {"model": model, "memory_bytes": size, "cards": cards, "nodes": nodes}
        for (model, size, cards), nodes in counts.items()
    ]


def parse_quota(given: str) -> tuple[str, int]:
    tenant, equals, cards = given.partition("=")
    if not equals or not tenant:
        raise BadOption(f"--quota {given}: write TENANT=CARDS", hint="--quota team-nlp=8")
    return tenant, parse_cards(cards)


def text(answer: dict[str, Any]) -> str:
    """Before and after, side by side, and what the numbers leave out."""
    before, after = answer["before"], answer["after"]
    rows = [{"what": what, "before": of(before), "after": of(after)} for what, of in _ROWS]
    for tenant in dict.fromkeys([*before["tenants"], *after["tenants"]]):
        sides = [side["tenants"].get(tenant) for side in (before, after)]
        told = [None if side is None else f"{side['start_now']} of {side['waiting']}" for side in sides]
        rows.append({"what": f"  {tenant}: start now", "before": told[0], "after": told[1]})
    return "\n".join([table(rows, _COLUMNS), *_notes(before, after)])


def _notes(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    notes = []
    if after["moved"]:
        notes.append(f"{many(after['moved'], 'job')} on removed nodes would start again from nothing")
    if before["no_end"] or after["no_end"]:
        notes.append(
            f"{many(max(before['no_end'], after['no_end']), 'job')} without a known end never end here:"
            " limits (--max-time) make this answer better"
        )
    if before["horizon_seconds"] != after["horizon_seconds"]:
        sides = (format_duration(side["horizon_seconds"]) for side in (before, after))
        notes.append("the pool is large: looked ahead only {} before and {} after".format(*sides))
    return notes


def _wait(name: str) -> Any:
    def shown(side: dict[str, Any]) -> str | None:
        seconds = side["queue"][name]
        return None if seconds is None else format_duration(seconds)

    return shown


def _estimated(side: dict[str, Any]) -> str | None:
    queue = side["queue"]
    if "estimated" not in queue:  # a server from before the field
        return None
    chance = queue["estimate_chance_pct"]
    often = "" if chance is None or not queue["estimated"] else f", {format_chance(chance)} start by then"
    return f"{queue['estimated']}{often}"


def _percent(name: str) -> Any:
    return lambda side: None if side[name] is None else f"{side[name]:.1f} %"


_ROWS: tuple[tuple[str, Any], ...] = (
    ("nodes, cards", lambda side: f"{side['nodes']}, {side['cards']}"),
    ("jobs waiting", lambda side: side["queue"]["waiting"]),
    ("  start now", lambda side: side["queue"]["start_now"]),
    ("  start within the horizon", lambda side: side["queue"]["start_later"]),
    ("  start promised", lambda side: side["queue"].get("promised")),
    ("  start estimated", _estimated),
    ("  wait p50", _wait("wait_p50_seconds")),
    ("  wait p95", _wait("wait_p95_seconds")),
    ("allocated now", _percent("allocation_now_pct")),
    ("allocated over the horizon", _percent("allocation_pct")),
    ("largest claim that starts", lambda side: f"{format_gpu(side['largest_milli'])} GPU"),
    ("whole nodes free", lambda side: side["whole_nodes"]),
    ("evictions", lambda side: side["evictions"]),
)
_COLUMNS = (
    Column("", lambda row: row["what"]),
    Column("BEFORE", lambda row: row["before"], right=True),
    Column("AFTER", lambda row: row["after"], right=True),
)
