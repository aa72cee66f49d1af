"""Where a suspended job is, and the words between server and agent for moving it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gpupool.wire.common import WireModel

#: What a node is asked to do about an allocation.
JobWish = Literal["run", "resize", "suspend", "resume", "stop"]
#: What a node reports of an allocation.
ReportState = Literal[
    "prepared",
    "running",
    "resized",
    "suspended",
    "resumed",
    "woken",
    "noticed",
    "ended",
    "lost",
    "not_started",
]


class SuspensionOut(WireModel):
    """Of a running job: whether it is on its cards, and what became of the last suspend or
    resume."""

    state: Literal["suspending", "suspended", "resuming", "failed"] = Field(
        description="suspended: its memory is on the host and its seats are empty; "
        "failed: it could not be suspended and runs"
    )
    since_ns: int | None = Field(None, description="since when it is suspended")
    host_bytes: int | None = Field(
        None, description="card memory that is in main memory; null: it is on its cards"
    )
    note: str | None = Field(None, description="why the last suspend or resume failed")
    beneficiary: str | None = Field(
        None,
        description="the claim that it made room for, because it was idle; idle-rule: an idle policy "
        "suspended it; null: suspended by hand",
    )
    wanted_ns: int | None = Field(
        None, description="since when a program of it waits to work again; null: none does"
    )
