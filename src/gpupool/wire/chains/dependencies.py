"""Dependencies of a job on the ends of others."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gpupool.wire.common import WireModel

Condition = Literal["ok", "any", "fail"]


class DependencyIn(WireModel):
    """The end of a job, of all jobs of an array, or of a gang."""

    job: str = Field(
        min_length=1,
        max_length=80,
        description="id or name of a job, an array or a gang; or `last`",
    )
    condition: Condition = Field(
        "ok", description="ok: it is done; fail: it ends any other way; any: it ends"
    )


class DependencyOut(WireModel):
    """For which end a job waits, or waited."""

    job: str = Field(description="the name")
    id: str
    kind: Literal["job", "array", "gang"]
    condition: Condition
    outcome: Literal["met", "never"] | None = Field(
        None, description="never: it can no longer be met; null: not decided yet"
    )
    ending: str = Field("", description="how it ended; empty: it has not")
    settled_ns: int | None = None
