"""The tenancy package's one door for the other packages and for the server.

`tenancy.tenants`, `.users`, `.tokens` are what admins do; the methods here are what every
request and every submission needs.
"""

from __future__ import annotations

import os
import secrets

import sqlalchemy as sa

from gpupool.base.errors import NoPermission, UnknownTenant
from gpupool.model.tenant import DEFAULT_TENANT, Permission, Principal, UserRole
from gpupool.store.database import Store
from gpupool.tenancy import tenants as _tenants
from gpupool.tenancy.access import PeerProcess
from gpupool.tenancy.accounts import UnixAccounts
from gpupool.tenancy.cohorts import CohortService
from gpupool.tenancy.identity import CallerIdentity, join_user
from gpupool.tenancy.sessions.identity import SessionIdentity
from gpupool.tenancy.sessions.service import SessionService
from gpupool.tenancy.tables import projects, tenants, users
from gpupool.tenancy.tenants import (
    LiveJobs,
    TenantRef,
    TenantService,
    find_tenant,
    insert_tenant,
    tenant_ref,
)
from gpupool.tenancy.token_secrets import Randomness
from gpupool.tenancy.tokens import TokenService
from gpupool.tenancy.users import PEOPLE, UserService
from gpupool.wire.fleet import RunAs
from gpupool.wire.people import QuotaIn, QuotaOut


def _count_no_jobs(_connection: sa.Connection, _tenant_id: int | None, _user_id: int | None) -> int:
    return 0


