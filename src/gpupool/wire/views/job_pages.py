"""Pages of jobs: lists of jobs, the queue, and what a job used of its share over time."""

from __future__ import annotations

from pydantic import Field

from gpupool.wire.common import Page, WireModel
from gpupool.wire.jobs import JobOut, StartAt, StartChance, StartPromised, StartText


class JobPage(Page[JobOut]):
    """One page of jobs. In an order (`sort`) it may be short, or empty, before the last one."""

    total_estimate: int | None = Field(
        None, description="jobs of the whole list; on the first page of a list with an order"
    )
    total_exact: bool = Field(False, description="the total is counted, not estimated")


class QueuedOut(WireModel):
    """One job that waits, in the order of its turn; of another tenant several, of which only the
    number is told."""

    place: int
    count: int = 1
    job: str | None = None
    id: str | None = None
    tenant: str | None = None
    user: str | None = None
    share: str | None = None
    priority: int | None = None
    gang: bool = False
    waited_seconds: int | None = None
    reason: str | None = Field(None, description="the dominant one, in a few words")
    sentence: str | None = Field(
        None, description="the whole reason, with numbers, as of the last plan"
    )
    gpu_milli: int | None = Field(None, description="per card")
    cards: int | None = Field(None, description="of each job; of a gang those of its first role")
    seconds: int | None = Field(None, description="how long each may run; null: unknown")
    seconds_estimated: bool = Field(
        False, description="`seconds` is what past runs took; else it is the job's limit"
    )
    start: StartText = None
    start_ns: StartAt = None
    start_promised: StartPromised = False
    start_chance_pct: StartChance = None


class JobUseOut(WireModel):
    """What a job that runs used of its share since it started, in columns; null is unknown.

    Empty for a job that has ended, and shorter after a restart of the server.
    """

    job: str
    name: str
    held_milli: int = Field(description="over all its cards; 0: it is promised no compute")
    held_bytes: int
    at_ns: list[int] = Field(description="the end of each stretch of time, the first one first")
    gpu_percent: list[float | None] = Field(description="of one card, since the entry before")
    share_percent: list[float | None] = Field(description="of its own share, which is 100")
    memory_bytes: list[int | None] = Field(description="at that instant")
