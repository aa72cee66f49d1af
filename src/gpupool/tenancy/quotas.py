"""The quota tree as it is kept: read whole, changed by one node at a time, refused when it would not add up.

A tenant's and a cohort's compute and memory are columns of its own row; its other limits are rows of `quota_limits`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import sqlalchemy as sa

from gpupool.base.errors import BadOption, QuotaTreeRefused, UnknownCohort
from gpupool.base.units import format_gpu, format_mib
from gpupool.model.quota import CELLS, GPU, MEMORY, Branch, Limit, Quota, Resource, parts
from gpupool.model.quota_check import Cycle, NoParent, Promised, fault
from gpupool.store.database import Write
from gpupool.tenancy.tables import cohorts, quota_limits, tenants
from gpupool.wire.people import LimitIn, QuotaIn

Row = sa.Row[Any]
Kind = Literal["tenant", "cohort"]
_OWNER = {"tenant": quota_limits.c.tenant_id, "cohort": quota_limits.c.cohort_id}
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

    cohorts: Mapping[str, Branch]
    tenants: Mapping[str, Branch]


def read_tree(connection: sa.Connection) -> QuotaTree:
    """The whole tree."""
    of_tenant, of_cohort = _others(connection)
    rows = connection.execute(sa.select(cohorts)).all()
    names = {row.id: row.name for row in rows}
    inner = {row.name: _branch(row, names.get(row.parent_id), of_cohort[row.id]) for row in rows}
    living = connection.execute(sa.select(tenants).where(tenants.c.retired_ns.is_(None)))
    return QuotaTree(inner, {row.name: _branch(row, names.get(row.cohort_id), of_tenant[row.id]) for row in living})


def branch_of(connection: sa.Connection, kind: Kind, row: Row) -> Branch:
    """One node: a row of `tenants` or `cohorts` with its other limits."""
    above = row.cohort_id if kind == "tenant" else row.parent_id
    name = connection.execute(sa.select(cohorts.c.name).where(cohorts.c.id == above)).scalar_one_or_none()
    rows = connection.execute(sa.select(quota_limits).where(_OWNER[kind] == row.id))
    return _branch(row, name, {each.resource: Limit(each.nominal, each.borrowing, each.lending) for each in rows})


def write_branch(write: Write, kind: Kind, row_id: int, wanted: QuotaIn) -> dict[str, Any]:
    """Write a node's other limits; return the values of its own row's columns, which the caller writes.

    Raises UnknownCohort, BadOption. Call `check_tree` when the row is written.
    """
    above = None if wanted.cohort is None else _cohort_id(write.connection, wanted.cohort)
    write.execute(quota_limits.delete().where(_OWNER[kind] == row_id))
    for limit in _checked(wanted.others):
        owner = {"tenant_id": row_id} if kind == "tenant" else {"cohort_id": row_id}
        write.insert(quota_limits, **owner, **limit)
    own = {name: getattr(wanted, name) for name in COLUMNS} | {"weight_milli": wanted.weight_milli}
    return own | {"cohort_id" if kind == "tenant" else "parent_id": above}


def check_tree(connection: sa.Connection) -> None:
    """Raises QuotaTreeRefused with the numbers where the tree as it is written does not add up."""
    tree = read_tree(connection)
    found = fault(tree.cohorts, tree.tenants)
    if isinstance(found, Cycle):
        way = " below ".join((*found.names, found.names[0]))
        raise QuotaTreeRefused(
            f"cohort {found.names[0]} would be below itself: {way}",
            hint=f"gpupool quota set --cohort {found.names[0]} --parent none",
            node=found.names[0],
        )
    if isinstance(found, NoParent):
        raise UnknownCohort(f"no cohort {found.parent!r}, named by {found.node}", hint="gpupool quota tree")
    if found is not None:
        raise _too_much(found)


def _too_much(found: Promised) -> QuotaTreeRefused:
    total = sum(found.children.values())
    each = ", ".join(f"{name} {amount(found.resource, size)}" for name, size in found.children.items())
    return QuotaTreeRefused(
        f"cohort {found.cohort} is guaranteed {amount(found.resource, found.nominal)}, those in it"
        f" {amount(found.resource, total)}: {each}",
        hint=f"raise the cohort's part, or lower one of these: gpupool quota set --cohort {found.cohort} --help",
        node=found.cohort,
        resource=found.resource,
        nominal=found.nominal,
        promised=total,
    )


def amount(resource: Resource, size: int) -> str:
    """`12.00 H200`, `8192 MiB`, `2 node`."""
    kind, model = parts(resource)
    if kind == MEMORY:
        return format_mib(size)
    return f"{format_gpu(size)} {model or 'GPU'}" if kind == GPU else f"{size} {resource}"


def limits_out(quota: Quota) -> list[LimitIn]:
    """The limits of single models and whole cells, as the API shows them."""
    rows = quota.others
    return [LimitIn(resource=r, nominal=m.nominal or 0, borrowing=m.borrowing, lending=m.lending) for r, m in rows]


def _checked(wanted: list[LimitIn]) -> list[dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for limit in wanted:
        kind, model = parts(limit.resource)
        if kind not in (GPU, *CELLS) or limit.resource == GPU:
            raise BadOption(
                f"{limit.resource!r} is nothing that is counted apart",
                hint="a model is gpu:H200, a vendor gpu:AMD, whole nodes are node or node:H200, NVLink domains nvlink",
            )
        name = f"{kind}:{model.upper()}" if model else kind
        if name in found:
            raise BadOption(f"{name} is limited twice", hint="name each resource once")
        found[name] = limit.model_dump() | {"resource": name}
    return list(found.values())


def _cohort_id(connection: sa.Connection, name: str) -> int:
    found = connection.execute(sa.select(cohorts.c.id).where(cohorts.c.name == name)).scalar_one_or_none()
    if found is None:
        hint = f"gpupool quota tree shows them; gpupool quota set --cohort {name[:80]} makes it"
        raise UnknownCohort(f"no cohort {name[:80]!r}", hint=hint)
    return int(found)


def _others(connection: sa.Connection) -> tuple[dict[int, dict[str, Limit]], dict[int, dict[str, Limit]]]:
    """By tenant, and by cohort."""
    found: tuple[dict[int, dict[str, Limit]], ...] = (defaultdict(dict), defaultdict(dict))
    for row in connection.execute(sa.select(quota_limits)):
        key, at = (row.tenant_id, 0) if row.tenant_id is not None else (row.cohort_id, 1)
        found[at][key][row.resource] = Limit(row.nominal, row.borrowing, row.lending)
    return found[0], found[1]


def _branch(row: Row, parent: str | None, others: Mapping[str, Limit]) -> Branch:
    quota = Quota(**{name: getattr(row, name) for name in COLUMNS}, others=tuple(sorted(others.items())))
    return Branch(parent, quota, row.weight_milli)
