"""The tenancy room's one door for the other rooms and for the server.

`tenancy.tenants`, `.users`, `.tokens` are what admins do; the methods here are what every
request and every submission needs.
"""

from __future__ import annotations

import os
import secrets

import sqlalchemy as sa

from gpupool.base.errors import NotAllowed
from gpupool.model.tenant import DEFAULT_TENANT, Permission, Principal, Role
from gpupool.store.database import Store
from gpupool.tenancy import tenants as _tenants
from gpupool.tenancy.access import Peer
from gpupool.tenancy.accounts import Accounts
from gpupool.tenancy.cohorts import Cohorts
from gpupool.tenancy.identity import Identity, join
from gpupool.tenancy.tables import tenants, users
from gpupool.tenancy.tenants import LiveJobs, TenantRef, Tenants, find_tenant, insert_tenant, tenant_ref
from gpupool.tenancy.tokens import Randomness, Tokens
from gpupool.tenancy.users import PEOPLE, Users
from gpupool.wire.fleet import RunAs
from gpupool.wire.people import QuotaIn, QuotaOut


def _no_jobs(_connection: sa.Connection, _tenant_id: int | None, _user_id: int | None) -> int:
    return 0


class Tenancy:
    """Tenants, users, tokens, and who is asking. Thread-safe; every method may block on the store.

    `owner_uid` is who started the pool: 0 makes it a system pool, any other a user's own.
    `live_jobs` counts jobs for the refusals of deleting; without jobs in the house it is 0.
    """

    def __init__(
        self,
        store: Store,
        *,
        owner_uid: int | None = None,
        live_jobs: LiveJobs = _no_jobs,
        accounts: Accounts | None = None,
        randomness: Randomness = secrets.token_bytes,
    ) -> None:
        self._store = store
        self.owner_uid = os.getuid() if owner_uid is None else owner_uid
        self._accounts = accounts or Accounts()
        self.identity = Identity(store, self._accounts, self.owner_uid)
        self.tenants = Tenants(store, live_jobs)
        self.cohorts = Cohorts(store)
        self.users = Users(store, self._accounts, live_jobs)
        self.tokens = Tokens(store, randomness)

    def bootstrap(self) -> Principal:
        """The default tenant and project, and the owner as an enabled admin; nothing when all is there."""
        with self._store.read() as connection:
            found = connection.execute(self._owner_query()).one_or_none()
        if found is None:
            self._bootstrap()
        return self.principal_for_peer(Peer(os.getpid(), self.owner_uid, os.getgid(), tuple(os.getgroups())))

    def _owner_query(self) -> sa.Select[tuple[int]]:
        admin = sa.and_(users.c.role == Role.ADMIN, users.c.disabled_ns.is_(None), users.c.retired_ns.is_(None))
        default = sa.exists().where(tenants.c.name == DEFAULT_TENANT, tenants.c.retired_ns.is_(None))
        return sa.select(users.c.id).where(users.c.unix_uid == self.owner_uid, admin, default)

    def _bootstrap(self) -> None:
        with self._store.write() as write:
            default = sa.select(tenants.c.retired_ns).where(tenants.c.name == DEFAULT_TENANT)
            row = write.execute(default).one_or_none()
            if row is None or row.retired_ns is not None:
                tenant_id = insert_tenant(write, DEFAULT_TENANT)
                write.event("tenant.created", DEFAULT_TENANT, tenant_id=tenant_id)
            owner = join(write, self._accounts.by_uid(self.owner_uid), self.owner_uid)
            admin = {"role": str(Role.ADMIN), "disabled_ns": None, "generation": owner.generation + 1}
            write.execute(users.update().where(users.c.id == owner.id).values(**admin))
            write.event("user.changed", owner.name, tenant_id=owner.tenant_id, data={"changed": ["role"]})
            write.announce(PEOPLE, "quota")
            write.touch_ledger()

    def principal_for_peer(self, peer: Peer) -> Principal:
        """The user with that Unix uid; an unknown one joins the default tenant. Raises NotAllowed."""
        return self.identity.principal_for_peer(peer)

    def principal_for_token(self, text: str, peer: Peer | None = None) -> Principal:
        """The user whose token this is. Raises NotLoggedIn."""
        return self.identity.principal_for_token(text, peer)

    def run_as(self, principal: Principal, peer: Peer | None) -> RunAs:
        """The Unix account of this caller's jobs. Raises NoUnixUser."""
        return self.identity.run_as(principal, peer)

    def resolve_tenant(self, connection: sa.Connection, principal: Principal, name: str | None) -> TenantRef:
        """The tenant a submission is for: the caller's own, or any for an admin. Raises UnknownTenant.

        Call it inside the transaction that uses the answer: a deleted tenant is not found.
        """
        return tenant_ref(find_tenant(connection, principal, name or principal.tenant))

    def project_id(self, connection: sa.Connection, tenant_id: int, name: str) -> int:
        """The id of the tenant's project of that name. Raises UnknownProject with those that there are."""
        return _tenants.find_project(connection, tenant_id, name)

    def put_quota(
        self, principal: Principal, tenant: str, quota: QuotaIn, generation: int | None = None
    ) -> tuple[QuotaOut, int]:
        """Set a tenant's whole quota; an admin's work. Its new generation. Raises StaleGeneration."""
        if not principal.may(Permission.MANAGE_POOL):
            raise NotAllowed("only an admin sets quotas", hint="ask an admin")
        return self.tenants.put_quota(principal, tenant, quota, generation)

    def delete_user(self, principal: Principal, name: str) -> None:
        """Take a user and its tokens out. Raises StillInUse while it has jobs, WrongState for the last admin."""
        self.users.delete(principal, name)
