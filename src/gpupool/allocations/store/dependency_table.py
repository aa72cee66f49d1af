"""The table of dependencies: for which ends the jobs of a claim wait."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence

import sqlalchemy as sa

from gpupool.allocations.store.claim_table import claims
from gpupool.store.tables import BigId, metadata

_OPEN = sa.text("outcome IS NULL")
_UNMET = sa.text("outcome IS NULL OR outcome = 'doomed'")
_DOOMED = sa.text("outcome = 'doomed'")

dependencies = sa.Table(
    "dependencies",
    metadata,
    # One row per claim and awaited end; a gang has a claim for each role. The outcome is kept, so
    # that it outlives the job that was awaited.
    sa.Column("id", BigId, primary_key=True),
    sa.Column("claim_id", sa.ForeignKey(claims.c.id, ondelete="CASCADE"), nullable=False),
    sa.Column("kind", sa.String(8), nullable=False, comment="what is awaited: job, array, gang"),
    sa.Column(
        "target_id", sa.BigInteger, nullable=False, comment="its row in the table of its kind"
    ),
    sa.Column("target_index", sa.Integer, nullable=True, comment="of an array: that member alone"),
    sa.Column("target", sa.String(32), nullable=False, comment="its public id"),
    sa.Column("name", sa.String(80), nullable=False),
    sa.Column("condition", sa.String(4), nullable=False, comment="ok, any, fail"),
    sa.Column(
        "outcome",
        sa.String(8),
        nullable=True,
        comment="met, never, doomed: to be never once its jobs are ended; null: open",
    ),
    sa.Column("ending", sa.String(400), nullable=False, server_default="", comment="how it ended"),
    sa.Column("settled_ns", sa.BigInteger, nullable=True),
    sa.Index("ix_dependencies_claim_id", "claim_id"),
    sa.Index(
        "ix_dependencies_open",
        "kind",
        "target_id",
        sqlite_where=_OPEN,
        postgresql_where=_OPEN,
    ),
    sa.Index("ix_dependencies_doomed", "id", sqlite_where=_DOOMED, postgresql_where=_DOOMED),
    sa.Index("ix_dependencies_unmet", "claim_id", sqlite_where=_UNMET, postgresql_where=_UNMET),
)
#: Outcome of a dependency that can no longer be met, while the jobs of its claim still wait.
DOOMED = "doomed"
#: The conditions of the partial indexes, word for word.
IS_OPEN = dependencies.c.outcome.is_(None)
IS_DOOMED = dependencies.c.outcome == sa.literal_column(f"'{DOOMED}'")
IS_UNMET = sa.text("(dependencies.outcome IS NULL OR dependencies.outcome = 'doomed')")

#: Awaited ends that one sentence names.
_NAMED_ENDS = 3
_WAITS = (
    sa.select(
        dependencies.c.claim_id,
        dependencies.c.kind,
        dependencies.c.name,
        dependencies.c.condition,
    )
    .where(IS_UNMET)
    .order_by(dependencies.c.id)
)


def read_waits(
    connection: sa.Connection, claim_ids: Collection[int] | None = None
) -> dict[int, str]:
    """Read for what each claim with unmet dependencies waits, as a sentence.

    Args:
        connection: A transaction.
        claim_ids: Row ids of claims; None for all.
    """
    query = _WAITS
    if claim_ids is not None:
        query = query.where(dependencies.c.claim_id.in_(claim_ids))
    ends: dict[int, list[str]] = defaultdict(list)
    for row in connection.execute(query):
        ends[row.claim_id].append(f"{row.kind} {row.name} to end ({row.condition})")
    return {claim: describe_wait(names) for claim, names in ends.items()}


def describe_wait(ends: Sequence[str]) -> str:
    """Describe a wait for these ends in one sentence.

    >>> describe_wait(["job prep to end (ok)", "array sweep to end (any)"])
    'waits for job prep to end (ok) and array sweep to end (any)'
    """
    named = list(ends[:_NAMED_ENDS])
    if len(ends) > _NAMED_ENDS:
        named.append(f"{len(ends) - _NAMED_ENDS} more")
    last = named.pop()
    return f"waits for {', '.join(named)} and {last}" if named else f"waits for {last}"
