"""Advice policies as admins of the pool and of tenants set them. Thread-safe."""

from __future__ import annotations

from typing import Any, Final

import sqlalchemy as sa

from gpupool.allocations.rightsizing.policy_rows import (
    AdvicePolicy,
    describe_bounds,
    describe_scope,
    find_base,
    read_policies,
)
from gpupool.allocations.rightsizing.reading import read_families
from gpupool.allocations.store.advice_tables import advice_pauses, advice_policies
from gpupool.allocations.store.tables import jobs
from gpupool.base.errors import BadOption, NoPermission
from gpupool.base.errors.people import (
    AdvicePolicyMissing,
    LooserAdvicePolicy,
    UnknownAdvicePolicy,
)
from gpupool.base.ids import new_id
from gpupool.model.tenant import Permission, Principal
from gpupool.rightsizing.advice import Confidence
from gpupool.rightsizing.families import FamilyKey
from gpupool.rightsizing.policy import AdviceBounds, AdviceMode, AdviceTarget, list_loosened
from gpupool.rightsizing.policy_backtest import PolicyResult, run_policy_backtest
from gpupool.store.database import Store, WriteTransaction
from gpupool.tenancy.ending.owners import find_ended_owners
from gpupool.tenancy.tenants import find_project, find_tenant
from gpupool.wire.rightsizing.policies import (
    AdvicePolicyIn,
    AdvicePolicyOut,
    AdvicePolicyTrialOut,
)

#: Woken when policies change.
TOPIC: Final = "advice-policies"
#: Policies of one pool: each look compares every family with each.
MOST_POLICIES: Final = 1000


class AdvicePolicyService:
    """Sets, lists, tries and deletes policies."""

    def __init__(self, store: Store) -> None:
        self._store = store
        store.commit_steps["advice policies"] = _delete_of_ended_owners

    def list_all(self, caller: Principal) -> list[AdvicePolicyOut]:
        """List the policies that the caller may see: the pool's, and those of the own tenant."""
        with self._store.read() as connection:
            return [describe_policy(one) for one in read_policies(connection, _match(caller))]

    def find(self, caller: Principal, policy_id: str) -> AdvicePolicyOut:
        """Find one policy. Raises UnknownAdvicePolicy."""
        with self._store.read() as connection:
            return describe_policy(_find(connection, caller, policy_id))

    def put(self, caller: Principal, body: AdvicePolicyIn) -> AdvicePolicyOut:
        """Set the policy of the pool, a tenant, project or kind of family, in place of the last one.

        Raises:
            NoPermission: it is of the pool or of another tenant, and the caller no pool admin.
            AdvicePolicyMissing, LooserAdvicePolicy: a tenant's admin would allow more than the pool.
            UnknownTenant, UnknownProject: the owner is not known.
        """
        body, by_tenant = _choose_owner(caller, body)
        with self._store.write() as write:
            values = _build_values(write, caller, body, by_tenant=by_tenant)
            row_id = _write_policy(write, values)
            policy = read_policies(write.connection, advice_policies.c.id == row_id)[0]
            if by_tenant:
                _check_against_pool(write.connection, policy)
            data = {
                "scope": _describe_policy_scope(policy),
                "bounds": describe_bounds(policy.bounds),
            }
            write.event("advice.policy-set", policy.id, tenant_id=policy.tenant_id, data=data)
            write.announce(TOPIC)
            out = describe_policy(policy)
            write.answer(200, out.model_dump(mode="json"))
        return out

    def delete(self, caller: Principal, policy_id: str) -> None:
        """Delete a policy; what it changed stays. Raises UnknownAdvicePolicy, NoPermission."""
        with self._store.write() as write:
            policy = _find(write.connection, caller, policy_id)
            if not policy.by_tenant and not caller.has_permission(Permission.MANAGE_POOL):
                raise NoPermission(
                    f"advice policy {policy.id} was set by an admin of the pool",
                    hint="a tenant's admin may only tighten it: gpupool advise policy-set --help",
                )
            _delete_policy(write, policy)
            write.answer(204, None)

    def try_policy(
        self, caller: Principal, body: AdvicePolicyIn, since_ns: int
    ) -> AdvicePolicyTrialOut:
        """Say what a policy would have done with the measured jobs of a time. Changes nothing.

        Raises:
            BadOption: the time begins in the future.
            UnknownTenant, UnknownProject: the owner is not known.
        """
        now_ns = self._store.clock.now_ns()
        if since_ns >= now_ns:
            raise BadOption("the time begins after it ends", hint="--since 30d")
        body, _ = _choose_owner(caller, body)
        with self._store.read() as connection:
            tenant_id, project_id = _find_owner(connection, caller, body)
            condition = sa.true() if tenant_id is None else jobs.c.tenant_id == tenant_id
            if project_id is not None:
                condition = sa.and_(condition, jobs.c.project_id == project_id)
            found = read_families(connection, condition, since_ns)
        bounds = build_bounds(body)
        policy = AdvicePolicy(
            0, "", tenant_id, body.tenant, body.project, body.families, False, bounds
        )
        runs = [family.runs for key, family in found.items() if policy.covers(key) and family.runs]
        scope = describe_scope(body.tenant, body.project, body.families)
        return _describe_trial(run_policy_backtest(runs, bounds), scope, since_ns, now_ns)


