"""Security groups of networks: what a client asks for and gets."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from gpupool.wire.common import Name, WireModel


class SecurityRuleIn(WireModel):
    """Packets that a group takes from outside of it, and the answers to them."""

    protocol: Literal["any", "tcp", "udp", "icmp"]
    first_port: int | None = Field(None, ge=1, le=65535, description="null: every port")
    last_port: int | None = Field(None, ge=1, le=65535, description="null: the first port alone")
    source: str | None = Field(
        None,
        min_length=1,
        max_length=63,
        description="prefix, or name of a group of the network; null: every address",
    )

    @model_validator(mode="after")
    def check_ports(self) -> SecurityRuleIn:
        """Check that the ports are those of a protocol that has some, in their order."""
        if self.first_port is None and self.last_port is None:
            return self
        if self.protocol not in ("tcp", "udp"):
            raise ValueError(f"{self.protocol} has no ports; tcp and udp have")
        if self.first_port is None:
            raise ValueError("a last port needs a first one")
        if self.last_port is not None and self.last_port < self.first_port:
            raise ValueError(f"port {self.last_port} is below the first port, {self.first_port}")
        return self


class SecurityRuleOut(WireModel):
    id: str
    protocol: str
    first_port: int | None = None
    last_port: int | None = None
    source: str | None = Field(None, description="prefix or name of a group; null: every address")


class SecurityGroupIn(WireModel):
    """A group of jobs of a network: they reach each other, and others reach them by rules."""

    name: Name


class SecurityGroupOut(WireModel):
    id: str
    name: str
    network: str
    jobs: int = Field(description="jobs in it now")
    rules: list[SecurityRuleOut]
    created_ns: int
