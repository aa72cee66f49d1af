"""An OVN that the pool joins: what an admin asks for and sees."""

from __future__ import annotations

from pydantic import Field

from gpupool.wire.common import WireModel

#: Characters of a certificate chain, a key or authorities, at most.
_LONGEST_PEM = 65536


class ExternalOvnIn(WireModel):
    """Databases of OVN that the pool joins in place of its own."""

    northbound: str = Field(
        max_length=400,
        description="as tcp:192.0.2.7:6641 or ssl:192.0.2.7:6641; servers of a cluster with commas",
    )
    southbound: str | None = Field(
        None, max_length=400, description="null: the next port of the same servers"
    )
    certificate: str | None = Field(
        None, max_length=_LONGEST_PEM, description="PEM that the pool shows; with ssl: alone"
    )
    private_key: str | None = Field(
        None, max_length=_LONGEST_PEM, repr=False, description="PEM; never shown again"
    )
    trusted: str | None = Field(None, max_length=_LONGEST_PEM, description="PEM of authorities")


class ExternalOvnOut(WireModel):
    """The OVN that the pool has joined."""

    northbound: str
    southbound: str
