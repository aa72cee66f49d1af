"""What a tenant wants of bandwidth, and what an admin allows. Pure.

`in` is towards the job, or towards the network of a gateway; `out` is away from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

#: What a limit is about: ports of jobs, or the gateway of a network.
LimitSubject = Literal["port", "gateway"]


@dataclass(frozen=True)
class Bandwidth:
    """Bandwidth in kbit/s for each direction; None: no limit."""

    in_kbit: int | None = None
    out_kbit: int | None = None

    def __bool__(self) -> bool:
        return self.in_kbit is not None or self.out_kbit is not None

    def fill(self, other: Bandwidth) -> Bandwidth:
        """Take the directions that have no limit here from another one."""
        return Bandwidth(
            other.in_kbit if self.in_kbit is None else self.in_kbit,
            other.out_kbit if self.out_kbit is None else self.out_kbit,
        )

    def cap(self, most: Bandwidth) -> Bandwidth:
        """Take the lower one for each direction."""
        return Bandwidth(
            _take_lower(self.in_kbit, most.in_kbit), _take_lower(self.out_kbit, most.out_kbit)
        )


UNLIMITED = Bandwidth()


@dataclass(frozen=True)
class BandwidthLimit:
    """A limit of a network.

    Attributes:
        target: DNS name of the jobs, array or gang whose ports it is about; empty: every port, or
            the gateway.
    """

    subject: LimitSubject
    target: str
    bandwidth: Bandwidth


@dataclass(frozen=True)
class NetworkLimits:
    """The limits of a network, and what its tenant may have at most."""

    limits: Sequence[BandwidthLimit] = ()
    port_cap: Bandwidth = UNLIMITED
    gateway_cap: Bandwidth = UNLIMITED

    def find_port(self, name: str) -> Bandwidth:
        """Find what holds for a port by its DNS name: the narrowest limit for each direction."""
        found = UNLIMITED
        for target in list_targets(name):
            for limit in self.limits:
                if limit.subject == "port" and limit.target == target:
                    found = found.fill(limit.bandwidth)
        return found.cap(self.port_cap)

    def find_gateway(self) -> Bandwidth:
        """Find what holds for the gateway of the network."""
        found = UNLIMITED
        for limit in self.limits:
            if limit.subject == "gateway":
                found = limit.bandwidth
        return found.cap(self.gateway_cap)


def list_targets(name: str) -> tuple[str, ...]:
    """List the targets that a port's DNS name belongs to, the narrowest first.

    `train-0.train` is the member `train-0`, of the array or gang `train`, and one of all.
    """
    member, _, array = name.partition(".")
    return (member, array, "") if array else (member, "")


def _take_lower(one: int | None, other: int | None) -> int | None:
    present = [rate for rate in (one, other) if rate is not None]
    return min(present, default=None)
