"""`gpupool whatif`: what the queue would come to with other nodes, another policy, other quotas."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from gpupool.base.errors import BadOption
from gpupool.base.units import GIB, format_chance, format_duration, format_gpu, parse_duration
from gpupool.cli.accounts.quota_limits import parse_cards
from gpupool.client.submission import SHARING
from gpupool.model.claim import NAMED_KINDS
from gpupool.terminal.context import CommandContext
from gpupool.terminal.output import TableColumn, count_noun, format_table, print_data
from gpupool.terminal.parser import OBJECT_FORMATS, CommandParser, add_output

#: Time for the server's two simulations; it looks ahead less far in a large pool.
ANSWER_SECONDS = 300.0


def register(parser: CommandParser) -> None:
    parser.about = """
    Simulates the pool's present state twice, without and with the change: running jobs end at their limit, or by the
    run time of earlier jobs; waiting jobs start when the scheduler starts them; no new jobs arrive. Changes nothing.
    Jobs without a known end never end here, and are counted. Every user sees the pool's totals and the own tenant's
    numbers, an admin all of them.
    --tune looks back instead: it replays the pool's own history as it was, then with other policies and quotas, one
    change at a time, and tells which would have shortened waits, with the interval in which the difference lies. It
    computes on this machine, behind everything else, and ends at --within or Ctrl-C; only for admins.
    """
    parser.examples = [
        "gpupool whatif --add 4xL40S",
        "gpupool whatif --remove node-3 --horizon 7d",
        "gpupool whatif --policy fgd",
        "gpupool whatif --policy burst --add 4xL40S",
        "gpupool whatif --quota team-nlp=8 -o json",
        "gpupool whatif --tune --history 30d --within 1h",
    ]
    add = parser.add_argument
    add(
        "--add",
        action="append",
        default=[],
        metavar="SPEC",
        help="add nodes, as for up --sim: 4xL40S, 2x8xH200",
    )
    add(
        "--remove",
        action="append",
        default=[],
        metavar="NODE",
        help="remove a node; its jobs are requeued",
    )
    add(
        "--policy",
        metavar="NAME",
        help=(
            "another placement policy, or a kind of sharing (burst, ...) for every share; "
            "fgd,burst: both"
        ),
    )
    add(
        "--quota",
        action="append",
        default=[],
        metavar="TENANT=N",
        help="another guaranteed compute, in cards",
    )
    add("--horizon", default="24h", metavar="TIME", help="how far to look ahead (default: 24h)")
    add(
        "--tune",
        action="store_true",
        help="what would have shortened waits in the past; --policy a,b: only these",
    )
    add(
        "--history",
        default="14d",
        metavar="TIME",
        help="with --tune: how far to look back (default: 14d)",
    )
    add(
        "--within",
        default="10m",
        metavar="TIME",
        help="with --tune: end after this time (default: 10m)",
    )
    add("--log", metavar="FILE", help="with --tune: an event log instead of the pool's own")
    add_output(parser, OBJECT_FORMATS)


def run(options: argparse.Namespace, context: CommandContext) -> int:
    if options.tune:
        from gpupool.cli.planning import tune

        return tune.run(options, context)
    answer = context.api.request("POST", "whatif", make_request(options), timeout=ANSWER_SECONDS)
    if options.output != "table":
        print_data(answer, options.output)
    else:
        sys.stdout.write(format_answer(answer) + "\n")
    return 0


def make_request(options: argparse.Namespace) -> dict[str, Any]:
    """Make the body of the request.

    Raises:
        BadMachine: A node's description is wrong.
        UnknownModel: No card has that model.
        BadOption: Nodes have unlike cards, or a quota is not TENANT=CARDS.
        BadFraction: Not a number of cards.
        BadDuration: Not a time.
    """
    body: dict[str, Any] = {"horizon_seconds": parse_duration(options.horizon)}
    if options.add:
        added = []
        for spec in options.add:
            added += _read_nodes(spec)
        body["add"] = added
    if options.remove:
        body["remove"] = options.remove
    if options.policy:
        body |= parse_policy(options.policy)
    if options.quota:
        body["nominal_milli"] = dict(map(parse_quota, options.quota))
    return body


def parse_policy(given: str) -> dict[str, str]:
    """Read `fgd`, `burst` or `fgd,burst`: a policy of placement, and a kind of sharing.

    The pool checks the name of the policy.
    """
    found: dict[str, str] = {}
    for word in filter(None, map(str.strip, given.split(","))):
        field = "sharing" if word in SHARING else "policy"
        if word in NAMED_KINDS:
            raise BadOption(
                f"--policy {word}: which card serves whose programs is not forecast",
                hint=f"write --policy {' or '.join(one for one in SHARING if one not in NAMED_KINDS)}",
            )
        if field in found:
            raise BadOption(
                f"--policy {given}: {found[field]} and {word} exclude each other",
                hint="one placement policy and one kind of sharing: --policy fgd,burst",
            )
        found[field] = word
    return found


def _read_nodes(spec: str) -> list[dict[str, Any]]:
    """Return one entry for each kind of node; the cards of a node are alike."""
    from gpupool.simulation.traces.nodes import read_nodes

    counts: dict[tuple[str, int, int], int] = {}
    for node in read_nodes(spec):
        if len(set(node.cards)) > 1:
            raise BadOption(
                f"--add {spec}: the cards of a node are alike here", hint="--add 4xL40S --add 2xT4"
            )
        # Model and memory of a card, and the cards of a node: what the API counts nodes by.
        kind = (*node.cards[0], len(node.cards))
        counts[kind] = counts.get(kind, 0) + 1
    return [
        {"model": model, "memory_bytes": size, "cards": cards, "nodes": nodes}
        for (model, size, cards), nodes in counts.items()
    ]


def parse_quota(given: str) -> tuple[str, int]:
    """Read `TENANT=CARDS` as the tenant and milli-devices."""
    tenant, equals, cards = given.partition("=")
    if not equals or not tenant:
        raise BadOption(f"--quota {given}: write TENANT=CARDS", hint="--quota team-nlp=8")
    return tenant, parse_cards(cards)


def format_answer(answer: dict[str, Any]) -> str:
    """Format before and after, side by side, and what the numbers leave out."""
    before = answer["before"]
    after = answer["after"]
    rows = [{"what": what, "before": of(before), "after": of(after)} for what, of in _ROWS]
    for tenant in dict.fromkeys([*before["tenants"], *after["tenants"]]):
        row = {"what": f"  {tenant}: start now", "before": None, "after": None}
        for name, side in (("before", before), ("after", after)):
            found = side["tenants"].get(tenant)  # a tenant may have jobs on one side alone
            if found is not None:
                row[name] = f"{found['start_now']} of {found['waiting']}"
        rows.append(row)
    return "\n".join([format_table(rows, _COLUMNS), *_list_notes(before, after)])


def _list_notes(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    notes = []
    if after.get("sharing"):
        notes.append(
            f"{after['sharing']} for every share: {count_noun(after['sharing_changed'], 'job')}"
            " would have another sharing than now; whole cards and partitions keep theirs"
        )
    if after.get("sharing_unchanged"):
        notes.append(
            f"the old sharing stays with {count_noun(after['sharing_unchanged'], 'running job')}:"
            " no compute is left to promise on the card"
        )
    if after["moved"]:
        notes.append(
            f"{count_noun(after['moved'], 'job')} on removed nodes would start again from nothing"
        )
    if before["no_end"] or after["no_end"]:
        notes.append(
            f"no end is known of {count_noun(max(before['no_end'], after['no_end']), 'job')}, which"
            " count as endless: limits (--max-time) make this answer better"
        )
    if before["horizon_seconds"] != after["horizon_seconds"]:
        sides = (format_duration(side["horizon_seconds"]) for side in (before, after))
        notes.append("the pool is large: looked ahead only {} before and {} after".format(*sides))
    return notes


def _wait_cell(name: str) -> Any:
    def read_cell(side: dict[str, Any]) -> str | None:
        seconds = side["queue"][name]
        return None if seconds is None else format_duration(seconds)

    return read_cell


def _describe_estimated(side: dict[str, Any]) -> str | None:
    queue = side["queue"]
    if "estimated" not in queue:  # a server from before the field
        return None
    chance = queue["estimate_chance_pct"]
    often = (
        ""
        if chance is None or not queue["estimated"]
        else f", {format_chance(chance)} start by then"
    )
    return f"{queue['estimated']}{often}"


def _percent_cell(name: str) -> Any:
    return lambda side: None if side[name] is None else f"{side[name]:.1f} %"


def _describe_cost(side: dict[str, Any]) -> str | None:
    micro = side.get("cost_month_micro")
    return None if micro is None else f"{micro / 1_000_000:,.2f} {side['currency']}"


def _describe_stranded(side: dict[str, Any]) -> str | None:
    size = side.get("stranded_memory_bytes")
    return None if size is None else f"{size / GIB:,.0f} GiB"


_ROWS: tuple[tuple[str, Any], ...] = (
    ("placement policy", lambda side: side.get("policy") or None),
    ("sharing", lambda side: side.get("sharing") or "as claimed"),
    ("nodes, cards", lambda side: f"{side['nodes']}, {side['cards']}"),
    ("jobs waiting", lambda side: side["queue"]["waiting"]),
    ("  start now", lambda side: side["queue"]["start_now"]),
    ("  start within the horizon", lambda side: side["queue"]["start_later"]),
    ("  start promised", lambda side: side["queue"].get("promised")),
    ("  start estimated", _describe_estimated),
    ("  wait p50", _wait_cell("wait_p50_seconds")),
    ("  wait p95", _wait_cell("wait_p95_seconds")),
    ("allocated now", _percent_cell("allocation_now_pct")),
    ("allocated over the horizon", _percent_cell("allocation_pct")),
    ("stranded memory", _describe_stranded),
    ("largest claim that starts", lambda side: f"{format_gpu(side['largest_milli'])} GPU"),
    ("whole nodes free", lambda side: side["whole_nodes"]),
    ("evictions", lambda side: side["evictions"]),
    ("cost per month", _describe_cost),
)
_COLUMNS = (
    TableColumn("", lambda row: row["what"]),
    TableColumn("BEFORE", lambda row: row["before"], right=True),
    TableColumn("AFTER", lambda row: row["after"], right=True),
)
