"""Answers about the audit log. A record is given exactly as it was hashed, so fields may lack."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from gpupool.wire.common import WireModel

AuditKind = Literal[
    "change",
    "request",
    "refusal",
    "login",
    "logout",
    "answer",
    "start",
    "stop",
    "restore",
    "checkpoint",
    "gap",
]
AuditOrder = Literal["newest", "oldest"]


class AuditRecordOut(WireModel):
    """One record. Its hash is SHA-256 of `previous` and of the JSON of all other fields.

    The JSON has sorted names, no spaces, and ASCII characters alone.
    """

    seq: int = Field(description="without gaps, from 1")
    at_ns: int
    kind: AuditKind
    action: str = Field("", description="method and route, as `POST /api/v1/jobs`")
    user: str | None = Field(None, description="null: nobody was logged in")
    tenant: str | None = Field(None, description="of the user")
    role: str | None = None
    credential: str | None = Field(
        None, description="socket, token ID, service-token ID, session ID; null: none"
    )
    source: str | None = Field(
        None, description="an address, or uid and pid on the socket; null: not for this reader"
    )
    objects: list[str] = Field(default=[], description="ids and names that the act is about")
    status: int | None = Field(None, description="of the answer over HTTP")
    code: str | None = Field(None, description="of a refusal, as GP-3002")
    request: str | None = Field(None, description="its Idempotency-Key")
    changes: dict[str, Any] = Field(
        default={}, description="fields of the body; texts that may be secret are not shown"
    )
    times: int = Field(1, description="so many equal requests within a second or two")
    data: dict[str, Any] = Field(default={}, description="of records of the log about itself")
    previous: str = Field(description="hash of the record before; zeros for the first")
    hash: str


class AuditHeadOut(WireModel):
    """The last record: note it elsewhere, and compare with `gpupool audit verify --expect`."""

    seq: int = Field(description="0: the log is empty")
    hash: str
    at_ns: int | None
    first_seq: int | None = Field(description="the first record that is kept")
    records: int
    keep_days: int
