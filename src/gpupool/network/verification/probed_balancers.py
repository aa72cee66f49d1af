"""What an agent probes of load balancers. Pure."""

from __future__ import annotations

from gpupool.network.balancing.model import LoadBalancer
from gpupool.network.model import Network
from gpupool.wire.network.promises import ProbedBackend, ProbedBalancer


def list_probed_balancers(network: Network) -> list[ProbedBalancer]:
    """List the load balancers of a network with what answers behind them."""
    return [_make_balancer(network, balancer) for balancer in network.balancers]


def _make_balancer(network: Network, balancer: LoadBalancer) -> ProbedBalancer:
    backends = list[ProbedBackend]()
    proxy = balancer.proxy
    if proxy is not None:
        # It serves as long as it runs, and asks its jobs itself.
        address = str(proxy.address)
        backends.append(ProbedBackend(key=proxy.key, address=address, port=balancer.port))
    else:
        for port in network.ports:
            if balancer.has_backend(port.name):
                address = str(port.address)
                target = balancer.target_port
                backends.append(ProbedBackend(key=port.key, address=address, port=target))
    return ProbedBalancer(
        network=network.name,
        name=balancer.name,
        protocol=balancer.protocol,
        address=str(balancer.address),
        port=balancer.port,
        is_checked=balancer.is_checked,
        backends=backends,
    )
