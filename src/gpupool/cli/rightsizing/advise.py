"""`gpupool advise`: what the jobs of a family should ask for, by what their runs used."""

from __future__ import annotations

import argparse
import sys

from gpupool.base.units import format_gpu, format_mib
from gpupool.cli.accounts.price import format_micro
from gpupool.cli.rightsizing import advice_policy
from gpupool.cli.rightsizing.advice_changes import add_apply, add_since, apply_advice
from gpupool.terminal.context import CommandContext
from gpupool.terminal.output import Row, TableColumn, print_data, print_list
from gpupool.terminal.parser import CommandParser, add_output


def register(parser: CommandParser) -> None:
    parser.about = """
    A family is the jobs of one user and project whose names differ in numbers and hashes alone: train-1 and train-2.
    Compute: the 95th percentile of what the runs used of their busiest card, and 15 %. Memory: the highest of all
    runs, and 10 %. Newer runs count more; their weight halves each week. A family that is at its limit for more than
    5 % of its time is advised half more. Fewer than 5 measured runs give no advice. It changes nothing: `apply`
    resizes running jobs, after a plan and a question; `policy set` lets the pool do it by itself within bounds. SAVES
    is on average of the time. Speeds of models are not compared.
    """
    parser.examples = [
        "gpupool advise",
        "gpupool advise --tenant nlp --since 7d",
        "gpupool advise --job train-17 -o json",
        "gpupool advise apply train",
        "gpupool advise backtest --since 90d",
        "gpupool advise tenants",
        "gpupool advise layout --since 7d",
        "gpupool advise policy set nlp --mode apply --max-cut 50% --dry-run",
    ]
    one = parser.add_mutually_exclusive_group()
    one.add_argument(
        "--family", metavar="FAMILY", help="train, or TENANT/PROJECT/USER/train: only such families"
    )
    one.add_argument("--job", metavar="JOB", help="only the family of this job: id, name or last")
    parser.add_argument("--tenant", metavar="TENANT", help="only this tenant's families")
    add_since(parser, default="30d")
    add_output(parser)
    parser.add_verbs()
    parser.set_defaults(verb="list")
    add_apply(parser.add_verb("apply", "resize the running jobs of a family, after a question"))
    backtest = parser.add_verb("backtest", "judge each run by what earlier runs would have advised")
    # Without defaults: what stands before the verb stays.
    unset = argparse.SUPPRESS
    backtest.add_argument(
        "--tenant", default=unset, metavar="TENANT", help="only this tenant's families"
    )
    add_since(backtest, default=unset)
    add_output(backtest)
    tenants = parser.add_verb("tenants", "the advice for each tenant's families together")
    add_since(tenants, default=unset)
    add_output(tenants)
    layout = parser.add_verb("layout", "how cards with MIG would be cut for what families need")
    layout.add_argument(
        "--tenant", default=unset, metavar="TENANT", help="only this tenant's families"
    )
    add_since(layout, default=unset)
    add_output(layout)
    advice_policy.register_policies(parser)


def run(options: argparse.Namespace, context: CommandContext) -> int:
    verb = (_VERBS | advice_policy.VERBS).get(options.verb)
    if verb is not None:
        return verb(options, context)
    query = {
        "since": options.since,
        "family": options.family,
        "job": options.job,
        "tenant": options.tenant,
    }
    rows = context.api.request("GET", "advice", query=query)
    print_list(rows, COLUMNS, options.output, empty="no job with a card ran in this time")
    if options.output in ("table", "wide"):
        for row in rows:
            _print_proposals(row)
    return 0


def _print_proposals(row: Row) -> None:
    for one in _list_proposals(row):
        share = _describe_share(one["proposed_milli"], one["proposed_bytes"])
        sys.stdout.write(f"the policy proposes {share} for the running job {one['name']}\n")


def _list_proposals(row: Row) -> list[Row]:
    # A server from before the field has none.
    return [one for one in row["live"] if one.get("proposed_milli") is not None]


def _show_tenants(options: argparse.Namespace, context: CommandContext) -> int:
    rows = context.api.request("GET", "advice/tenants", query={"since": options.since})
    print_list(rows, TENANT_COLUMNS, options.output, empty="no job with a card ran in this time")
    return 0


def _show_layouts(options: argparse.Namespace, context: CommandContext) -> int:
    query = {"since": options.since, "tenant": options.tenant}
    rows = context.api.request("GET", "advice/layouts", query=query)
    empty = "no card of the pool can be cut into what a family with advice needs"
    print_list(rows, LAYOUT_COLUMNS, options.output, empty=empty)
    return 0


def _show_backtest(options: argparse.Namespace, context: CommandContext) -> int:
    query = {"since": options.since, "tenant": options.tenant}
    found = context.api.request("GET", "advice/backtest", query=query)
    if options.output in ("json", "yaml"):
        print_data(found, options.output)
        return 0
    print_list(found["methods"], METHOD_COLUMNS, options.output)
    if options.output in ("table", "wide"):
        sys.stdout.write(
            f"{found['judged_runs']} runs of {found['families']} families judged, "
            f"{found['unjudged_runs']} not: too few runs before them\n"
        )
    return 0


def _describe_share(milli: int | None, size: int | None) -> str | None:
    if milli is None and size is None:
        return None
    compute = "--" if milli is None else format_gpu(milli)
    memory = "--" if size is None else format_mib(size)
    return f"{compute} + {memory}"


def _describe_request(row: Row) -> str | None:
    return _describe_share(row["requested_milli"], row["requested_bytes"])


