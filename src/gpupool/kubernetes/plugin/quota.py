"""`kubectl gpupool quota`: tenants, what they may hold, hold now and wait for."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gpupool.base import quantities
from gpupool.base.errors import BadQuantity
from gpupool.base.units import format_gpu, format_mib
from gpupool.kubernetes.plugin.context import Context, Json
from gpupool.kubernetes.resources import names
from gpupool.kubernetes.resources.gpu_node import GpuNode
from gpupool.kubernetes.resources.pod import Pod
from gpupool.terminal.output import TableColumn, print_list
from gpupool.terminal.parser import CommandParser, add_output

TENANTS = f"/apis/{names.API_VERSION}/tenants"


def register(parser: CommandParser) -> None:
    parser.about = """
    Tenants as they are written (`kubectl get tenants`), and what each holds by the nodes' ledgers. A namespace that no
    tenant names is a tenant of its own, without limits.
    """
    parser.examples = ["kubectl gpupool quota", "kubectl gpupool quota -o json"]
    add_output(parser)


async def run(options: argparse.Namespace, context: Context) -> int:
    rows = rows_of(await context.items(TENANTS), await context.ledgers(), await context.pods())
    empty = "no tenant, and nobody holds or waits for cards"
    print_list(
        rows, COLUMNS, options.output, fields=lambda: FIELDS, empty=empty, color=context.color
    )
    return 0


def rows_of(
    tenants: Sequence[Json], nodes: Iterable[GpuNode], pods: Iterable[Pod]
) -> list[dict[str, Any]]:
    """A row per tenant that is written or that holds or waits."""
    written = {one["metadata"]["name"]: one for one in tenants}
    owner = {}
    for name, one in written.items():
        for space in (one.get("spec") or {}).get("namespaces") or ():
            owner[space] = name
    milli = Counter[str]()
    size = Counter[str]()
    for entry in (entry for node in nodes for entry in node.entries):
        milli[entry.tenant] += sum(seat.gpu_milli for seat in entry.seats)
        size[entry.tenant] += sum(seat.memory_bytes for seat in entry.seats)
    waiting = Counter(owner.get(pod.namespace, pod.namespace) for pod in pods if pod.is_waiting)
    known = sorted({*written, *milli, *waiting})
    return [_row(name, written.get(name), milli[name], size[name], waiting[name]) for name in known]


def _row(name: str, tenant: Json | None, milli: int, size: int, waiting: int) -> dict[str, Any]:
    spec = None if tenant is None else tenant.get("spec") or {}
    limit = ((spec or {}).get("limits") or {}).get("gpu") or {}
    return {
        "tenant": name,
        "written": spec is not None,
        "parent": (spec or {}).get("parent"),
        "namespaces": (spec or {}).get("namespaces") or ([] if spec else [name]),
        "nominal_milli": _milli(limit, "nominal"),
        "borrowing_milli": _milli(limit, "borrowing"),
        "nominal": _read_limit(limit, "nominal"),
        "borrowing": _read_limit(limit, "borrowing"),
        "in_force": _in_force(tenant or {}),
        "held_milli": milli,
        "held_memory_bytes": size,
        "waiting": waiting,
    }


def _milli(limit: Mapping[str, Any], key: str) -> int | None:
    """Cards as a quantity, in thousandths; None where nothing is said, or nothing that can be
    read."""
    try:
        return quantities.parse_milli(limit[key]) if key in limit else None
    except BadQuantity:
        return None


def _read_limit(limit: Mapping[str, Any], key: str) -> str | None:
    return str(limit[key]) if key in limit else None


def _in_force(tenant: Json) -> bool | None:
    """What the controller says of it; None where it has said nothing, or there is no tenant."""
    conditions = (tenant.get("status") or {}).get("conditions") or ()
    told = {}
    for one in conditions:
        if one["status"] != "Unknown":
            told[one["type"]] = one["status"] == "True"
    return told.get("InForce")


COLUMNS = (
    TableColumn("TENANT", lambda row: row["tenant"]),
    TableColumn("PARENT", lambda row: row["parent"], wide=True),
    TableColumn("NOMINAL", lambda row: row["nominal"] or "no limit", right=True),
    TableColumn("BORROWING", lambda row: row["borrowing"] or "no limit", right=True),
    TableColumn("HELD", lambda row: f"{format_gpu(row['held_milli'])} GPU", right=True),
    TableColumn("MEMORY", lambda row: format_mib(row["held_memory_bytes"]), right=True),
    TableColumn("WAITING", lambda row: row["waiting"], right=True),
    TableColumn(
        "IN FORCE",
        lambda row: None if row["in_force"] is None else "yes" if row["in_force"] else "no",
    ),
    TableColumn("NAMESPACES", lambda row: ", ".join(row["namespaces"])),
)
FIELDS = (
    *("tenant", "written", "parent", "namespaces", "nominal_milli", "borrowing_milli"),
    *("nominal", "borrowing", "in_force", "held_milli", "held_memory_bytes", "waiting"),
)
