"""Cohorts: what tenants share a quota in. An admin's work; tenants see their own quota alone."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from gpupool.base.errors import StaleGeneration, StillInUse, UnknownCohort
from gpupool.base.ids import check_name
from gpupool.store.database import Store, WriteTransaction
from gpupool.tenancy.quotas import check_tree, limits_out, read_branch, write_branch
from gpupool.tenancy.tables import cohorts, quota_limits, tenants
from gpupool.wire.common import Page
from gpupool.wire.people import CohortOut, QuotaIn


class CohortService:
    """The inner nodes of the quota tree. Callers have the right to manage the pool."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def list(self, after: str | None, limit: int) -> Page[CohortOut]:
        query = sa.select(cohorts).order_by(cohorts.c.name).limit(limit + 1)
        with self._store.read() as connection:
            rows = connection.execute(query.where(cohorts.c.name > after) if after else query).all()
            items = [_cohort_out(connection, row) for row in rows[:limit]]
        return Page[CohortOut](items=items, next=items[-1].name if len(rows) > limit else None)

    def get(self, name: str) -> tuple[CohortOut, int]:
        """Return the cohort and its generation. Raises UnknownCohort."""
        with self._store.read() as connection:
            row = _find_cohort(connection, name)
            return _cohort_out(connection, row), int(row.generation)

    def put(
        self, name: str, quota: QuotaIn, generation: int | None = None
    ) -> tuple[CohortOut, int]:
        """Make the cohort or set its whole quota.

        Args:
            generation: What the caller read; None sets it whatever it is.

        Raises:
            StaleGeneration: The cohort was changed since.
            InvalidQuotaTree: The tree would not add up.
        """
        check_name(name, "cohort name")
        with self._store.write() as write:
            row = write.execute(sa.select(cohorts).where(cohorts.c.name == name)).one_or_none()
            now = int(row.generation) if row else 0
            if generation is not None and generation != now:
                raise StaleGeneration(
                    f"cohort {name} is at generation {now}, not {generation}",
                    hint="gpupool quota tree",
                    generation=now,
                )
            # A PUT makes it: an admin sets a tree without asking first which nodes exist.
            row_id = row.id if row else write.insert(cohorts, name=name, created_ns=write.now_ns)
            values = write_branch(write, "cohort", row_id, quota) | {"generation": now + 1}
            write.execute(cohorts.update().where(cohorts.c.id == row_id).values(**values))
            # The whole tree, after the write and before the commit: a raised error rolls everything
            # back.
            check_tree(write.connection)
            out = _cohort_out(write.connection, _find_cohort(write.connection, name))
            _announce_change(write, "cohort.changed", name, quota.model_dump())
            write.answer(200, out.model_dump(mode="json"), generation=now + 1)
        return out, now + 1

    def delete(self, name: str) -> None:
        """Take an empty cohort out. Raises StillInUse with the counts."""
        with self._store.write() as write:
            row = _find_cohort(write.connection, name)
            inside = _count_rows(
                write.connection,
                tenants,
                tenants.c.cohort_id == row.id,
                tenants.c.retired_ns.is_(None),
            )
            below = _count_rows(write.connection, cohorts, cohorts.c.parent_id == row.id)
            if inside or below:
                raise StillInUse(
                    f"cohort {name} still has {inside} tenants and {below} cohorts in it",
                    hint="move them out first: gpupool quota set TENANT --parent none",
                    tenants=inside,
                    cohorts=below,
                )
            # What is left are deleted tenants: they keep their rows for the books, but no parent.
            gone = tenants.c.cohort_id == row.id
            write.execute(tenants.update().where(gone).values(cohort_id=None))
            write.execute(quota_limits.delete().where(quota_limits.c.cohort_id == row.id))
            write.execute(cohorts.delete().where(cohorts.c.id == row.id))
            _announce_change(write, "cohort.deleted", name, {})
            write.answer(204, None)


def _announce_change(write: WriteTransaction, kind: str, name: str, data: dict[str, Any]) -> None:
    write.event(kind, name, data=data)
    write.announce("quota")
    write.touch_ledger()


def _find_cohort(connection: sa.Connection, name: str) -> sa.Row[Any]:
    row = connection.execute(sa.select(cohorts).where(cohorts.c.name == name)).one_or_none()
    if row is None:
        raise UnknownCohort(f"no cohort {name[:80]!r}", hint="gpupool quota tree")
    return row


def _count_rows(connection: sa.Connection, table: sa.Table, *where: sa.ColumnElement[bool]) -> int:
    return int(
        connection.execute(sa.select(sa.func.count()).select_from(table).where(*where)).scalar_one()
    )


def _cohort_out(connection: sa.Connection, row: sa.Row[Any]) -> CohortOut:
    branch = read_branch(connection, "cohort", row)
    quota = branch.quota
    return CohortOut(
        name=row.name,
        cohort=branch.parent,
        weight_milli=branch.weight_milli,
        nominal_milli=quota.nominal_milli,
        borrowing_milli=quota.borrowing_milli,
        nominal_memory_bytes=quota.nominal_memory_bytes,
        borrowing_memory_bytes=quota.borrowing_memory_bytes,
        lending_milli=quota.lending_milli,
        lending_memory_bytes=quota.lending_memory_bytes,
        others=limits_out(quota),
    )
