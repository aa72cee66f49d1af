"""`gpupool quota`: the tree of what tenants may hold, one tenant's part of it, and changing it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from gpupool.base.errors import BadOption
from gpupool.base.ids import check_name
from gpupool.base.units import WHOLE, format_gpu
from gpupool.cli.accounts import tenant_limits
from gpupool.cli.accounts.budget import parse_hours
from gpupool.cli.accounts.budget import run as set_budget
from gpupool.cli.accounts.quota_limits import add_branch, add_limits, apply_changes, has_changes
from gpupool.terminal.confirm import confirm_plan
from gpupool.terminal.context import CommandContext
from gpupool.terminal.listing import describe_limit, describe_memory, describe_memory_limit
from gpupool.terminal.output import TableColumn, format_pairs, print_data, print_list
from gpupool.terminal.parser import (
    OBJECT_FORMATS,
    CommandParser,
    add_output,
    add_yes,
    parse_command,
)
from gpupool.terminal.references import quote_segment


def register(parser: CommandParser) -> None:
    parser.about = """
    The nominal part of a tenant is guaranteed; it may borrow more while others lend. A claim beyond both is refused;
    a claim beyond what is left now waits. Borrowed quota is reclaimed when its owner needs it. Tenants in a cohort
    share a quota; cohorts may be nested.
    """
    parser.examples = [
        "gpupool quota",
        "gpupool quota set --cohort research --gpus 12 --weight 2",
        "gpupool quota set team-nlp --parent research --gpus 4 --borrow 8 --model H200=2",
        "gpupool quota set team-nlp --nodes 1",
        "gpupool quota set team-nlp --gpus 2 --gpu-hours 500/month",
    ]
    parser.add_verbs()
    parser.set_defaults(verb="tree")
    add_output(parser, OBJECT_FORMATS)
    tree = parser.add_verb(
        "tree", "the quota tree: limits, usage, borrowing and lending (default verb)"
    )
    add_output(tree, OBJECT_FORMATS)
    show = parser.add_verb("show", "limits and usage of a tenant")
    show.add_argument("tenant", nargs="?", metavar="TENANT", help="default: your own")
    add_output(show, OBJECT_FORMATS)
    change = parser.add_verb(
        "set", "set some limits; the others stay (a first guarantee allows no borrowing)"
    )
    change.add_argument("tenant", nargs="?", metavar="TENANT", help="whose")
    change.add_argument(
        "--cohort", metavar="NAME", help="of a cohort instead; it is created if missing"
    )
    add_limits(change)
    add_branch(change)
    change.add_argument(
        "--gpu-hours",
        metavar="N/PERIOD",
        help="also its budget: 500/month, 1200/quarter (gpupool budget)",
    )
    add_output(change, OBJECT_FORMATS)
    delete = parser.add_verb("delete", "delete an empty cohort")
    delete.add_argument("cohort", metavar="COHORT", help="which")
    add_yes(delete)


def run(options: argparse.Namespace, context: CommandContext) -> int:
    return {"tree": _show_tree, "show": _show_quota, "set": _set_quota, "delete": _delete_cohort}[
        options.verb
    ](options, context)


def _show_quota(options: argparse.Namespace, context: CommandContext) -> int:
    own = context.api.request("GET", "whoami")["tenant"]
    tenant = options.tenant or own
    quota = context.api.request("GET", f"tenants/{quote_segment(tenant, 'tenant')}/quota")
    # Only the caller's own room is told by the API, and it is a second request.
    room = (
        tenant_limits.fetch_room(context) if tenant == own and options.output == "table" else None
    )
    return _print_quota(quota, options.output, tenant_limits.list_facts(room))


def _set_quota(options: argparse.Namespace, context: CommandContext) -> int:
    if (options.tenant is None) == (options.cohort is None):
        raise BadOption(
            "say whose quota: a TENANT, or --cohort NAME", hint="gpupool quota set --help"
        )
    if options.cohort is not None:
        return _set_cohort(options, context)
    budget = _read_budget(options)
    if budget is not None and not has_changes(options):
        return set_budget(budget, context)
    path = f"tenants/{quote_segment(options.tenant, 'tenant')}/quota"
    wanted = apply_changes(context.api.request("GET", path), options)
    quota = context.api.request("PUT", path, wanted, if_match=context.api.etag)
    if budget is None:
        return _print_quota(quota, options.output)
    if options.output == "table":
        _print_quota(quota, options.output)
    return set_budget(budget, context)


def _read_budget(options: argparse.Namespace) -> argparse.Namespace | None:
    """Read `--gpu-hours 500/month` as the options of `gpupool budget set`, before anything is set."""
    if options.gpu_hours is None:
        return None
    hours, _, period = options.gpu_hours.partition("/")
    words = ["set", options.tenant, "--gpu-hours", hours, "--period", period or "month"]
    words += ["-o", options.output]
    parse_hours(hours)
    parsed: argparse.Namespace = parse_command("budget", words)
    return parsed


def _set_cohort(options: argparse.Namespace, context: CommandContext) -> int:
    path = f"cohorts/{quote_segment(check_name(options.cohort, 'cohort'), 'cohort')}"
    # A cohort that is missing is made: the list says so without an error.
    page = context.api.request("GET", "cohorts?limit=1000")
    known = next((one for one in page["items"] if one["name"] == options.cohort), None)
    if known is None:
        return _print_quota(
            context.api.request("PUT", path, apply_changes({}, options)), options.output
        )
    wanted = apply_changes(context.api.request("GET", path), options)
    return _print_quota(
        context.api.request("PUT", path, wanted, if_match=context.api.etag), options.output
    )


def _delete_cohort(options: argparse.Namespace, context: CommandContext) -> int:
    path = f"cohorts/{quote_segment(options.cohort, 'cohort')}"
    confirm_plan([f"delete cohort {options.cohort}"], yes=options.yes)
    context.api.request("DELETE", path)
    sys.stdout.write(f"{options.cohort} deleted\n")
    return 0


def _print_quota(
    quota: dict[str, Any], output: str, more: Sequence[tuple[str, object]] = ()
) -> int:
    if output != "table":
        print_data(quota, output)
    elif "tenant" in quota:
        sys.stdout.write(
            format_pairs([("tenant", quota["tenant"]), *quota_facts(quota), *more]) + "\n"
        )
    else:
        sys.stdout.write(format_pairs([("cohort", quota["name"]), *_branch_facts(quota)]) + "\n")
    return 0


def quota_facts(quota: dict[str, Any]) -> list[tuple[str, object]]:
    """List held, guaranteed and the most, in both numbers."""
    held = f"{format_gpu(quota['held_milli'])} GPU + {describe_memory(quota['held_memory_bytes'])}"
    facts: list[tuple[str, object]] = [
        ("holds now", held),
        ("guaranteed", _describe_part(quota, "nominal")),
        ("at most", _describe_part(quota, "maximum")),
    ]
    # A tenant outside of every cohort, with the usual weight, needs no more lines.
    weight = quota.get("weight_milli", WHOLE)
    if quota.get("cohort") or quota.get("others") or weight != WHOLE:
        facts += _list_other_facts(quota)
    return facts


def _branch_facts(quota: dict[str, Any]) -> list[tuple[str, object]]:
    return [("guaranteed", _describe_part(quota, "nominal")), *_list_other_facts(quota)]


def _describe_part(quota: dict[str, Any], part: str) -> str:
    """Format one limit of a quota, `nominal` or `maximum`, in both numbers."""
    compute = describe_limit(quota[f"{part}_milli"])
    return f"{compute} + {describe_memory_limit(quota[f'{part}_memory_bytes'])}"


def _list_other_facts(quota: dict[str, Any]) -> list[tuple[str, object]]:
    limits = ", ".join(
        f"{describe_amount(one['resource'], one['nominal'])}" for one in quota["others"]
    )
    facts: list[tuple[str, object]] = [
        ("in", quota["cohort"] or "the pool"),
        ("weight", describe_weight(quota["weight_milli"])),
    ]
    return facts + ([("also guaranteed", limits)] if limits else [])


# The tree -----------------------------------------------------------------------------------------


def _show_tree(options: argparse.Namespace, context: CommandContext) -> int:
    tree = context.api.request("GET", "quotas")
    if options.output != "table":
        print_data(tree, options.output)
        return 0
    rows = rows_of(tree["nodes"])
    print_list(rows, COLUMNS, "table", color=context.color, has_wide=False)
    return 0


def rows_of(nodes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """List a row per node and per resource that it is limited in, indented by depth."""
    depth: dict[tuple[str, str | None], int] = {}
    rows: list[dict[str, Any]] = []
    for node in nodes:
        # The API sends parents before their children, so the depth of the parent is known here.
        at = 0 if node["kind"] == "pool" else depth.get(("cohort", node["parent"]), 0) + 1
        depth[node["kind"], node["name"]] = at
        limits = node["limits"] or [None]
        for number, limit in enumerate(limits):
            name = "  " * at + (node["name"] or "pool")
            rows.append(
                {
                    "name": name,
                    "node": node if number == 0 else None,
                    "limit": limit,
                    "held": _describe_usage(node, limit),
                }
            )
    return rows


def _describe_usage(node: dict[str, Any], limit: dict[str, Any] | None) -> str:
    return (
        describe_amount("gpu", node["held_milli"])
        if limit is None
        else describe_amount(limit["resource"], limit["held"])
    )


def describe_amount(resource: str, amount: int) -> str:
    """Format an amount of a resource: `2.00 GPU`, `4.00 H200`, `8192 MiB`, `2 nodes`."""
    kind, _, model = resource.partition(":")
    if kind == "memory":
        return str(describe_memory(amount))
    if kind == "gpu":
        return f"{format_gpu(amount)} {model or 'GPU'}"
    noun = "node" if kind == "node" else "NVLink domain"
    return f"{amount} {model + ' ' if model else ''}{noun}{'' if amount == 1 else 's'}"


def describe_weight(milli: int) -> str:
    """Format a weight in thousandths: `1`, `0.5`.

    >>> describe_weight(1000), describe_weight(2500)
    ('1', '2.5')
    """
    return f"{milli / WHOLE:g}"


def _limit_cell(name: str) -> Any:
    def read_cell(row: dict[str, Any]) -> str | None:
        limit = row["limit"]
        return None if limit is None else describe_amount(limit["resource"], limit[name])

    return read_cell


def _node_cell(name: str, shown: Any) -> Any:
    return lambda row: " " if row["node"] is None else shown(row["node"][name])


COLUMNS = (
    TableColumn("NODE", lambda row: row["name"]),
    TableColumn("WEIGHT", _node_cell("weight_milli", describe_weight), right=True, spare=5),
    TableColumn("HOLDS", lambda row: row["held"], right=True),
    TableColumn("NOMINAL", _limit_cell("nominal"), right=True),
    TableColumn("BORROWED", _limit_cell("borrowed"), right=True, spare=1),
    TableColumn("LENT", _limit_cell("lent"), right=True, spare=2),
    TableColumn(
        "SHARE", _node_cell("share_percent", lambda part: f"{part:.1f} %"), right=True, spare=3
    ),
    TableColumn(
        "DUE", _node_cell("due_percent", lambda part: f"{part:.1f} %"), right=True, spare=4
    ),
    TableColumn(
        "PAST",
        _node_cell("past_card_hours", lambda hours: f"{hours:.1f} card-h"),
        right=True,
        spare=6,
    ),
)
