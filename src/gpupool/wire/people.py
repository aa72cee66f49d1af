"""Bodies and answers about tenants, users, tokens, quotas and the caller."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gpupool.wire.common import BIG, Name, WireModel

RoleName = Literal[
    "admin",
    "operator",
    "auditor",
    "tenant-admin",
    "user",
    "viewer",
    "agent",
    "scrape",
    "meter",
    "scim",
]
UserKind = Literal["person", "service"]
ScopeName = Literal[
    "read",
    "run",
    "manage-tenant",
    "manage-cards",
    "manage-pool",
    "serve-node",
    "scrape",
    "tell-cluster",
    "scim",
]


class LimitIn(WireModel):
    """Of a card model or vendor (`gpu:H200`, `gpu:AMD`, in milli-devices), whole nodes (`node`,
    `node:H200`) or NVLink domains.
    """

    resource: str = Field(max_length=80)
    nominal: int = Field(ge=0, le=BIG)
    borrowing: int | None = Field(None, ge=0, le=BIG)
    lending: int | None = Field(
        None, ge=0, le=BIG, description="how much of it others may use while it is not used"
    )


class QuotaIn(WireModel):
    """Null means no limit of that kind."""

    nominal_milli: int | None = Field(None, ge=0, le=BIG)
    borrowing_milli: int | None = Field(0, ge=0, le=BIG)
    nominal_memory_bytes: int | None = Field(None, ge=0, le=BIG)
    borrowing_memory_bytes: int | None = Field(0, ge=0, le=BIG)
    lending_milli: int | None = Field(None, ge=0, le=BIG)
    lending_memory_bytes: int | None = Field(None, ge=0, le=BIG)
    weight_milli: int = Field(
        1000,
        ge=0,
        le=10**9,
        description="its due beside its siblings, 1000 is a weight of 1; with 0 they come first",
    )
    cohort: Name | None = Field(None, description="what it is in; null: right below the pool")
    others: list[LimitIn] = Field(default_factory=list, max_length=100)


class QuotaOut(QuotaIn):
    tenant: str
    held_milli: int
    held_memory_bytes: int
    maximum_milli: int | None
    maximum_memory_bytes: int | None


class CohortOut(QuotaIn):
    """A node of the quota tree above tenants; `cohort` is the one above it."""

    name: str


class QuotaNodeOut(WireModel):
    """One node of the quota tree and what it holds. Amounts are milli-devices, bytes or whole
    cells."""

    kind: Literal["pool", "cohort", "tenant"]
    name: str
    parent: str | None
    weight_milli: int
    limits: list[QuotaUseOut]
    held_milli: int
    held_memory_bytes: int
    share_percent: float = Field(
        description="what it holds of the pool, the larger of compute and memory"
    )
    due_percent: float = Field(
        description="what is due to it by weight, among siblings that hold or wait"
    )
    past_card_hours: float = Field(description="what it held before, faded with age")


class QuotaUseOut(WireModel):
    """`borrowed` is what is held over the nominal part, `lent` what others use of it."""

    resource: str
    nominal: int
    borrowing: int | None
    lending: int | None
    held: int
    borrowed: int
    lent: int


class QuotaTreeOut(WireModel):
    """Nodes from the pool down, each after its parent."""

    nodes: list[QuotaNodeOut]


class TenantIn(WireModel):
    name: Name
    quota: QuotaIn | None = None


class TenantOut(WireModel):
    name: str
    quota: QuotaOut
    users: int
    projects: list[str]
    created_ns: int


class ProjectIn(WireModel):
    name: Name


class UserIn(WireModel):
    name: Name
    tenant: Name | None = None
    role: RoleName = "user"
    unix_user: str | None = Field(
        None, max_length=64, description="known by this Unix account on the socket"
    )
    run_as: str | None = Field(
        None, max_length=64, description="Unix account of its jobs when it comes over TCP"
    )
    kind: UserKind = Field(
        "person", description="service: a program; logs in by tokens of at most 365 days alone"
    )


class UserPatch(WireModel):
    tenant: Name | None = None
    role: RoleName | None = None
    unix_user: str | None = Field(None, max_length=64)
    run_as: str | None = Field(None, max_length=64)
    disabled: bool | None = None


class UserOut(WireModel):
    name: str
    tenant: str
    role: RoleName
    unix_user: str | None
    run_as: str | None
    disabled: bool
    created_ns: int
    kind: UserKind = "person"


class TokenIn(WireModel):
    user: Name | None = None
    label: str = Field("", max_length=63)
    # Ten years.
    expires_seconds: int | None = Field(None, ge=1, le=10 * 366 * 86400)
    may_mint: bool = Field(False, description="it may make tokens for its user; those never may")
    scopes: list[ScopeName] | None = Field(
        None, min_length=1, max_length=8, description="of what the role may; null: all of it"
    )


class TokenOut(WireModel):
    """`token` is shown once, at creation; only its hash is kept."""

    id: str
    user: str
    label: str
    kind: str
    created_ns: int
    expires_ns: int | None
    last_used_ns: int | None
    parent: str | None = Field(None, description="the token that made it, with which it ends")
    may_mint: bool = Field(False, description="it may make tokens")
    scopes: list[ScopeName] | None = Field(None, description="null: all that the role may")
    token: str | None = None


class LoginIn(WireModel):
    token: str = Field(max_length=256)


class LoginOut(WireModel):
    token: str
    user: str
    tenant: str
    role: RoleName
    expires_ns: int


class WhoamiOut(WireModel):
    user: str
    tenant: str
    role: RoleName
    permissions: list[str]
    unix_user: str | None
    local: bool
    quota: QuotaOut
    version: str
    pool: str


class PoolOut(WireModel):
    """The pool as a whole."""

    id: str
    version: str
    pid: int
    ready: bool
    simulated: bool | None
    store: str
    state_dir: str
    listeners: list[str]
    started_ns: int
    nodes: int
    devices: int
    jobs_live: int
    jobs_pending: int
    last_event: int
    event_epoch: str = Field("", description="id of the event log; another one after a restore")
    ledger_ahead_seconds: float
    role: str = Field(
        "alone", description="leader: of several servers on one PostgreSQL database; else alone"
    )
    leader_number: int | None = Field(None, description="how often a server took the pool over")
    lease_age_seconds: float | None = Field(
        None, description="since the leader's lease was renewed"
    )
    policy: str = Field("", description="the placement policy of this pool")
    policy_fault: str | None = Field(
        None, description="why another policy places in its stead; null: it works"
    )
