"""Attempts of a job that starts again after a failure."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gpupool.wire.common import WireModel


class AttemptOut(WireModel):
    """An attempt that failed, and was followed by another one."""

    number: int
    state: Literal["failed", "lost"]
    reason: str
    exit_code: int | None = None
    signal: int | None = None
    started_ns: int | None = None
    ended_ns: int
    log_bytes: int | None = Field(None, description="of the job's log when it ended; null: unknown")