class TenancyService:
    """Tenants, users, tokens, and authentication.

    Thread-safe; every method may block on the store.

    `owner_uid` is the account that started the pool: 0 makes it a system pool, any other a user's
    own. `live_jobs` counts jobs for the refusals of deleting; it is 0 without jobs.
    """

    def __init__(
        self,
        store: Store,
        *,
        owner_uid: int | None = None,
        live_jobs: LiveJobs = _count_no_jobs,
        accounts: UnixAccounts | None = None,
        randomness: Randomness = secrets.token_bytes,
    ) -> None:
        self._store = store
        self.owner_uid = os.getuid() if owner_uid is None else owner_uid
        self._accounts = accounts or UnixAccounts()
        self.identity = CallerIdentity(store, self._accounts, self.owner_uid)
        self.tenants = TenantService(store, live_jobs)
        self.cohorts = CohortService(store)
        self.users = UserService(store, self._accounts, live_jobs)
        self.tokens = TokenService(store, randomness)
        self.sessions = SessionService(store, randomness)
        self.session_identity = SessionIdentity(store, self._accounts, self.identity)

    def bootstrap(self) -> Principal:
        """Make the default tenant and project, and the owner as an enabled admin. Idempotent."""
        with self._store.read() as connection:
            # One reading at each start: nothing is written where nothing is missing.
            found = connection.execute(self._owner_query()).one_or_none()
        if found is None:
            self._make_owner()
        return self.principal_for_peer(
            PeerProcess(os.getpid(), self.owner_uid, os.getgid(), tuple(os.getgroups()))
        )

    def _owner_query(self) -> sa.Select[tuple[int]]:
        admin = sa.and_(
            users.c.role == UserRole.ADMIN,
            users.c.disabled_ns.is_(None),
            users.c.retired_ns.is_(None),
        )
        default = sa.exists().where(
            tenants.c.name == DEFAULT_TENANT, tenants.c.retired_ns.is_(None)
        )
        return sa.select(users.c.id).where(users.c.unix_uid == self.owner_uid, admin, default)

    def _make_owner(self) -> None:
        with self._store.write() as write:
            default = sa.select(tenants.c.retired_ns).where(tenants.c.name == DEFAULT_TENANT)
            row = write.execute(default).one_or_none()
            if row is None or row.retired_ns is not None:
                tenant_id = insert_tenant(write, DEFAULT_TENANT)
                write.event("tenant.created", DEFAULT_TENANT, tenant_id=tenant_id)
            # Enabled and admin again whatever it was: its account started the pool and could change
            # the file.
            owner = join_user(write, self._accounts.by_uid(self.owner_uid), self.owner_uid)
            admin = {
                "role": str(UserRole.ADMIN),
                "disabled_ns": None,
                "generation": owner.generation + 1,
            }
            write.execute(users.update().where(users.c.id == owner.id).values(**admin))
            write.event(
                "user.changed", owner.name, tenant_id=owner.tenant_id, data={"changed": ["role"]}
            )
            write.announce(PEOPLE, "quota")
            write.touch_ledger()

    def principal_for_peer(self, peer: PeerProcess) -> Principal:
        """Return the user with that Unix uid; an unknown one joins the default tenant.

        Raises NoPermission.
        """
        return self.identity.principal_for_peer(peer)

    def principal_for_token(self, text: str, peer: PeerProcess | None = None) -> Principal:
        """Return the user whose token this is. Raises NotLoggedIn."""
        return self.identity.principal_for_token(text, peer)

    def run_as(self, principal: Principal, peer: PeerProcess | None) -> RunAs:
        """Return the Unix account of this caller's jobs. Raises NoUnixUser."""
        return self.identity.run_as(principal, peer)

    def resolve_tenant(
        self,
        connection: sa.Connection,
        principal: Principal,
        name: str | None,
        *,
        with_deleted: bool = False,
    ) -> TenantRef:
        """Return the tenant a submission is for: the caller's own, or any for an admin.

        Call it inside the transaction that uses the answer: a deleted tenant is not found, unless
        `with_deleted`. Raises UnknownTenant.
        """
        named = name or principal.tenant
        return tenant_ref(find_tenant(connection, principal, named, with_deleted=with_deleted))

    def project_id(self, connection: sa.Connection, tenant_id: int, name: str) -> int:
        """Return the id of the tenant's project of that name.

        Raises UnknownProject with those there are.
        """
        return _tenants.find_project(connection, tenant_id, name)

    def find_payer(
        self, connection: sa.Connection, tenant_id: int, user_id: int, project: str
    ) -> int:
        """Return the id of the project that pays, in the transaction that writes a submission.

        Whatever ends the work of a tenant or a user finds what was written before it: nothing may
        be written later. One statement, as each submission waits for it.

        Raises:
            UnknownTenant: The tenant was deleted since the submission was checked.
            NoPermission: The user was disabled or deleted since then.
            UnknownProject: There is no such project.
        """
        mine = sa.and_(projects.c.tenant_id == tenants.c.id, projects.c.name == project)
        query = (
            sa.select(
                tenants.c.name.label("tenant"),
                tenants.c.retired_ns.label("tenant_retired_ns"),
                users.c.name,
                users.c.disabled_ns,
                users.c.retired_ns,
                projects.c.id.label("project_id"),
            )
            .select_from(tenants)
            .join(users, users.c.id == user_id)
            .outerjoin(projects, mine)
            .where(tenants.c.id == tenant_id)
        )
        row = connection.execute(query).one()
        if row.tenant_retired_ns is not None:
            raise UnknownTenant(
                f"no tenant {row.tenant!r}: it was deleted", hint="gpupool tenant list"
            )
        if row.disabled_ns is not None or row.retired_ns is not None:
            end = "disabled" if row.retired_ns is None else "deleted"
            raise NoPermission(f"the user {row.name} is {end}", hint="ask an admin")
        if row.project_id is None:
            return _tenants.find_project(connection, tenant_id, project)
        return int(row.project_id)

    def put_quota(
        self, principal: Principal, tenant: str, quota: QuotaIn, generation: int | None = None
    ) -> tuple[QuotaOut, int]:
        """Set a tenant's whole quota; an admin's work. Returns its new generation.

        Raises StaleGeneration.
        """
        if not principal.has_permission(Permission.MANAGE_POOL):
            raise NoPermission("only an admin sets quotas", hint="ask an admin")
        return self.tenants.put_quota(principal, tenant, quota, generation)

    def delete_user(self, principal: Principal, name: str) -> None:
        """Take a user and its tokens out.

        Raises:
            StillInUse: It has jobs.
            WrongState: It is the last admin.
        """
        self.users.delete(principal, name)
