"""The firewall at the boundary of the pool: what an admin asks for, and what an agent loads."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from gpupool.wire.common import Name, WireModel

FirewallAction = Literal["allow", "deny"]
FirewallDirection = Literal["out", "in"]
FirewallProtocol = Literal["any", "tcp", "udp", "icmp"]


class FirewallRuleIn(WireModel):
    """A rule for connections between gateways and what lies outside."""

    action: FirewallAction
    direction: FirewallDirection = Field(
        "out", description="`out`: opened by jobs; `in`: through port forwards"
    )
    prefix: str = Field(max_length=60, description="addresses outside, as 10.0.0.0/8 or ::/0")
    protocol: FirewallProtocol = "any"
    first_port: int | None = Field(
        None, ge=1, le=65535, description="of the server; of the machine where it is `in`"
    )
    last_port: int | None = Field(None, ge=1, le=65535, description="null: first_port alone")
    network: Name | None = Field(None, description="null: of every network")
    tenant: Name | None = Field(None, description="of the network; null: the caller's")
    number: int | None = Field(
        None, ge=1, le=9999, description="the matching rule with the lowest decides; null: the last"
    )

    @model_validator(mode="after")
    def check_ports(self) -> FirewallRuleIn:
        """Check that ports are those of a protocol that has ports, in order."""
        if self.first_port is None:
            if self.last_port is not None:
                raise ValueError("last_port needs first_port")
            return self
        if self.protocol not in ("tcp", "udp"):
            raise ValueError(f"ports need the protocol tcp or udp; it is {self.protocol}")
        if self.last_port is not None and self.last_port < self.first_port:
            raise ValueError(f"last_port {self.last_port} is below first_port {self.first_port}")
        return self


class FirewallRuleOut(WireModel):
    id: str
    number: int
    action: FirewallAction
    direction: FirewallDirection
    prefix: str
    protocol: FirewallProtocol
    first_port: int | None
    last_port: int | None
    network: str | None = Field(description="null: of every network")
    tenant: str | None
    created_ns: int


class FirewallWork(WireModel):
    """A rule as the machine's agent loads it, in the order in which they decide."""

    action: FirewallAction
    direction: FirewallDirection
    prefix: str
    protocol: FirewallProtocol
    first_port: int | None = None
    last_port: int | None = None
    gateway: str | None = Field(None, description="address of a network's gateway; null: of all")
    others: list[str] = Field(
        default_factory=list, description="addresses on the uplink of the network's floating IPs"
    )
