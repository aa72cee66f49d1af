"""The server's rooms with an engine of networks that its agent has reported as ready."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpupool.allocations.service import Allocations
from gpupool.store.secrets.vault import SecretVault
from gpupool.wire.fleet import ReportsIn
from gpupool.wire.network.engine import NetworkEngineReport
from gpupool.wire.network.networks import NetworkIn, NetworkOut, SubnetIn
from tests.support.house import House


class NetworkHouse(House):
    """A house whose pool runs as root."""

    def restart(self) -> None:
        self.allocations = Allocations(
            self.store, self.tenancy, self.fleet, self.metering, rules=self._rules, owner_uid=0
        )
        self.allocations.placer.load()

    def tell_engine(self, state: str, **more: Any) -> None:
        report = NetworkEngineReport(state=state, **more)
        self.allocations.agents.apply_reports("node-1", ReportsIn(network=report))

    def enable(self) -> None:
        self.allocations.network_engine.enable()
        self.tell_engine("ready", northbound="unix:/nowhere")

    def lose_key(self) -> None:
        """Go on as a server that has started without the key of its secrets."""
        self.store.secrets = SecretVault()
        self.store.secrets.begin(self.store)

    def create_network(self, name: str, *prefixes: str) -> NetworkOut:
        subnets = [SubnetIn(name=f"s{n}", cidr=cidr) for n, cidr in enumerate(prefixes)]
        body = NetworkIn(name=name, subnets=subnets)
        return self.allocations.networks.create_network(self.admin, body)


@pytest.fixture
def house(tmp_path: Path) -> Iterator[NetworkHouse]:
    made = NetworkHouse(tmp_path, cards=8)
    yield made
    made.store.close()
