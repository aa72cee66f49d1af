"""Idle policies as admins of the pool and of tenants set them. Thread-safe."""

from __future__ import annotations

from typing import Any, Final

import sqlalchemy as sa

from gpupool.allocations.idleness.ladder import IdleAct, IdleLadder, IdleStep
from gpupool.allocations.idleness.policy import (
    IdleMode,
    IdlePolicy,
    JobFacts,
    JobKind,
    check_ladder,
    check_tightening,
    find_base,
)
from gpupool.allocations.idleness.tables import idle_policies
from gpupool.base.errors import BadOption, NoPermission, StaleGeneration, UnknownIdlePolicy
from gpupool.base.ids import new_id
from gpupool.model.tenant import Permission, Principal
from gpupool.store.database import Store, WriteTransaction
from gpupool.tenancy.ending.owners import find_ended_tenants
from gpupool.tenancy.tables import projects, tenants
from gpupool.tenancy.tenants import find_project, find_tenant
from gpupool.wire.idleness.policies import IdlePolicyIn, IdlePolicyOut, IdleStepIn

#: Woken when policies change.
TOPIC: Final = "idle-policies"
#: Policies of one pool: each look compares every running job with each.
MOST_POLICIES: Final = 1000
#: A project that no job has: a policy of a tenant is compared with the pool's for all its projects.
_ANY_PROJECT: Final = -1


class IdlePolicyService:
    """Sets, lists and deletes policies."""

    def __init__(self, store: Store) -> None:
        self._store = store
        store.commit_steps["idle policies"] = _delete_of_ended_tenants

    def list_all(self, caller: Principal) -> list[IdlePolicyOut]:
        """List the policies that the caller may see: the pool's, and those of the own tenant."""
        with self._store.read() as connection:
            return [describe_policy(one) for one in read_policies(connection, _match(caller))]

    def find(self, caller: Principal, policy_id: str) -> IdlePolicyOut:
        """Find one policy. Raises UnknownIdlePolicy."""
        with self._store.read() as connection:
            return describe_policy(_find(connection, caller, policy_id))

    def put(
        self, caller: Principal, body: IdlePolicyIn, generation: int | None = None
    ) -> IdlePolicyOut:
        """Set the policy of a pool, tenant, project or kind of job; the one that it has is replaced.

        Args:
            caller: An admin of the pool or of a tenant.
            body: The whole policy.
            generation: Of what the caller read; 0: there is none; None: whatever there is.

        Raises:
            StaleGeneration: it was changed since.
            NoPermission: it is of the pool or of another tenant, and the caller no pool admin.
            IdleLadderContradicts: its steps contradict each other.
            LooserIdlePolicy: an admin of a tenant would loosen the pool's policy.
            UnknownTenant, UnknownProject: the owner is not known.
        """
        by_tenant = not caller.has_permission(Permission.MANAGE_POOL)
        if by_tenant and body.tenant is None:
            body = body.model_copy(update={"tenant": caller.tenant})
        with self._store.write() as write:
            values = _build_values(write, caller, body, by_tenant=by_tenant)
            row_id = _write_policy(write, values, generation)
            policy = read_policies(write.connection, idle_policies.c.id == row_id)[0]
            check_ladder(policy.ladder)
            if by_tenant:
                _check_against_pool(write.connection, policy)
            data = {"scope": describe_scope(policy), "mode": str(policy.mode)}
            write.event("idle.policy-set", policy.id, tenant_id=policy.tenant_id, data=data)
            write.announce(TOPIC)
            out = describe_policy(policy)
            write.answer(200, out.model_dump(mode="json"))
        return out

    def delete(self, caller: Principal, policy_id: str) -> None:
        """Delete a policy; what it took is given back. Raises UnknownIdlePolicy, NoPermission."""
        with self._store.write() as write:
            policy = _find(write.connection, caller, policy_id)
            if not policy.by_tenant and not caller.has_permission(Permission.MANAGE_POOL):
                raise NoPermission(
                    f"idle policy {policy.id} was set by an admin of the pool",
                    hint="a tenant's admin may only tighten it:  gpupool idle policy set --help",
                )
            _delete_policy(write, policy)
            write.answer(204, None)


def _delete_policy(write: WriteTransaction, policy: IdlePolicy) -> None:
    write.execute(idle_policies.delete().where(idle_policies.c.id == policy.row_id))
    data = {"scope": describe_scope(policy)}
    write.event("idle.policy-removed", policy.id, tenant_id=policy.tenant_id, data=data)
    write.announce(TOPIC)


def _delete_of_ended_tenants(write: WriteTransaction) -> None:
    """Delete the policies of tenants that end in this transaction. Idempotent."""
    ended = find_ended_tenants(write)
    if not ended:
        return
    for policy in read_policies(write.connection, idle_policies.c.tenant_id.in_(ended)):
        _delete_policy(write, policy)


def read_policies(
    connection: sa.Connection, *conditions: sa.ColumnElement[bool]
) -> list[IdlePolicy]:
    """Read policies, the pool's first, then by tenant, project and kind."""
    query = (
        sa.select(idle_policies, tenants.c.name.label("tenant"), projects.c.name.label("project"))
        .outerjoin(tenants, tenants.c.id == idle_policies.c.tenant_id)
        .outerjoin(projects, projects.c.id == idle_policies.c.project_id)
        .where(*conditions)
        .order_by(idle_policies.c.id)
    )
    found = [_build_policy(row) for row in connection.execute(query)]
    return sorted(found, key=lambda one: (one.tenant or "", one.project or "", one.kind or ""))


