"""`gpupool quota`: the tree of what tenants may hold, one tenant's part of it, and changing it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from gpupool.base.errors import BadOption
from gpupool.base.ids import check_name
from gpupool.base.units import WHOLE, format_gpu
from gpupool.cli import own_room
from gpupool.cli.confirm import confirm
from gpupool.cli.context import Context
from gpupool.cli.listing import limit_of, memory_limit, mib
from gpupool.cli.output import Column, pairs, print_data, print_list
from gpupool.cli.parser import OBJECT_FORMATS, Parser, add_output, add_yes
from gpupool.cli.quota_limits import add_branch, add_limits, changed
from gpupool.cli.references import segment


def register(parser: Parser) -> None:
    parser.about = """
    The nominal part is a tenant's own; with borrowing it may hold that much more, as long as others lend it. A claim
    beyond both together is refused; one that would go beyond them now waits. What runs on borrowed quota is taken
    back when its owner needs it. Cohorts are what tenants share a quota in; they may lie in each other.
    """
    parser.examples = [
        "gpupool quota",
        "gpupool quota set --cohort research --gpus 12 --weight 2",
        "gpupool quota set team-nlp --parent research --gpus 4 --borrow 8 --model H200=2",
        "gpupool quota set team-nlp --nodes 1",
    ]
    parser.group()
    parser.set_defaults(verb="tree")
    add_output(parser, OBJECT_FORMATS)
    tree = parser.verb("tree", "who may hold, holds, borrows and lends what (the same as no verb)")
    add_output(tree, OBJECT_FORMATS)
    show = parser.verb("show", "what a tenant may hold, and holds")
    show.add_argument("tenant", nargs="?", metavar="TENANT", help="default: your own")
    add_output(show, OBJECT_FORMATS)
    change = parser.verb("set", "set some limits; the others stay (a first guarantee allows no borrowing)")
    change.add_argument("tenant", nargs="?", metavar="TENANT", help="whose")
    change.add_argument("--cohort", metavar="NAME", help="of a cohort instead, made when it is not there")
    add_limits(change)
    add_branch(change)
    add_output(change, OBJECT_FORMATS)
    delete = parser.verb("delete", "take an empty cohort out")
    delete.add_argument("cohort", metavar="COHORT", help="which")
    add_yes(delete)


def run(options: argparse.Namespace, context: Context) -> int:
    return {"tree": _tree, "show": _show, "set": _set, "delete": _delete}[options.verb](options, context)


def _show(options: argparse.Namespace, context: Context) -> int:
    own = context.api.request("GET", "whoami")["tenant"]
    tenant = options.tenant or own
    quota = context.api.request("GET", f"tenants/{segment(tenant, 'tenant')}/quota")
    room = own_room.own_room(context) if tenant == own and options.output == "table" else None
    return _print(quota, options.output, own_room.facts(room))


def _set(options: argparse.Namespace, context: Context) -> int:
    if (options.tenant is None) == (options.cohort is None):
        raise BadOption("say whose quota: a TENANT, or --cohort NAME", hint="gpupool quota set --help")
    if options.cohort is not None:
        return _set_cohort(options, context)
    path = f"tenants/{segment(options.tenant, 'tenant')}/quota"
    wanted = changed(context.api.request("GET", path), options)
    return _print(context.api.request("PUT", path, wanted, if_match=context.api.etag), options.output)


def _set_cohort(options: argparse.Namespace, context: Context) -> int:
    path = f"cohorts/{segment(check_name(options.cohort, 'cohort'), 'cohort')}"
    page = context.api.request("GET", "cohorts?limit=1000")
    known = next((one for one in page["items"] if one["name"] == options.cohort), None)
    if known is None:
        return _print(context.api.request("PUT", path, changed({}, options)), options.output)
    wanted = changed(context.api.request("GET", path), options)
    return _print(context.api.request("PUT", path, wanted, if_match=context.api.etag), options.output)


def _delete(options: argparse.Namespace, context: Context) -> int:
    path = f"cohorts/{segment(options.cohort, 'cohort')}"
    confirm([f"delete cohort {options.cohort}"], yes=options.yes)
    context.api.request("DELETE", path)
    sys.stdout.write(f"{options.cohort} deleted\n")
    return 0


def _print(quota: dict[str, Any], output: str, more: Sequence[tuple[str, object]] = ()) -> int:
    if output != "table":
        print_data(quota, output)
    elif "tenant" in quota:
        sys.stdout.write(pairs([("tenant", quota["tenant"]), *quota_facts(quota), *more]) + "\n")
    else:
        sys.stdout.write(pairs([("cohort", quota["name"]), *_branch_facts(quota)]) + "\n")
    return 0


def quota_facts(quota: dict[str, Any]) -> list[tuple[str, object]]:
    """Held, guaranteed and the most, in both numbers."""
    return [
        ("holds now", f"{format_gpu(quota['held_milli'])} GPU + {mib(quota['held_memory_bytes'])}"),
        ("guaranteed", f"{limit_of(quota['nominal_milli'])} + {memory_limit(quota['nominal_memory_bytes'])}"),
        ("at most", f"{limit_of(quota['maximum_milli'])} + {memory_limit(quota['maximum_memory_bytes'])}"),
        *(
            _rest(quota)
            if quota.get("cohort") or quota.get("others") or quota.get("weight_milli", WHOLE) != WHOLE
            else ()
        ),
    ]


def _branch_facts(quota: dict[str, Any]) -> list[tuple[str, object]]:
    nominal = f"{limit_of(quota['nominal_milli'])} + {memory_limit(quota['nominal_memory_bytes'])}"
    return [("guaranteed", nominal), *_rest(quota)]


def _rest(quota: dict[str, Any]) -> list[tuple[str, object]]:
    limits = ", ".join(f"{size(one['resource'], one['nominal'])}" for one in quota["others"])
    facts: list[tuple[str, object]] = [("in", quota["cohort"] or "the pool"), ("weight", weight(quota["weight_milli"]))]
    return facts + ([("also guaranteed", limits)] if limits else [])


# The tree -----------------------------------------------------------------------------------------


def _tree(options: argparse.Namespace, context: Context) -> int:
    tree = context.api.request("GET", "quotas")
    if options.output != "table":
        print_data(tree, options.output)
        return 0
    print_list(rows_of(tree["nodes"]), COLUMNS, "table", color=context.color)
    return 0


def rows_of(nodes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A line per node and per resource that it is limited in, indented by depth."""
    depth: dict[tuple[str, str | None], int] = {}
    rows: list[dict[str, Any]] = []
    for node in nodes:
        at = 0 if node["kind"] == "pool" else depth.get(("cohort", node["parent"]), 0) + 1
        depth[node["kind"], node["name"]] = at
        limits = node["limits"] or [None]
        for number, limit in enumerate(limits):
            name = "  " * at + (node["name"] or "pool")
            rows.append(
                {"name": name, "node": node if number == 0 else None, "limit": limit, "held": _held(node, limit)}
            )
    return rows