def _describe_use(row: Row) -> str | None:
    used = [row["used_p50_milli"], row["used_p95_milli"], row["used_max_milli"]]
    if None in used:
        return None
    return "/".join(format_gpu(one) for one in used)


def _describe_advice(row: Row) -> str | None:
    if row["advice"] == "unknown":
        return None
    if row["advice"] == "keep":
        return "keep"
    return _describe_share(row["gpu_milli"], row["memory_bytes"])


def _describe_saving(row: Row) -> str | None:
    if row["saved_milli"] is None:
        return None
    return f"{row['saved_milli'] / 1000:.2f}"


def _describe_money(row: Row) -> str | None:
    if row["saved_micro_per_month"] is None:
        return None
    return f"{_format_month(row['saved_micro_per_month'])} {row['currency']}"


def _format_month(micro: int) -> str:
    # Whole cents: an estimate is not more exact.
    return format_micro(micro // 10_000 * 10_000)


def _describe_partition(row: Row) -> str | None:
    found = row["partition"]
    return None if found is None else f"{found['profile']} ({found['per_card']} a card)"


def _describe_cheaper(row: Row) -> str | None:
    # A server from before the field has none.
    found = row.get("cheaper")
    if found is None:
        return None
    return f"{found['model']} (-{_format_month(found['saved_micro_per_month'])} {row['currency']})"


def _describe_percent(number: float | None) -> str | None:
    return None if number is None else f"{number:g} %"


def _describe_reason(row: Row) -> str:
    return "at its limit" if row["advice"] == "grow" and not row["reason"] else str(row["reason"])


COLUMNS = (
    TableColumn("FAMILY", lambda row: row["pattern"]),
    TableColumn("USER", lambda row: f"{row['tenant']}/{row['user']}", spare=2),
    TableColumn("RUNS", lambda row: f"{row['measured_runs']}/{row['runs']}", right=True),
    TableColumn("REQUESTED", _describe_request, right=True),
    TableColumn("USED P50/P95/MAX", _describe_use, right=True, spare=1),
    TableColumn("MEMORY", lambda row: _format_bytes(row["used_bytes"]), right=True, spare=4),
    TableColumn(
        "AT LIMIT", lambda row: _describe_percent(row["limited_percent"]), right=True, spare=5
    ),
    TableColumn("ADVISE", _describe_advice, right=True),
    TableColumn("SAVES", _describe_saving, right=True),
    TableColumn("MONTH", _describe_money, right=True, spare=3),
    TableColumn("CONFIDENCE", lambda row: row["confidence"], spare=6),
    TableColumn("REASON", _describe_reason),
    TableColumn("PARTITION", _describe_partition, wide=True),
    TableColumn("MODELS", lambda row: ", ".join(row["models"]) or None, wide=True),
    TableColumn("CHEAPER MODEL", _describe_cheaper, wide=True),
    TableColumn("LIVE", lambda row: len(row["live"]), right=True, wide=True),
    TableColumn("PROPOSED", lambda row: len(_list_proposals(row)), right=True, wide=True),
    TableColumn("PROJECT", lambda row: row["project"], wide=True),
)


def _format_counts(counts: dict[str, int]) -> str | None:
    return ", ".join(f"{count} x {name}" for name, count in counts.items()) or None


def _format_mixes(mixes: list[Row]) -> str | None:
    return "; ".join(f"{one['cards']} x ({one['mix']})" for one in mixes) or None


def _format_bytes(size: int | None) -> str | None:
    return None if size is None else format_mib(size)


METHOD_COLUMNS = (
    TableColumn("METHOD", lambda row: row["method"]),
    TableColumn("STARVED", lambda row: _describe_percent(row["starved_percent"]), right=True),
    TableColumn("STARVED RUNS", lambda row: row["starved_runs"], right=True),
    TableColumn("SHORT OF MEMORY", lambda row: row["short_of_memory"], right=True),
    TableColumn("GPU-HOURS", lambda row: f"{row['given_hours']:.2f}", right=True),
    TableColumn("SAVED", lambda row: _describe_percent(row["saved_percent"]), right=True),
)
TENANT_COLUMNS = (
    TableColumn("TENANT", lambda row: row["tenant"]),
    TableColumn("FAMILIES", lambda row: row["families"], right=True),
    TableColumn("ADVISED", lambda row: row["advised_families"], right=True),
    TableColumn("TOO SMALL", lambda row: row["grow_families"], right=True),
    TableColumn("RUNS", lambda row: f"{row['measured_runs']}/{row['runs']}", right=True),
    TableColumn("SAVES", _describe_saving, right=True),
    TableColumn("MONTH", _describe_money, right=True),
)
LAYOUT_COLUMNS = (
    TableColumn("MODEL", lambda row: row["model"]),
    TableColumn("FAMILIES", lambda row: row["families"], right=True),
    TableColumn("NO PARTITION", lambda row: row["unfit_families"], right=True),
    TableColumn("DEMAND", lambda row: _format_counts(row["demand"])),
    TableColumn("CARDS", lambda row: f"{row['cards_needed']}/{row['cards']}", right=True),
    TableColumn("LAYOUT", lambda row: _format_mixes(row["mixes"])),
    TableColumn("NO CARD FOR", lambda row: _format_counts(row["missing"])),
)
_VERBS = {
    "apply": apply_advice,
    "backtest": _show_backtest,
    "tenants": _show_tenants,
    "layout": _show_layouts,
}