def describe_scope(policy: IdlePolicy) -> str:
    """Describe for people which jobs a policy is about."""
    parts = [f"tenant {policy.tenant}" if policy.tenant is not None else "the pool"]
    if policy.project is not None:
        parts.append(f"project {policy.project}")
    if policy.kind is not None:
        parts.append(f"{policy.kind}s")
    return ", ".join(parts)


def describe_policy(policy: IdlePolicy) -> IdlePolicyOut:
    """Describe a policy as it goes over the network."""
    return IdlePolicyOut(
        id=policy.id,
        tenant=policy.tenant,
        project=policy.project,
        kind=None if policy.kind is None else policy.kind.value,
        by_tenant=policy.by_tenant,
        mode=policy.mode.value,
        window_seconds=policy.ladder.window_seconds,
        steps=describe_steps(policy.ladder),
        keep_seconds=policy.keep_seconds,
        keeps_per_day=policy.keeps_per_day,
        scope=describe_scope(policy),
        generation=policy.generation,
    )


def describe_steps(ladder: IdleLadder) -> list[IdleStepIn]:
    """Describe the steps of a ladder as they go over the network."""
    return [
        IdleStepIn(act=step.act.value, after_seconds=step.after_seconds, gpu_milli=step.gpu_milli)
        for step in ladder.steps
    ]


def _build_policy(row: Any) -> IdlePolicy:
    steps = tuple(IdleStep(IdleAct(act), after, milli) for act, after, milli in row.steps)
    return IdlePolicy(
        row_id=row.id,
        id=row.public_id,
        tenant_id=row.tenant_id,
        project_id=row.project_id,
        kind=None if row.kind is None else JobKind(row.kind),
        by_tenant=row.by_tenant,
        mode=IdleMode(row.mode),
        ladder=IdleLadder(row.window_seconds, steps),
        keep_seconds=row.keep_seconds,
        keeps_per_day=row.keeps_per_day,
        tenant=row.tenant,
        project=row.project,
        generation=row.generation,
    )


def _match(caller: Principal) -> sa.ColumnElement[bool]:
    if caller.sees_all:
        return sa.true()
    mine = idle_policies.c.tenant_id
    return sa.or_(mine.is_(None), mine == caller.tenant_id)


def _find(connection: sa.Connection, caller: Principal, policy_id: str) -> IdlePolicy:
    found = read_policies(connection, idle_policies.c.public_id == policy_id, _match(caller))
    if not found:
        raise UnknownIdlePolicy(
            f"no idle policy {policy_id[:63]!r}", hint="gpupool idle policy list"
        )
    return found[0]


def _build_values(
    write: WriteTransaction, caller: Principal, body: IdlePolicyIn, *, by_tenant: bool
) -> dict[str, Any]:
    tenant_id = None
    project_id = None
    if body.tenant is not None:
        tenant_id = find_tenant(write.connection, caller, body.tenant).id
    if body.project is not None:
        if tenant_id is None:
            raise BadOption(f"project {body.project} of which tenant?", hint="add --tenant TENANT")
        project_id = find_project(write.connection, tenant_id, body.project)
    return {
        "tenant_id": tenant_id,
        "project_id": project_id,
        "kind": body.kind,
        "by_tenant": by_tenant,
        "mode": body.mode,
        "window_seconds": body.window_seconds,
        "steps": [[step.act, step.after_seconds, step.gpu_milli] for step in body.steps],
        "keep_seconds": body.keep_seconds,
        "keeps_per_day": body.keeps_per_day,
        "changed_by": caller.user[:63],
        "changed_ns": write.now_ns,
    }


def _write_policy(write: WriteTransaction, values: dict[str, Any], generation: int | None) -> int:
    """Write a policy in place of the one of the same jobs; return its row id."""
    same = [
        idle_policies.c[name].is_(None)
        if values[name] is None
        else idle_policies.c[name] == values[name]
        for name in ("tenant_id", "project_id", "kind", "by_tenant")
    ]
    known = write.execute(sa.select(idle_policies).where(*same)).one_or_none()
    before = 0 if known is None else known.generation
    if generation is not None and generation != before:
        raise StaleGeneration(
            f"the idle policy is at generation {before}, not {generation}",
            hint="look again: gpupool idle policy list",
            generation=before,
        )
    if known is not None:
        mine = idle_policies.c.id == known.id
        more = {"generation": known.generation + 1}
        write.execute(idle_policies.update().where(mine).values(**values, **more))
        return int(known.id)
    count = write.execute(sa.select(sa.func.count()).select_from(idle_policies)).scalar_one()
    if count >= MOST_POLICIES:
        raise BadOption(
            f"the pool has {count} idle policies, the most is {MOST_POLICIES}",
            hint="gpupool idle policy remove ID",
        )
    return write.insert(idle_policies, **values, public_id=new_id("i"), generation=1)


def _check_against_pool(connection: sa.Connection, policy: IdlePolicy) -> None:
    """Compare a tenant's policy with the pool's, for each kind of job that it is about."""
    assert policy.tenant_id is not None
    project_id = _ANY_PROJECT if policy.project_id is None else policy.project_id
    every = read_policies(connection)
    for kind in JobKind if policy.kind is None else (policy.kind,):
        facts = JobFacts(policy.tenant_id, project_id, kind)
        check_tightening(policy, find_base(every, facts))
