"""Tenants, users, tokens and who is asking."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gpupool.wire.common import BIG, Name, Wire

RoleName = Literal["admin", "tenant-admin", "user", "viewer", "agent", "scrape"]


class QuotaIn(Wire):
    """Null means no limit of that kind."""

    nominal_milli: int | None = Field(None, ge=0, le=BIG)
    borrowing_milli: int | None = Field(0, ge=0, le=BIG)
    nominal_memory_bytes: int | None = Field(None, ge=0, le=BIG)
    borrowing_memory_bytes: int | None = Field(0, ge=0, le=BIG)


class QuotaOut(QuotaIn):
    tenant: str
    held_milli: int
    held_memory_bytes: int
    maximum_milli: int | None
    maximum_memory_bytes: int | None


class TenantIn(Wire):
    name: Name
    quota: QuotaIn | None = None


class TenantOut(Wire):
    name: str
    quota: QuotaOut
    users: int
    projects: list[str]
    created_ns: int


class ProjectIn(Wire):
    name: Name


class UserIn(Wire):
    name: Name
    tenant: Name | None = None
    role: RoleName = "user"
    unix_user: str | None = Field(None, max_length=64, description="known by this Unix account on the socket")
    run_as: str | None = Field(None, max_length=64, description="Unix account of its jobs when it comes over TCP")


class UserPatch(Wire):
    tenant: Name | None = None
    role: RoleName | None = None
    unix_user: str | None = Field(None, max_length=64)
    run_as: str | None = Field(None, max_length=64)
    disabled: bool | None = None


class UserOut(Wire):
    name: str
    tenant: str
    role: RoleName
    unix_user: str | None
    run_as: str | None
    disabled: bool
    created_ns: int


class TokenIn(Wire):
    user: Name | None = None
    label: str = Field("", max_length=63)
    expires_seconds: int | None = Field(None, ge=1, le=10 * 366 * 86400)


class TokenOut(Wire):
    """`token` is shown once, at creation; only its hash is kept."""

    id: str
    user: str
    label: str
    kind: str
    created_ns: int
    expires_ns: int | None
    last_used_ns: int | None
    token: str | None = None


class LoginIn(Wire):
    token: str = Field(max_length=256)


class LoginOut(Wire):
    token: str
    user: str
    tenant: str
    role: RoleName
    expires_ns: int


class WhoamiOut(Wire):
    user: str
    tenant: str
    role: RoleName
    permissions: list[str]
    unix_user: str | None
    local: bool
    quota: QuotaOut
    version: str
    pool: str


class PoolOut(Wire):
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
    ledger_ahead_seconds: float
