"""The quota tree as it is kept: read whole, changed by one node at a time, checked as a whole.

A tenant's and a cohort's compute and memory are columns of its own row; its other limits are rows
of `quota_limits`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import sqlalchemy as sa

from gpupool.base.errors import BadOption, InvalidQuotaTree, UnknownCohort
from gpupool.base.units import format_gpu, format_mib
from gpupool.model.quota import (
    CELLS,
    GPU,
    MEMORY,
    Quota,
    QuotaBranch,
    QuotaLimit,
    Resource,
    split_resource,
)
from gpupool.model.quota_check import (
    CohortCycle,
    OverpromisedCohort,
    UnknownParent,
    find_tree_fault,
)
from gpupool.store.database import WriteTransaction
from gpupool.tenancy.tables import cohorts, quota_limits, tenants
from gpupool.wire.people import LimitIn, QuotaIn

Row = sa.Row[Any]
Kind = Literal["tenant", "cohort"]
#: The column of `quota_limits` that names the owner; a check lets exactly one be set.
_OWNER = {"tenant": quota_limits.c.tenant_id, "cohort": quota_limits.c.cohort_id}
#: Columns of a node's own row that a quota sets, named as in the API.
COLUMNS = (
    "nominal_milli",
    "borrowing_milli",
    "nominal_memory_bytes",
    "borrowing_memory_bytes",
    "lending_milli",
    "lending_memory_bytes",
)


@dataclass(frozen=True)
class QuotaTree:
    """Every living node by name."""

    cohorts: Mapping[str, QuotaBranch]
    tenants: Mapping[str, QuotaBranch]


def read_tree(connection: sa.Connection) -> QuotaTree:
    """Read the whole tree."""
    of_tenant, of_cohort = _read_other_limits(connection)
    rows = connection.execute(sa.select(cohorts)).all()
    names = {row.id: row.name for row in rows}
    inner = {
        row.name: _make_branch(row, names.get(row.parent_id), of_cohort[row.id]) for row in rows
    }
    living = connection.execute(sa.select(tenants).where(tenants.c.retired_ns.is_(None)))
    return QuotaTree(
        inner,
        {
            row.name: _make_branch(row, names.get(row.cohort_id), of_tenant[row.id])
            for row in living
        },
    )


def read_branch(connection: sa.Connection, kind: Kind, row: Row) -> QuotaBranch:
    """Read one node: a row of `tenants` or `cohorts` with its other limits."""
    above = row.cohort_id if kind == "tenant" else row.parent_id
    name = connection.execute(
        sa.select(cohorts.c.name).where(cohorts.c.id == above)
    ).scalar_one_or_none()
    rows = connection.execute(sa.select(quota_limits).where(_OWNER[kind] == row.id))
    return _make_branch(
        row,
        name,
        {each.resource: QuotaLimit(each.nominal, each.borrowing, each.lending) for each in rows},
    )


def write_branch(
    write: WriteTransaction, kind: Kind, row_id: int, wanted: QuotaIn
) -> dict[str, Any]:
    """Write a node's other limits; return the values of its own row's columns.

    The caller writes those, and calls `check_tree` when the row is written. Raises UnknownCohort,
    BadOption.
    """
    above = None if wanted.cohort is None else _cohort_id(write.connection, wanted.cohort)
    # A quota is set whole: what it does not name is no limit any more.
    write.execute(quota_limits.delete().where(_OWNER[kind] == row_id))
    for limit in _check_limits(wanted.others):
        owner = {"tenant_id": row_id} if kind == "tenant" else {"cohort_id": row_id}
        write.insert(quota_limits, **owner, **limit)
    own = {name: getattr(wanted, name) for name in COLUMNS} | {"weight_milli": wanted.weight_milli}
    return own | {"cohort_id" if kind == "tenant" else "parent_id": above}


def check_tree(connection: sa.Connection) -> None:
    """Raise InvalidQuotaTree with the numbers where the tree as it is written does not add up."""
    tree = read_tree(connection)
    found = find_tree_fault(tree.cohorts, tree.tenants)
    if isinstance(found, CohortCycle):
        way = " below ".join((*found.names, found.names[0]))
        raise InvalidQuotaTree(
            f"cohort {found.names[0]} would be below itself: {way}",
            hint=f"gpupool quota set --cohort {found.names[0]} --parent none",
            node=found.names[0],
        )
    if isinstance(found, UnknownParent):
        raise UnknownCohort(
            f"no cohort {found.parent!r}, named by {found.node}", hint="gpupool quota tree"
        )
    if found is not None:
        raise _describe_excess(found)


def _describe_excess(found: OverpromisedCohort) -> InvalidQuotaTree:
    total = sum(found.children.values())
    each = ", ".join(
        f"{name} {format_amount(found.resource, size)}" for name, size in found.children.items()
    )
    return InvalidQuotaTree(
        f"cohort {found.cohort} is guaranteed {format_amount(found.resource, found.nominal)}, "
        "those in it"
        f" {format_amount(found.resource, total)}: {each}",
        hint="raise the cohort's part, or lower one of these: gpupool quota set --cohort "
        f"{found.cohort} --help",
        node=found.cohort,
        resource=found.resource,
        nominal=found.nominal,
        promised=total,
    )


def format_amount(resource: Resource, size: int) -> str:
    """Format an amount of a resource: `12.00 H200`, `8192 MiB`, `2 node`."""
    kind, model = split_resource(resource)
    if kind == MEMORY:
        return format_mib(size)
    return f"{format_gpu(size)} {model or 'GPU'}" if kind == GPU else f"{size} {resource}"


def limits_out(quota: Quota) -> list[LimitIn]:
    """The limits of single models and whole cells, as the API shows them."""
    rows = quota.others
    return [
        LimitIn(resource=r, nominal=m.nominal or 0, borrowing=m.borrowing, lending=m.lending)
        for r, m in rows
    ]


def _check_limits(wanted: list[LimitIn]) -> list[dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for limit in wanted:
        kind, model = split_resource(limit.resource)
        if kind not in (GPU, *CELLS) or limit.resource == GPU:
            raise BadOption(
                f"{limit.resource!r} is nothing that is counted apart",
                hint="a model is gpu:H200, a vendor gpu:AMD, whole nodes are node or node:H200, "
                "NVLink domains nvlink",
            )
        # Upper case, as models are in the catalogue: gpu:h200 and gpu:H200 are one limit.
        name = f"{kind}:{model.upper()}" if model else kind
        if name in found:
            raise BadOption(f"{name} is limited twice", hint="name each resource once")
        found[name] = limit.model_dump() | {"resource": name}
    return list(found.values())


def _cohort_id(connection: sa.Connection, name: str) -> int:
    found = connection.execute(
        sa.select(cohorts.c.id).where(cohorts.c.name == name)
    ).scalar_one_or_none()
    if found is None:
        hint = f"gpupool quota tree shows them; gpupool quota set --cohort {name[:80]} makes it"
        raise UnknownCohort(f"no cohort {name[:80]!r}", hint=hint)
    return int(found)


def _read_other_limits(
    connection: sa.Connection,
) -> tuple[dict[int, dict[str, QuotaLimit]], dict[int, dict[str, QuotaLimit]]]:
    """Read the other limits by tenant, and by cohort."""
    found: tuple[dict[int, dict[str, QuotaLimit]], ...] = (defaultdict(dict), defaultdict(dict))
    for row in connection.execute(sa.select(quota_limits)):
        key, at = (row.tenant_id, 0) if row.tenant_id is not None else (row.cohort_id, 1)
        found[at][key][row.resource] = QuotaLimit(row.nominal, row.borrowing, row.lending)
    return found[0], found[1]


def _make_branch(row: Row, parent: str | None, others: Mapping[str, QuotaLimit]) -> QuotaBranch:
    quota = Quota(
        **{name: getattr(row, name) for name in COLUMNS}, others=tuple(sorted(others.items()))
    )
    return QuotaBranch(parent, quota, row.weight_milli)
