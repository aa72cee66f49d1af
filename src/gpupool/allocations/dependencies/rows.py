"""Writes the dependencies of a claim, and reads them for answers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from gpupool.allocations.cache.start_waits import StartWait
from gpupool.allocations.dependencies.standings import DependencyTarget, read_standing
from gpupool.allocations.store.dependency_table import DOOMED, dependencies, describe_wait
from gpupool.base.errors import DependencyNeverMet
from gpupool.model.chains.dependency import (
    DependencyCondition,
    DependencyOutcome,
    Standing,
    judge_dependency,
)
from gpupool.store.database import WriteTransaction
from gpupool.wire.chains.dependencies import DependencyOut

#: Topic of a transaction that writes dependencies.
NEW_DEPENDENCIES = "new-dependencies"


@dataclass(frozen=True)
class Dependency:
    """An end that a submission awaits."""

    target: DependencyTarget
    public_id: str
    name: str
    condition: DependencyCondition

    @property
    def sentence(self) -> str:
        """Name the awaited end for people."""
        return f"{self.target.kind} {self.name} to end ({self.condition})"


def read_wait(connection: sa.Connection, awaited: Sequence[Dependency]) -> StartWait | None:
    """Read for which of the ends a submission would wait; None: for none.

    Raises:
        DependencyNeverMet: One of them can no longer come.
    """
    ends = list[str]()
    for one in awaited:
        standing = read_standing(connection, one.target)
        outcome = _judge(one, standing)
        if outcome is None:
            ends.append(one.sentence)
    return StartWait(describe_wait(ends)) if ends else None


def insert_dependencies(
    write: WriteTransaction, claim_id: int, awaited: Sequence[Dependency]
) -> None:
    """Write the dependencies of a claim, decided as far as they can be.

    Raises:
        DependencyNeverMet: One of them can no longer be met; the caller rolls back.
    """
    rows = list[dict[str, Any]]()
    for one in awaited:
        standing = read_standing(write.connection, one.target)
        outcome = _judge(one, standing)
        rows.append(
            {
                "claim_id": claim_id,
                "kind": one.target.kind,
                "target_id": one.target.key,
                "target_index": one.target.index,
                "target": one.public_id,
                "name": one.name,
                "condition": one.condition,
                "outcome": outcome,
                "ending": standing.text[:400] if outcome else "",
                "settled_ns": write.now_ns if outcome else None,
            }
        )
    if rows:
        write.execute(dependencies.insert(), rows)
        write.announce(NEW_DEPENDENCIES)


def _judge(one: Dependency, standing: Standing) -> DependencyOutcome | None:
    outcome = judge_dependency(one.condition, standing)
    if outcome is DependencyOutcome.NEVER:
        raise DependencyNeverMet(
            f"{one.target.kind} {one.name} ended {standing.text}, and this submission waits for "
            f"{one.name}:{one.condition}",
            hint=f"gpupool show {one.name}  tells how it ended; --after {one.name}:any waits for "
            "any end",
            job=one.public_id,
        )
    return outcome


def read_dependencies(
    connection: sa.Connection, claim_ids: Collection[int]
) -> dict[int, list[DependencyOut]]:
    """Read the dependencies of claims, by row id; claims without any are left out."""
    found: dict[int, list[DependencyOut]] = defaultdict(list)
    query = sa.select(dependencies).where(dependencies.c.claim_id.in_(claim_ids))
    for row in connection.execute(query.order_by(dependencies.c.id)):
        found[row.claim_id].append(
            DependencyOut(
                job=row.name,
                id=row.target,
                kind=row.kind,
                condition=row.condition,
                outcome=DependencyOutcome.NEVER if row.outcome == DOOMED else row.outcome,
                ending=row.ending,
                settled_ns=row.settled_ns,
            )
        )
    return found
