"""Tenants, their quotas and their projects.

A deleted tenant keeps its row for the books; creating its name again brings it back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import sqlalchemy as sa

from gpupool.base.errors import (
    NameTaken,
    StaleGeneration,
    UnknownProject,
    UnknownTenant,
    WrongState,
)
from gpupool.base.ids import check_name
from gpupool.model.quota import Quota, QuotaBranch, ResourceAmount
from gpupool.model.tenant import DEFAULT_PROJECT, DEFAULT_TENANT, Principal
from gpupool.store.database import Store, WriteTransaction
from gpupool.tenancy.access import match_visible
from gpupool.tenancy.ending.tenant_use import TenantUse, refuse_while_used
from gpupool.tenancy.quotas import check_tree, limits_out, read_branch, read_tree, write_branch
from gpupool.tenancy.tables import projects, tenants, users
from gpupool.wire.common import Page
from gpupool.wire.people import QuotaIn, QuotaOut, TenantOut

Row = sa.Row[Any]
#: (connection, tenant_id or None, user_id or None) -> how many jobs are pending, starting or
#: running.
LiveJobs = Callable[[sa.Connection, int | None, int | None], int]

#: A tenant without limits: what `tenant create` makes unless a quota is given.
_UNLIMITED = QuotaIn(
    nominal_milli=None, borrowing_milli=None, nominal_memory_bytes=None, borrowing_memory_bytes=None
)


@dataclass(frozen=True)
class TenantRef:
    """A tenant as the other rooms need it: its key, its name, what it may hold and holds now."""

    id: int
    name: str
    quota: Quota
    held: ResourceAmount
    generation: int


class TenantService:
    """Tenants as their admins see them."""

    def __init__(self, store: Store, live_jobs: LiveJobs) -> None:
        self._store = store
        self._live_jobs = live_jobs

    def list(self, caller: Principal, after: str | None, limit: int) -> Page[TenantOut]:
        query = (
            _select_living()
            .where(match_visible(caller, tenants.c.id))
            .order_by(tenants.c.name)
            .limit(limit + 1)
        )
        with self._store.read() as connection:
            rows = connection.execute(query.where(tenants.c.name > after) if after else query).all()
            # One row more than asked for was read: it says whether there is a next page.
            items = _tenants_out(connection, rows[:limit])
        return Page[TenantOut](items=items, next=items[-1].name if len(rows) > limit else None)

    def get(self, caller: Principal, name: str) -> TenantOut:
        with self._store.read() as connection:
            return _tenants_out(connection, [find_tenant(connection, caller, name)])[0]

    def create(self, caller: Principal, name: str, quota: QuotaIn | None) -> TenantOut:
        check_name(name, "tenant name")
        with self._store.write() as write:
            tenant_id = insert_tenant(write, name, quota or _UNLIMITED)
            out = _tenants_out(write.connection, [find_tenant(write.connection, caller, name)])[0]
            write.event(
                "tenant.created",
                name,
                tenant_id=tenant_id,
                data={"quota": (quota or _UNLIMITED).model_dump()},
            )
            write.announce("quota")
            write.touch_ledger()
            write.answer(201, out.model_dump(mode="json"))
        return out

    def delete(self, caller: Principal, name: str) -> None:
        """Take a tenant out of the pool; the books keep it. Raises StillInUse with the counts."""
        with self._store.write() as write:
            row = find_tenant(write.connection, caller, name)
            # Unix users that are not known yet join it at their first call.
            if row.name == DEFAULT_TENANT:
                raise WrongState(
                    "the default tenant takes callers that are not users yet and cannot be deleted",
                    hint=f"give it nothing instead: gpupool quota set {name} --gpus 0",
                )
            jobs = self._live_jobs(write.connection, row.id, None)
            people = _count_users(write.connection, [row.id]).get(row.id, 0)
            refuse_while_used(write.connection, row, TenantUse(jobs, people), write.now_ns)
            changes = {"retired_ns": write.now_ns, "generation": row.generation + 1}
            write.execute(tenants.update().where(tenants.c.id == row.id).values(**changes))
            write.event("tenant.deleted", name, tenant_id=row.id)
            write.announce("quota")
            write.touch_ledger()
            write.answer(204, None)

    def get_quota(self, caller: Principal, name: str) -> tuple[QuotaOut, int]:
        """Return the quota and its generation."""
        with self._store.read() as connection:
            row = find_tenant(connection, caller, name)
            return quota_out(connection, row), int(row.generation)

    def put_quota(
        self, caller: Principal, name: str, quota: QuotaIn, generation: int | None = None
    ) -> tuple[QuotaOut, int]:
        """Set the whole quota; return its new generation.

        Below what is held now is allowed: nothing is taken away, nothing more is granted.

        Args:
            generation: What the caller read; None sets it whatever it is.

        Raises:
            StaleGeneration: The tenant was changed since.
            InvalidQuotaTree: The tree would not add up.
        """
        with self._store.write() as write:
            row = find_tenant(write.connection, caller, name)
            # Of two admins that edit at once the second must see the change of the first.
            if generation is not None and generation != row.generation:
                raise StaleGeneration(
                    f"tenant {name} is at generation {row.generation}, not {generation}",
                    hint=f"look again: gpupool quota show {name}",
                    generation=row.generation,
                )
            changes = write_branch(write, "tenant", row.id, quota) | {
                "generation": row.generation + 1
            }
            write.execute(tenants.update().where(tenants.c.id == row.id).values(**changes))
            check_tree(write.connection)
            out = quota_out(write.connection, find_tenant(write.connection, caller, name))
            write.event("quota.changed", name, tenant_id=row.id, data=quota.model_dump())
            write.announce("quota")
            write.touch_ledger()
            write.answer(200, out.model_dump(mode="json"), generation=int(row.generation) + 1)
        return out, int(row.generation) + 1

    def create_project(self, caller: Principal, tenant: str, name: str) -> TenantOut:
        check_name(name, "project name")
        with self._store.write() as write:
            row = find_tenant(write.connection, caller, tenant)
            if _project_id(write.connection, row.id, name) is not None:
                raise NameTaken(
                    f"tenant {tenant} already has a project {name!r}",
                    hint=f"gpupool tenant show {tenant}",
                )
            ensure_project(write, row.id, name)
            out = _tenants_out(write.connection, [row])[0]
            write.answer(201, out.model_dump(mode="json"))
        return out


def find_tenant(
    connection: sa.Connection, caller: Principal, name: str, *, with_deleted: bool = False
) -> Row:
    """Return the living tenant of that name in the caller's scope. Raises UnknownTenant.

    `with_deleted` finds a deleted one, too: the books keep it, and its bills.
    """
    query = sa.select(tenants) if with_deleted else _select_living()
    query = query.where(tenants.c.name == name, match_visible(caller, tenants.c.id))
    row = connection.execute(query).one_or_none()
    if row is None:
        # Another tenant's name and one that does not exist are answered alike.
        raise UnknownTenant(
            f"no tenant {name[:80]!r}",
            hint="gpupool tenant list  shows them; an admin adds one: gpupool tenant create NAME",
        )
    return row


def tenant_ref(row: Row) -> TenantRef:
    return TenantRef(
        row.id,
        row.name,
        Quota(
            row.nominal_milli,
            row.borrowing_milli,
            row.nominal_memory_bytes,
            row.borrowing_memory_bytes,
        ),
        ResourceAmount(row.held_milli, row.held_memory_bytes),
        row.generation,
    )


def quota_out(connection: sa.Connection, row: Row, branch: QuotaBranch | None = None) -> QuotaOut:
    ref = tenant_ref(row)
    branch = branch or read_branch(connection, "tenant", row)
    return QuotaOut(
        cohort=branch.parent,
        weight_milli=branch.weight_milli,
        lending_milli=branch.quota.lending_milli,
        lending_memory_bytes=branch.quota.lending_memory_bytes,
        others=limits_out(branch.quota),
        tenant=ref.name,
        nominal_milli=ref.quota.nominal_milli,
        borrowing_milli=ref.quota.borrowing_milli,
        nominal_memory_bytes=ref.quota.nominal_memory_bytes,
        borrowing_memory_bytes=ref.quota.borrowing_memory_bytes,
        held_milli=ref.held.gpu_milli,
        held_memory_bytes=ref.held.memory_bytes,
        maximum_milli=ref.quota.maximum_milli,
        maximum_memory_bytes=ref.quota.maximum_memory_bytes,
    )


def insert_tenant(write: WriteTransaction, name: str, quota: QuotaIn = _UNLIMITED) -> int:
    """Add the tenant with its default project, or bring a deleted one back; return its id.

    Raises NameTaken.
    """
    old = write.execute(sa.select(tenants).where(tenants.c.name == name)).one_or_none()
    if old is not None and old.retired_ns is None:
        raise NameTaken(f"there is already a tenant {name!r}", hint="gpupool tenant list")
    tenant_id = (
        write.insert(tenants, name=name, created_ns=write.now_ns) if old is None else int(old.id)
    )
    changes = write_branch(write, "tenant", tenant_id, quota) | {"retired_ns": None}
    generation = {} if old is None else {"generation": old.generation + 1}
    write.execute(tenants.update().where(tenants.c.id == tenant_id).values(**changes, **generation))
    check_tree(write.connection)
    ensure_project(write, tenant_id, DEFAULT_PROJECT)
    return tenant_id


def ensure_project(write: WriteTransaction, tenant_id: int, name: str) -> int:
    """Return the id of the tenant's project of that name, made if there is none. Raises BadName."""
    found = _project_id(write.connection, tenant_id, name)
    if found is not None:
        return found
    check_name(name, "project name")
    return write.insert(projects, tenant_id=tenant_id, name=name, created_ns=write.now_ns)


