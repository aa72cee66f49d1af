"""Whether jobs of networks reach what they ask for, as the owners of the networks see it."""

from __future__ import annotations

from gpupool.base.errors import UnknownNetwork
from gpupool.model.tenant import Principal
from gpupool.network.lookup import FindNetwork
from gpupool.network.reachability import Traffic, decide_reach
from gpupool.network.reading import read_networks
from gpupool.store.database import Store
from gpupool.wire.network.networks import ReachOut


class ReachService:
    """Answers from the networks that are wanted. Thread-safe."""

    def __init__(self, store: Store, find_network: FindNetwork) -> None:
        self._store = store
        self._find_network = find_network

    def describe_reach(
        self,
        caller: Principal,
        name: str,
        source: str,
        target: str,
        traffic: Traffic,
        tenant: str | None = None,
    ) -> ReachOut:
        """Say whether a job of a network reaches a target, and which object decides.

        Args:
            source: address or DNS name of a job that is in the network now.
            target: an address, or a DNS name of the network.

        Raises UnknownNetwork: there is no such network, or no such job in it.
        """
        with self._store.read() as connection:
            row = self._find_network(connection, caller, name, tenant)
            network = read_networks(connection, [row.public_id])[row.public_id]
        for port in network.ports:
            if source in (port.name, str(port.address), str(port.address6)):
                reach = decide_reach(network, port, target, traffic)
                return ReachOut(
                    network=network.name,
                    source=port.name,
                    target=target,
                    is_reached=reach.is_reached,
                    object=reach.object,
                    reason=reach.reason,
                    hint=reach.hint,
                )
        raise UnknownNetwork(
            f"no job {source[:80]!r} is in network {network.name} now",
            hint=f"gpupool network show {network.name}",
        )
