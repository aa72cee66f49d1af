"""What a tenant wants of a port forward. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from gpupool.network.balancing.model import BalancedProtocol


@dataclass(frozen=True)
class PortForward:
    """A port of the pool's machine behind which jobs of a network serve.

    Attributes:
        key: public id.
        port: on the machine, and on the network's gateway.
        target: DNS name of a job, an array, a gang or a load balancer.
        target_port: on which the jobs serve, or the load balancer is asked.
    """

    key: str
    protocol: BalancedProtocol
    port: int
    target: str
    target_port: int

    def has_target(self, name: str) -> bool:
        """Whether a port with that DNS name is one of its jobs."""
        return self.target in (name, name.partition(".")[2])
