"""Who owns what: tenant > project > user, and what each role may do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Role(StrEnum):
    ADMIN = "admin"
    TENANT_ADMIN = "tenant-admin"
    USER = "user"
    VIEWER = "viewer"
    AGENT = "agent"
    """A node's agent: may publish its node and work on its allocations, nothing else."""
    SCRAPE = "scrape"
    """A metrics collector: may read /metrics, nothing else."""
    METER = "meter"
    """A cluster's meter: may tell what is held on the cluster's nodes, nothing else."""


class Permission(StrEnum):
    READ = "read"
    """See what lies in the caller's scope (own tenant; everything for an admin)."""
    RUN = "run"
    """Submit jobs, and stop one's own."""
    MANAGE_TENANT = "manage-tenant"
    """Users, tokens and every job of one's own tenant."""
    MANAGE_POOL = "manage-pool"
    """Cards, tenants, quotas, every user's jobs."""
    SERVE_NODE = "serve-node"
    SCRAPE = "scrape"
    TELL_CLUSTER = "tell-cluster"


PERMISSIONS: Mapping[Role, frozenset[Permission]] = {
    Role.ADMIN: frozenset(Permission),
    Role.TENANT_ADMIN: frozenset({Permission.READ, Permission.RUN, Permission.MANAGE_TENANT}),
    Role.USER: frozenset({Permission.READ, Permission.RUN}),
    Role.VIEWER: frozenset({Permission.READ}),
    Role.AGENT: frozenset({Permission.SERVE_NODE}),
    Role.SCRAPE: frozenset({Permission.SCRAPE}),
    Role.METER: frozenset({Permission.TELL_CLUSTER}),
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
    """Who is asking. Built by the server from peer credentials or a token, never from a body."""

    user_id: int
    user: str
    tenant_id: int
    tenant: str
    role: Role
    unix: UnixIdentity | None = None
    """The Unix account that this caller's jobs run as; None: no account is bound."""
    local: bool = False
    """Came over the pool's own Unix socket."""
    token: str | None = None
    """Id of the token that the caller came with; None: the kernel named the caller."""
    may_mint: bool = True
    """May make tokens: a caller over the Unix socket may, a token only with `may_mint`."""

    def may(self, permission: Permission) -> bool:
        return permission in PERMISSIONS[self.role]

    @property
    def sees_all(self) -> bool:
        return self.role is Role.ADMIN
