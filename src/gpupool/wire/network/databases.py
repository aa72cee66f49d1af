"""The cluster of OVN's databases: what its servers do and report, and how clients see it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gpupool.wire.common import WireModel

ServerStep = Literal["prepare", "create", "join", "serve"]
ServerState = Literal["joining", "joined", "lost", "leaving"]
RaftRole = Literal["leader", "follower", "candidate", "none"]


class DatabaseAddresses(WireModel):
    """Addresses by database."""

    northbound: list[str] = Field(default_factory=list, max_length=16)
    southbound: list[str] = Field(default_factory=list, max_length=16)


class DatabaseServerWork(WireModel):
    """The part of a machine in the cluster of databases."""

    cluster: int = Field(description="counts clusters: files of another one are removed")
    step: ServerStep = Field(
        description="prepare: choose ports; create: be the first server; join: be a further one; "
        "serve: be the server that it is"
    )
    northbound: str = Field("", description="every server, for the compiler")
    peers: DatabaseAddresses = Field(
        default_factory=DatabaseAddresses, description="for a server that joins: servers there"
    )
    expelled: DatabaseAddresses = Field(
        default_factory=DatabaseAddresses, description="servers that a leader removes"
    )


class DatabaseReplica(WireModel):
    """How the server of one database is."""

    address: str = Field("", max_length=80, description="for other servers")
    role: RaftRole = "none"
    term: int = 0
    is_member: bool = Field(False, description="it has joined the cluster")
    members: list[str] = Field(
        default_factory=list, max_length=16, description="addresses of all servers that it knows"
    )


class DatabaseServerReport(WireModel):
    """What an agent says of its databases in the cluster."""

    cluster: int
    is_lost: bool = Field(False, description="its files are gone, so it has to join again")
    northbound_remote: str = Field("", max_length=80, description="for clients")
    southbound_remote: str = Field("", max_length=80)
    northbound: DatabaseReplica = Field(default_factory=DatabaseReplica)
    southbound: DatabaseReplica = Field(default_factory=DatabaseReplica)


class DatabaseServerOut(WireModel):
    """A server of the cluster of databases."""

    node: str
    state: ServerState
    is_away: bool = Field(description="it does not answer, or does not serve both databases")
    northbound: RaftRole
    northbound_term: int
    southbound: RaftRole
    southbound_term: int