def find_project(connection: sa.Connection, tenant_id: int, name: str) -> int:
    """Return the id of the tenant's project.

    Raises:
        UnknownProject: There is none. A typing error must not become a line of the books.
    """
    found = _project_id(connection, tenant_id, name)
    if found is not None:
        return found
    query = (
        sa.select(projects.c.name)
        .where(projects.c.tenant_id == tenant_id)
        .order_by(projects.c.name)
    )
    known = list(connection.execute(query).scalars())
    near = get_close_matches(name, known, 1)
    raise UnknownProject(
        f"no project {name[:80]!r} in this tenant; it has {', '.join(known[:20])}",
        hint=(f"did you mean {near[0]}?  " if near else "")
        + f"a tenant-admin adds one: gpupool project create {name}",
        projects=known[:20],
    )


def _project_id(connection: sa.Connection, tenant_id: int, name: str) -> int | None:
    found = sa.select(projects.c.id).where(
        projects.c.tenant_id == tenant_id, projects.c.name == name
    )
    return connection.execute(found).scalar_one_or_none()


def _select_living() -> sa.Select[Any]:
    return sa.select(tenants).where(tenants.c.retired_ns.is_(None))


def _count_users(connection: sa.Connection, tenant_ids: Sequence[int]) -> dict[int, int]:
    counts = sa.select(users.c.tenant_id, sa.func.count()).group_by(users.c.tenant_id)
    living = counts.where(users.c.tenant_id.in_(tenant_ids), users.c.retired_ns.is_(None))
    return {row[0]: row[1] for row in connection.execute(living)}


def _tenants_out(connection: sa.Connection, rows: Sequence[Row]) -> list[TenantOut]:
    ids = [row.id for row in rows]
    # One reading of the tree for a page, not one for each tenant.
    branches = read_tree(connection).tenants
    people = _count_users(connection, ids)
    names: dict[int, list[str]] = {}
    found = sa.select(projects).where(projects.c.tenant_id.in_(ids)).order_by(projects.c.name)
    for project in connection.execute(found):
        names.setdefault(project.tenant_id, []).append(project.name)
    return [
        TenantOut(
            name=row.name,
            quota=quota_out(connection, row, branches.get(row.name)),
            users=people.get(row.id, 0),
            projects=names.get(row.id, []),
            created_ns=row.created_ns,
        )
        for row in rows
    ]
