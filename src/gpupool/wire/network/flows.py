"""Flow logs of networks: what a client asks for and gets, and what agents report."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gpupool.wire.common import Name, WireModel


class FlowLogIn(WireModel):
    """A flow log of a network."""

    name: Name
    choice: Literal["all", "allowed", "denied"] = Field("all", description="what became of packets")
    job: Name | None = Field(None, description="as the source or the target; null: every job")


class FlowLogOut(WireModel):
    """A flow log, and what it lacks."""

    id: str
    name: str
    network: str
    choice: Literal["all", "allowed", "denied"]
    job: str | None = Field(description="as the source or the target; null: every job")
    records: int = Field(description="that are kept")
    most_records: int = Field(description="that are kept at most")
    expired_records: int = Field(description="deleted for newer ones")
    skipped_packets: int = Field(
        description="of the network that were not logged, for they were above the rate"
    )
    lost_bytes: int = Field(description="of a machine's log that was rotated before it was read")
    created_ns: int


class FlowRecordOut(WireModel):
    """Packets of one connection in one direction, within some seconds."""

    at_ns: int = Field(description="of its first packet, in whole seconds")
    verdict: Literal["allowed", "denied"]
    group: str | None = Field(description="security group that decided; null: the job is in none")
    rule: str = Field(
        description="id of a rule; `members`: of the group; `router`: of the network itself; "
        "`others`: no rule of the job's groups took it; `default`: the job is in no group"
    )
    protocol: str
    source: str
    source_port: int | None
    source_job: str | None = Field(description="that had the address then")
    target: str
    target_port: int | None
    target_job: str | None
    packets: int = Field(description="that were logged")


class FlowRecordsOut(WireModel):
    """Records behind a cursor, the oldest first."""

    records: list[FlowRecordOut]
    next: int = Field(description="cursor behind the last one")


class FlowRecordReport(WireModel):
    """Packets that an agent found in the log of its machine. `rule` is the name of an access list."""

    at_ns: int
    rule: str = Field(max_length=63)
    is_denied: bool
    protocol: str = Field(max_length=8)
    source: str = Field(max_length=45)
    source_port: int | None = None
    target: str = Field(max_length=45)
    target_port: int | None = None
    packets: int


class FlowReport(WireModel):
    """What an agent found in the log of its machine since its last report."""

    run: str = Field(max_length=16, description="of the agent")
    number: int = Field(description="grows with each report of the run")
    records: list[FlowRecordReport] = Field(default_factory=list)
    skipped_packets: dict[str, int] = Field(
        default_factory=dict, description="by network, packets above its rate"
    )
    lost_bytes: int = Field(0, description="of the log, which was rotated before it was read")