def _held(node: dict[str, Any], limit: dict[str, Any] | None) -> str:
    return size("gpu", node["held_milli"]) if limit is None else size(limit["resource"], limit["held"])


def size(resource: str, amount: int) -> str:
    """`2.00 GPU`, `4.00 H200`, `8192 MiB`, `2 nodes`."""
    kind, _, model = resource.partition(":")
    if kind == "memory":
        return str(mib(amount))
    if kind == "gpu":
        return f"{format_gpu(amount)} {model or 'GPU'}"
    noun = "node" if kind == "node" else "NVLink domain"
    return f"{amount} {model + ' ' if model else ''}{noun}{'' if amount == 1 else 's'}"


def weight(milli: int) -> str:
    """`1`, `0.5`.

    >>> weight(1000), weight(2500)
    ('1', '2.5')
    """
    return f"{milli / WHOLE:g}"


def _of_limit(name: str) -> Any:
    def cell(row: dict[str, Any]) -> str | None:
        limit = row["limit"]
        return None if limit is None else size(limit["resource"], limit[name])

    return cell


def _of_node(name: str, shown: Any) -> Any:
    return lambda row: " " if row["node"] is None else shown(row["node"][name])


COLUMNS = (
    Column("NODE", lambda row: row["name"]),
    Column("WEIGHT", _of_node("weight_milli", weight), right=True, spare=5),
    Column("HOLDS", lambda row: row["held"], right=True),
    Column("NOMINAL", _of_limit("nominal"), right=True),
    Column("BORROWED", _of_limit("borrowed"), right=True, spare=1),
    Column("LENT", _of_limit("lent"), right=True, spare=2),
    Column("SHARE", _of_node("share_percent", lambda part: f"{part:.1f} %"), right=True, spare=3),
    Column("DUE", _of_node("due_percent", lambda part: f"{part:.1f} %"), right=True, spare=4),
    Column("PAST", _of_node("past_card_hours", lambda hours: f"{hours:.1f} card-h"), right=True, spare=6),
)
