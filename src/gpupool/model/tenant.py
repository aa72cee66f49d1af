"""Ownership and rights: tenant > project > user, and what each role may do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class UserRole(StrEnum):
    ADMIN = "admin"
    #: Sees all, and has the cards to itself: adopts, releases and switches them. No people.
    OPERATOR = "operator"
    #: Sees all and changes nothing; no command, output or other content of a job.
    AUDITOR = "auditor"
    TENANT_ADMIN = "tenant-admin"
    USER = "user"
    VIEWER = "viewer"
    #: A node's agent: may publish its node and work on its allocations, nothing else.
    AGENT = "agent"
    #: A metrics collector: may read /metrics, nothing else.
    SCRAPE = "scrape"
    #: A cluster's meter: may tell what is held on the cluster's nodes, nothing else.
    METER = "meter"
    #: An identity provider: may tell of its persons and groups over SCIM, nothing else.
    SCIM = "scim"


class Permission(StrEnum):
    #: See what lies in the caller's scope (own tenant; everything for an admin).
    READ = "read"
    #: Submit jobs, and stop one's own.
    RUN = "run"
    #: Users, tokens and every job of one's own tenant.
    MANAGE_TENANT = "manage-tenant"
    #: Adopt, release and switch cards.
    MANAGE_CARDS = "manage-cards"
    #: Tenants, quotas, every user's jobs.
    MANAGE_POOL = "manage-pool"
    SERVE_NODE = "serve-node"
    SCRAPE = "scrape"
    TELL_CLUSTER = "tell-cluster"
    SCIM = "scim"


PERMISSIONS: Mapping[UserRole, frozenset[Permission]] = {
    UserRole.ADMIN: frozenset(Permission),
    UserRole.OPERATOR: frozenset({Permission.READ, Permission.MANAGE_CARDS}),
    UserRole.AUDITOR: frozenset({Permission.READ}),
    UserRole.TENANT_ADMIN: frozenset({Permission.READ, Permission.RUN, Permission.MANAGE_TENANT}),
    UserRole.USER: frozenset({Permission.READ, Permission.RUN}),
    UserRole.VIEWER: frozenset({Permission.READ}),
    UserRole.AGENT: frozenset({Permission.SERVE_NODE}),
    UserRole.SCRAPE: frozenset({Permission.SCRAPE}),
    UserRole.METER: frozenset({Permission.TELL_CLUSTER}),
    UserRole.SCIM: frozenset({Permission.SCIM}),
}

#: Roles whose scope is every tenant.
POOL_ROLES = frozenset({UserRole.ADMIN, UserRole.OPERATOR, UserRole.AUDITOR})
#: Roles that live inside one tenant, and that its admin may give.
OWN_TENANT_ROLES = frozenset({UserRole.TENANT_ADMIN, UserRole.USER, UserRole.VIEWER})

DEFAULT_TENANT = "default"
DEFAULT_PROJECT = "default"


@dataclass(frozen=True)
class UnixIdentity:
    """A Unix account as the kernel or the account database names it."""

    uid: int
    gid: int
    name: str


@dataclass(frozen=True)
class Principal:
    """The caller of a request, as the server authenticated it.

    Built from peer credentials (SO_PEERCRED), a token or a session, never from a body.
    """

    user_id: int
    user: str
    tenant_id: int
    tenant: str
    role: UserRole
    #: The Unix account that this caller's jobs run as; None: no account is bound.
    unix: UnixIdentity | None = None
    #: Came over the pool's own Unix socket.
    local: bool = False
    #: Id of the token that the caller came with, or logged in with; None: the kernel named the
    #: caller, or another way of signing on did.
    token: str | None = None
    #: May make tokens: a caller over the Unix socket may, a token only with `may_mint`.
    may_mint: bool = True
    #: What a submission that names no project counts for; None: the tenant's default project.
    project: str | None = None
    #: What the caller's token is limited to, of what the role may; None: all of it.
    scopes: frozenset[Permission] | None = None
    #: Id of the session that the caller's browser has; None: it came without a cookie.
    session: str | None = None
    #: `unix` may be root: root itself made the link of this session, on this machine.
    may_run_as_root: bool = False
    #: A program of a tenant, not a person.
    is_service: bool = False

    @property
    def permissions(self) -> frozenset[Permission]:
        """What the caller may: all of its role, or the part that its token is limited to."""
        granted = PERMISSIONS[self.role]
        return granted if self.scopes is None else granted & self.scopes

    @property
    def has_peer_credentials(self) -> bool:
        """Whether the kernel named the caller: it has no token or cookie, which may be stolen."""
        return self.token is None and self.session is None

    def has_permission(self, permission: Permission) -> bool:
        in_scope = self.scopes is None or permission in self.scopes
        return in_scope and permission in PERMISSIONS[self.role]

    @property
    def sees_all(self) -> bool:
        return self.role in POOL_ROLES