def _delete_policy(write: WriteTransaction, policy: AdvicePolicy) -> None:
    write.execute(advice_policies.delete().where(advice_policies.c.id == policy.row_id))
    data = {"scope": _describe_policy_scope(policy)}
    write.event("advice.policy-removed", policy.id, tenant_id=policy.tenant_id, data=data)
    write.announce(TOPIC)


def _delete_of_ended_owners(write: WriteTransaction) -> None:
    """Delete policies and pauses of tenants and users that end in this transaction. Idempotent."""
    ended = find_ended_owners(write)
    if not ended:
        return
    theirs = ended.match(advice_pauses.c.tenant_id, advice_pauses.c.user_id)
    write.execute(advice_pauses.delete().where(theirs))
    for policy in read_policies(write.connection, advice_policies.c.tenant_id.in_(ended.tenants)):
        _delete_policy(write, policy)


def build_bounds(body: AdvicePolicyIn) -> AdviceBounds:
    """Build the bounds of a request."""
    return AdviceBounds(
        AdviceMode(body.mode),
        AdviceTarget(body.target),
        body.least_milli,
        body.most_cut_percent,
        body.least_bytes,
        Confidence(body.confidence),
    )


def describe_policy(policy: AdvicePolicy) -> AdvicePolicyOut:
    """Describe a policy as it goes over the network."""
    bounds = policy.bounds
    return AdvicePolicyOut(
        id=policy.id,
        tenant=policy.tenant,
        project=policy.project,
        families=policy.families,
        by_tenant=policy.by_tenant,
        mode=bounds.mode.value,
        target=bounds.target.value,
        least_milli=bounds.least_milli,
        most_cut_percent=bounds.most_cut_percent,
        least_bytes=bounds.least_bytes,
        confidence=bounds.confidence.value,
        scope=_describe_policy_scope(policy),
    )


def _describe_policy_scope(policy: AdvicePolicy) -> str:
    return describe_scope(policy.tenant, policy.project, policy.families)


def _describe_trial(
    found: PolicyResult, scope: str, since_ns: int, until_ns: int
) -> AdvicePolicyTrialOut:
    return AdvicePolicyTrialOut(
        since_ns=since_ns,
        until_ns=until_ns,
        scope=scope,
        families=found.families,
        jobs=found.runs,
        known_jobs=found.judged,
        changed_jobs=found.changed,
        returned_jobs=found.returned,
        paused_families=found.pauses,
        short_of_memory=found.short_of_memory,
        starved_percent=_to_percent(found.starved_part_of_changed),
        requested_hours=round(found.requested_hours, 3),
        saved_hours=round(found.saved_hours, 3),
        saved_percent=_to_percent(found.saved_part),
    )


def _to_percent(part: float | None) -> float | None:
    return None if part is None else round(part * 100, 2)


