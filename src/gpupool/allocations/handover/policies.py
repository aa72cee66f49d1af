"""Leaver policies: which one counts for a user, and how admins set them. Thread-safe."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from gpupool.allocations.handover.service import check_heir_of_tenant
from gpupool.allocations.handover.tables import leaver_policies
from gpupool.base.errors import LeaverPolicyContradicts, UnknownLeaverPolicy, UnknownProvider
from gpupool.base.units import NANOS_PER_SECOND
from gpupool.model.tenant import Permission, Principal
from gpupool.signon.leaver_facts import LeaverChoice
from gpupool.signon.tables import providers
from gpupool.store.database import Store, WriteTransaction
from gpupool.tenancy.access import match_visible
from gpupool.tenancy.ending.owners import find_ended_owners
from gpupool.tenancy.tables import tenants, users
from gpupool.tenancy.tenants import find_tenant
from gpupool.tenancy.users import find_user
from gpupool.wire.leavers.policies import LeaverChoiceIn, LeaverPolicyIn, LeaverPolicyOut

Row = Any
_POLICIES = (
    sa.select(leaver_policies, tenants.c.name.label("tenant"), users.c.name.label("heir"))
    .outerjoin(tenants, tenants.c.id == leaver_policies.c.tenant_id)
    .outerjoin(users, users.c.id == leaver_policies.c.heir_id)
    .order_by(tenants.c.name, leaver_policies.c.provider)
)


class LeaverPolicyService:
    """Policies as admins see them: of the pool all of them, of a tenant its own."""

    def __init__(self, store: Store) -> None:
        self._store = store
        store.commit_steps["leaver policies"] = _forget_ended_owners

    def list_policies(self, caller: Principal) -> list[LeaverPolicyOut]:
        """List the policies: those of tenants behind those of any tenant."""
        query = _POLICIES.where(match_visible(caller, leaver_policies.c.tenant_id))
        with self._store.read() as connection:
            return [_describe(row) for row in connection.execute(query)]

    def put_policy(self, caller: Principal, body: LeaverPolicyIn) -> LeaverPolicyOut:
        """Set the policy of a tenant, a provider, both or the pool. Idempotent.

        A tenant's admin sets that of its tenant, which it need not name.

        Raises:
            LeaverPolicyContradicts: What is given does not go together.
            NotFound: The caller's scope lacks the tenant or the heir, or there is no such provider.
            HandoverRefused: The heir cannot take jobs over.
        """
        check_choice(body)
        by_tenant = not caller.has_permission(Permission.MANAGE_POOL)
        body = body.model_copy(update={"tenant": _choose_tenant(caller, body.tenant)})
        with self._store.write() as write:
            tenant = None
            if body.tenant is not None:
                tenant = find_tenant(write.connection, caller, body.tenant)
            _require_provider(write.connection, body.provider)
            heir_id = None
            if body.heir is not None:
                heir = find_user(write.connection, caller, body.heir)
                check_heir_of_tenant(heir, None if tenant is None else tenant.name)
                heir_id = heir.id
            mine = _match(body.provider, None if tenant is None else tenant.id)
            values = {
                "act": body.act,
                "keep_seconds": body.keep_seconds,
                "until_ns": body.until_ns,
                "heir_id": heir_id,
                "changed_by": caller.user,
                "changed_ns": write.now_ns,
                "by_tenant": by_tenant,
            }
            if write.execute(leaver_policies.update().where(mine).values(**values)).rowcount == 0:
                key = {
                    "provider": body.provider,
                    "tenant_id": None if tenant is None else tenant.id,
                }
                write.execute(leaver_policies.insert().values(**key, **values))
            out = _describe(write.execute(_POLICIES.where(mine)).one())
            tenant_id = None if tenant is None else tenant.id
            write.event("leaver-policy.changed", _name(body), tenant_id=tenant_id)
            write.answer(200, out.model_dump(mode="json"))
        return out

    def delete_policy(self, caller: Principal, provider: str | None, tenant: str | None) -> None:
        """Delete a policy; leavers of before keep what it said.

        Raises:
            UnknownLeaverPolicy: There is none of this tenant and provider.
            UnknownTenant: The caller's scope lacks the tenant.
        """
        tenant = _choose_tenant(caller, tenant)
        with self._store.write() as write:
            found = None if tenant is None else find_tenant(write.connection, caller, tenant)
            tenant_id = None if found is None else found.id
            gone = write.execute(leaver_policies.delete().where(_match(provider, tenant_id)))
            name = f"{tenant or 'any tenant'}, {provider or 'any provider'}"
            if gone.rowcount == 0:
                raise UnknownLeaverPolicy(
                    f"there is no leaver policy of {name}", hint="gpupool sso policies"
                )
            write.event("leaver-policy.deleted", name, tenant_id=tenant_id)
            write.answer(204, None)


def check_choice(choice: LeaverChoiceIn) -> None:
    """Refuse what does not go together. Raises LeaverPolicyContradicts."""
    is_limited = choice.keep_seconds is not None or choice.until_ns is not None
    if choice.act == "hand-over" and choice.heir is None:
        raise LeaverPolicyContradicts(
            "hand-over needs the user that gets the jobs", hint="--to USER of the same tenant"
        )
    if choice.act != "hand-over" and choice.heir is not None:
        raise LeaverPolicyContradicts(f"{choice.act} has no new owner", hint="hand-over --to USER")
    if choice.act != "keep" and is_limited:
        raise LeaverPolicyContradicts(
            f"{choice.act} happens at once", hint="keep --for 30d stops jobs after 30 days"
        )
    if choice.keep_seconds is not None and choice.until_ns is not None:
        raise LeaverPolicyContradicts("two ends of one time", hint="give --for or --until")


def find_policy(
    connection: sa.Connection, provider: str | None, tenant_id: int, now_ns: int
) -> LeaverChoice:
    """Find what becomes of a leaver's jobs: by its tenant's policy, else its provider's, else kept."""
    p = leaver_policies.c
    query = (
        _POLICIES.where(
            sa.or_(p.provider.is_(None), p.provider == provider),
            sa.or_(p.tenant_id.is_(None), p.tenant_id == tenant_id),
        )
        .order_by(None)
        .order_by(p.tenant_id.is_(None), p.provider.is_(None))
        .limit(1)
    )
    row = connection.execute(query).one_or_none()
    if row is None:
        return LeaverChoice("keep")
    until_ns = row.until_ns
    if row.keep_seconds is not None:
        until_ns = now_ns + row.keep_seconds * NANOS_PER_SECOND
    return LeaverChoice(row.act, until_ns, row.heir, not row.by_tenant)


