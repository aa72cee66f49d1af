"""XIDs as agents report them, and incidents as people see them."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gpupool.wire.common import BIG, WireModel

RecoveryWord = Literal[
    "none",
    "gpu-reset",
    "node-reboot",
    "drain-p2p",
    "drain-and-reset",
    "recover-imex",
    "bus-reset",
    "system-reboot",
]
ContainmentWord = Literal["note", "tell-job", "drain-card", "drain-peers", "drain-node"]
RepairWord = Literal["none", "reset", "reboot", "inspect"]
IncidentState = Literal["open", "accepted", "closed"]


class CardFaultIn(WireModel):
    """One XID of a card. Card, XID and time name it: the same one again changes nothing."""

    uuid: str = Field(min_length=1, max_length=64)
    xid: int = Field(ge=0, le=1_000_000)
    at_ns: int = Field(ge=0, le=BIG, description="when its agent saw it")
    recovery: RecoveryWord | None = Field(
        None, description="what the driver recommended after it; null: unknown"
    )


class FaultEvidenceOut(WireModel):
    """One XID of an incident."""

    card: str = Field(description="node:index")
    uuid: str
    xid: int
    mnemonic: str = Field(description="NVIDIA's name of it; empty: not in the catalogue")
    meaning: str
    at_ns: int
    recovery: RecoveryWord | None


class FaultJobOut(WireModel):
    """A job that held a share of a card when it failed."""

    job: str
    name: str
    tenant: str
    user: str
    card: str
    state: str = Field(description="as it is now")
    ended_by_fault: bool = Field(description="its share ended within the incident, without success")


class IncidentRow(WireModel):
    """The XIDs of one node until it was silent for three minutes. The first is blamed."""

    id: str
    node: str
    card: str = Field(description="of the XID that is blamed, node:index")
    xid: int = Field(description="that is blamed")
    meaning: str
    state: IncidentState
    containment: ContainmentWord = Field(description="how far it reaches")
    repair: RepairWord = Field(description="what is proposed; it is never done by itself")
    first_ns: int
    last_ns: int
    going_on: bool = Field(description="the node is not silent for three minutes yet")
    xids: int = Field(description="XIDs that are kept as evidence")
    jobs: int = Field(description="jobs that held a share of its cards, of the caller's scope")


class IncidentOut(IncidentRow):
    """An incident with its evidence and what to do next."""

    evidence: list[FaultEvidenceOut]
    affected: list[FaultJobOut]
    advice: str = Field(description="what to do next, for people")
    next: str = Field(description="the command to type next; empty: none")
    note: str = ""
    accepted_by: str | None = None
    accepted_ns: int | None = None
    closed_by: str | None = None
    closed_ns: int | None = None


class IncidentCloseIn(WireModel):
    """How an incident ended."""

    note: str = Field("", max_length=400, description="what was done")
    still_failed: bool = Field(
        False, description="close it although a card of it is still not healthy"
    )