def _match(caller: Principal) -> sa.ColumnElement[bool]:
    if caller.sees_all:
        return sa.true()
    mine = advice_policies.c.tenant_id
    return sa.or_(mine.is_(None), mine == caller.tenant_id)


def _find(connection: sa.Connection, caller: Principal, policy_id: str) -> AdvicePolicy:
    found = read_policies(connection, advice_policies.c.public_id == policy_id, _match(caller))
    if not found:
        raise UnknownAdvicePolicy(
            f"no advice policy {policy_id[:63]!r}", hint="gpupool advise policy-list"
        )
    return found[0]


def _choose_owner(caller: Principal, body: AdvicePolicyIn) -> tuple[AdvicePolicyIn, bool]:
    """Return the request, for the own tenant of a tenant's admin, and whether it only tightens."""
    by_tenant = not caller.has_permission(Permission.MANAGE_POOL)
    if by_tenant and body.tenant is None:
        body = body.model_copy(update={"tenant": caller.tenant})
    return body, by_tenant


def _find_owner(
    connection: sa.Connection, caller: Principal, body: AdvicePolicyIn
) -> tuple[int | None, int | None]:
    if body.tenant is None:
        if body.project is not None:
            raise BadOption(f"project {body.project} of which tenant?", hint="add --tenant TENANT")
        return None, None
    tenant_id = int(find_tenant(connection, caller, body.tenant).id)
    if body.project is None:
        return tenant_id, None
    return tenant_id, find_project(connection, tenant_id, body.project)


def _build_values(
    write: WriteTransaction, caller: Principal, body: AdvicePolicyIn, *, by_tenant: bool
) -> dict[str, Any]:
    tenant_id, project_id = _find_owner(write.connection, caller, body)
    return {
        **body.model_dump(exclude={"tenant", "project"}),
        "tenant_id": tenant_id,
        "project_id": project_id,
        "by_tenant": by_tenant,
        "changed_by": caller.user[:63],
        "changed_ns": write.now_ns,
    }


def _write_policy(write: WriteTransaction, values: dict[str, Any]) -> int:
    """Write a policy in place of the one of the same families; return its row id."""
    columns = advice_policies.c
    same = list[sa.ColumnElement[bool]]()
    for name in ("tenant_id", "project_id", "families", "by_tenant"):
        value = values[name]
        same.append(columns[name].is_(None) if value is None else columns[name] == value)
    known = write.execute(sa.select(advice_policies).where(*same)).one_or_none()
    if known is not None:
        mine = columns.id == known.id
        more = {"generation": known.generation + 1}
        write.execute(advice_policies.update().where(mine).values(**values, **more))
        return int(known.id)
    count = write.execute(sa.select(sa.func.count()).select_from(advice_policies)).scalar_one()
    if count >= MOST_POLICIES:
        raise BadOption(
            f"the pool has {count} advice policies, the most is {MOST_POLICIES}",
            hint="gpupool advise policy-remove ID",
        )
    return write.insert(advice_policies, **values, public_id=new_id("k"), generation=1)


def _check_against_pool(connection: sa.Connection, policy: AdvicePolicy) -> None:
    """Compare a tenant's policy with what the pool allows it.

    A pattern is compared as if it were a name: each family has its own rule, and there the tighter
    of both holds, whatever this check has let pass.
    """
    assert policy.tenant is not None
    wanted = (policy.families or "").replace("*", "").replace("?", "")
    key = FamilyKey(policy.tenant, policy.project or "", "", wanted)
    base = find_base(read_policies(connection), key)
    if base is None:
        raise AdvicePolicyMissing(
            f"no admin of the pool has set an advice policy for {_describe_policy_scope(policy)}",
            hint="an admin of the pool: gpupool advise policy-set --mode propose",
        )
    looser = list_loosened(policy.bounds, base.bounds)
    if looser:
        raise LooserAdvicePolicy(
            f"looser than the pool's policy {base.id}: {', '.join(looser)}",
            hint=f"a tenant may only tighten; gpupool advise policy-show {base.id}",
            policy=base.id,
            looser=looser,
        )
