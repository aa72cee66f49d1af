"""Ownership and rights: tenant > project > user, and what each role may do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class UserRole(StrEnum):
    ADMIN = "admin"
    TENANT_ADMIN = "tenant-admin"
    USER = "user"
    VIEWER = "viewer"
    #: A node's agent: may publish its node and work on its allocations, nothing else.
    AGENT = "agent"
    #: A metrics collector: may read /metrics, nothing else.
    SCRAPE = "scrape"
    #: A cluster's meter: may tell what is held on the cluster's nodes, nothing else.
    METER = "meter"


class Permission(StrEnum):
    #: See what lies in the caller's scope (own tenant; everything for an admin).
    READ = "read"
    #: Submit jobs, and stop one's own.
    RUN = "run"
    #: Users, tokens and every job of one's own tenant.
    MANAGE_TENANT = "manage-tenant"
    #: Cards, tenants, quotas, every user's jobs.
    MANAGE_POOL = "manage-pool"
    SERVE_NODE = "serve-node"
    SCRAPE = "scrape"
    TELL_CLUSTER = "tell-cluster"


PERMISSIONS: Mapping[UserRole, frozenset[Permission]] = {
    UserRole.ADMIN: frozenset(Permission),
    UserRole.TENANT_ADMIN: frozenset({Permission.READ, Permission.RUN, Permission.MANAGE_TENANT}),
    UserRole.USER: frozenset({Permission.READ, Permission.RUN}),
    UserRole.VIEWER: frozenset({Permission.READ}),
    UserRole.AGENT: frozenset({Permission.SERVE_NODE}),
    UserRole.SCRAPE: frozenset({Permission.SCRAPE}),
    UserRole.METER: frozenset({Permission.TELL_CLUSTER}),
}

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

    Built from peer credentials (SO_PEERCRED) or a token, never from a body.
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
    #: Id of the token that the caller came with; None: the kernel named the caller.
    token: str | None = None
    #: May make tokens: a caller over the Unix socket may, a token only with `may_mint`.
    may_mint: bool = True

    def has_permission(self, permission: Permission) -> bool:
        return permission in PERMISSIONS[self.role]

    @property
    def sees_all(self) -> bool:
        return self.role is UserRole.ADMIN
