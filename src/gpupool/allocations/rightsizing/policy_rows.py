"""Reads advice policies and paused families, and finds the rule of a family."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import sqlalchemy as sa

from gpupool.allocations.store.advice_tables import advice_pauses, advice_policies
from gpupool.base.units import format_gpu, format_mib
from gpupool.rightsizing.advice import Confidence
from gpupool.rightsizing.families import FamilyKey
from gpupool.rightsizing.policy import AdviceBounds, AdviceMode, AdviceTarget, tighten_bounds
from gpupool.store.database import WriteTransaction
from gpupool.tenancy.tables import projects, tenants, users

#: Characters of a family's pattern that a row keeps: the width of its column.
PATTERN_CHARACTERS = 80


@dataclass(frozen=True)
class AdvicePolicy:
    """One policy. Without tenant, project and families it is the pool's."""

    row_id: int
    id: str
    tenant_id: int | None
    tenant: str | None
    project: str | None
    families: str | None
    by_tenant: bool
    bounds: AdviceBounds

    def covers(self, key: FamilyKey) -> bool:
        """Whether it is about a family."""
        return (
            self.tenant in (None, key.tenant)
            and self.project in (None, key.project)
            and (self.families is None or fnmatchcase(key.pattern, self.families))
        )

    @property
    def precision(self) -> tuple[bool, bool, int]:
        """How closely it names its families: the policy that names them closest holds."""
        return self.project is not None, self.tenant is not None, len(self.families or "")


@dataclass(frozen=True)
class AdviceRule:
    """What the policies of one family are together."""

    policy: str
    bounds: AdviceBounds


def read_policies(
    connection: sa.Connection, *conditions: sa.ColumnElement[bool]
) -> list[AdvicePolicy]:
    """Read policies, the pool's first, then by tenant, project and families."""
    query = (
        sa.select(advice_policies, tenants.c.name.label("tenant"), projects.c.name.label("project"))
        .outerjoin(tenants, tenants.c.id == advice_policies.c.tenant_id)
        .outerjoin(projects, projects.c.id == advice_policies.c.project_id)
        .where(*conditions)
        .order_by(advice_policies.c.id)
    )
    found = [_build_policy(row) for row in connection.execute(query)]
    return sorted(found, key=lambda one: (one.tenant or "", one.project or "", one.families or ""))


def _build_policy(row: Any) -> AdvicePolicy:
    bounds = AdviceBounds(
        AdviceMode(row.mode),
        AdviceTarget(row.target),
        row.least_milli,
        row.most_cut_percent,
        row.least_bytes,
        Confidence(row.confidence),
    )
    return AdvicePolicy(
        row_id=row.id,
        id=row.public_id,
        tenant_id=row.tenant_id,
        tenant=row.tenant,
        project=row.project,
        families=row.families,
        by_tenant=row.by_tenant,
        bounds=bounds,
    )


def find_base(policies: Iterable[AdvicePolicy], key: FamilyKey) -> AdvicePolicy | None:
    """Find the policy of the pool's admins that names a family closest; None: there is none."""
    mine = [one for one in policies if not one.by_tenant and one.covers(key)]
    return max(mine, key=lambda one: one.precision, default=None)


def find_rule(policies: Sequence[AdvicePolicy], key: FamilyKey) -> AdviceRule | None:
    """Find the rule of a family; None: its request is left.

    The admins' policy that names it closest holds, tightened by all policies of its tenant.
    """
    base = find_base(policies, key)
    if base is None:
        return None
    parts = [base.bounds]
    for one in policies:
        if one.by_tenant and one.covers(key):
            parts.append(one.bounds)
    return AdviceRule(base.id, tighten_bounds(parts))


def describe_scope(tenant: str | None, project: str | None, families: str | None) -> str:
    """Describe for people which families a policy is about."""
    parts = [f"tenant {tenant}" if tenant is not None else "the pool"]
    if project is not None:
        parts.append(f"project {project}")
    if families is not None:
        parts.append(f"families {families}")
    return ", ".join(parts)


def describe_bounds(bounds: AdviceBounds) -> str:
    """Describe bounds in one line."""
    return (
        f"{bounds.mode} to {bounds.target} jobs, at least {format_gpu(bounds.least_milli)} GPU and "
        f"{format_mib(bounds.least_bytes)}, a cut of {bounds.most_cut_percent} % at most, "
        f"confidence {bounds.confidence}"
    )


def match_pause(owner: tuple[int, int, int], pattern: str) -> sa.ColumnElement[bool]:
    """Build the condition for one family, by the row ids of its tenant, project and user."""
    a = advice_pauses.c
    tenant_id, project_id, user_id = owner
    return sa.and_(
        a.tenant_id == tenant_id,
        a.project_id == project_id,
        a.user_id == user_id,
        a.pattern == pattern[:PATTERN_CHARACTERS],
    )


def read_paused(connection: sa.Connection, now_ns: int) -> dict[FamilyKey, int]:
    """Read the families that are left alone now, and until when."""
    a = advice_pauses.c
    query = (
        sa.select(
            tenants.c.name.label("tenant"),
            projects.c.name.label("project"),
            users.c.name.label("user"),
            a.pattern,
            a.until_ns,
        )
        .join(tenants, tenants.c.id == a.tenant_id)
        .join(projects, projects.c.id == a.project_id)
        .join(users, users.c.id == a.user_id)
        .where(a.until_ns > now_ns)
    )
    found: dict[FamilyKey, int] = {}
    for row in connection.execute(query):
        key = FamilyKey(row.tenant, row.project, row.user, row.pattern)
        found[key] = row.until_ns
    return found


@dataclass(frozen=True)
class PolicyStanding:
    """All policies, and the families that are left alone now with the end of that."""

    policies: Sequence[AdvicePolicy]
    paused: Mapping[FamilyKey, int]

    def find_rule(self, key: FamilyKey) -> AdviceRule | None:
        """Find the rule of a family; None: its request is left, for now or always."""
        return None if shorten_key(key) in self.paused else find_rule(self.policies, key)


def read_standing(connection: sa.Connection, now_ns: int) -> PolicyStanding:
    """Read what decides about a family besides its use."""
    return PolicyStanding(read_policies(connection), read_paused(connection, now_ns))


def shorten_key(key: FamilyKey) -> FamilyKey:
    """Return the key as rows of pauses have it."""
    return FamilyKey(key.tenant, key.project, key.user, key.pattern[:PATTERN_CHARACTERS])


def pause_family(
    write: WriteTransaction, owner: tuple[int, int, int], pattern: str, job: str, until_ns: int
) -> bool:
    """Leave a family alone until an instant. Idempotent; False: it is already, for as long."""
    mine = match_pause(owner, pattern)
    known = write.execute(sa.select(advice_pauses.c.until_ns).where(mine)).scalar_one_or_none()
    if known is not None and known >= until_ns:
        return False
    values = {"job": job, "until_ns": until_ns}
    if known is not None:
        write.execute(advice_pauses.update().where(mine).values(**values))
        return True
    tenant_id, project_id, user_id = owner
    write.insert(
        advice_pauses,
        tenant_id=tenant_id,
        project_id=project_id,
        user_id=user_id,
        pattern=pattern[:PATTERN_CHARACTERS],
        **values,
    )
    return True


def forget_pauses(write: WriteTransaction) -> None:
    """Delete pauses that are over."""
    write.execute(advice_pauses.delete().where(advice_pauses.c.until_ns <= write.now_ns))