def _forget_ended_owners(write: WriteTransaction) -> None:
    """Delete the policies of tenants that end in this transaction, and forget former heirs.

    Idempotent. An heir that was deleted stays named until another person may have its name; the
    leavers of a policy without an heir wait for an admin.
    """
    ended = find_ended_owners(write)
    if not ended:
        return
    p = leaver_policies.c
    write.execute(leaver_policies.delete().where(p.tenant_id.in_(ended.tenants)))
    former = p.heir_id.in_(ended.select_revived())
    write.execute(leaver_policies.update().where(former).values(heir_id=None))


def _choose_tenant(caller: Principal, tenant: str | None) -> str | None:
    """Return the tenant of a policy; None: any, which only an admin of the pool sets."""
    if tenant is None and not caller.has_permission(Permission.MANAGE_POOL):
        return caller.tenant
    return tenant


def _require_provider(connection: sa.Connection, name: str | None) -> None:
    if name is None:
        return
    query = sa.select(providers.c.id).where(providers.c.name == name)
    if connection.execute(query).first() is None:
        raise UnknownProvider(f"no identity provider {name[:80]!r}", hint="gpupool sso list")


def _match(provider: str | None, tenant_id: int | None) -> sa.ColumnElement[bool]:
    p = leaver_policies.c
    same_provider = p.provider.is_(None) if provider is None else p.provider == provider
    same_tenant = p.tenant_id.is_(None) if tenant_id is None else p.tenant_id == tenant_id
    return sa.and_(same_provider, same_tenant)


def _name(body: LeaverPolicyIn) -> str:
    return f"{body.tenant or 'any tenant'}, {body.provider or 'any provider'}"


def _describe(row: Row) -> LeaverPolicyOut:
    return LeaverPolicyOut(
        provider=row.provider,
        tenant=row.tenant,
        act=row.act,
        keep_seconds=row.keep_seconds,
        until_ns=row.until_ns,
        heir=row.heir,
        changed_by=row.changed_by,
        changed_ns=row.changed_ns,
    )
