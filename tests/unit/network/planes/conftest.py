"""A pool with two nodes, a tenant that demands planes, and another one that demands none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpupool.model.tenant import Principal, UserRole
from gpupool.wire.jobs import JobOut
from gpupool.wire.network.planes import PlaneDemandIn, PlaneNodesIn, PlaneReportIn
from tests.support.planes import make_content
from tests.unit.network.conftest import NetworkHouse

NO_NUMBERS = PlaneDemandIn()


class PlaneHouse(NetworkHouse):
    """A house with an inventory of planes."""

    manager: Principal
    stranger: Principal

    def demand(self, *planes: str, nodes: tuple[str, ...] = ("node-1",)) -> None:
        for plane in planes:
            self.allocations.planes.demand_plane(self.admin, plane, NO_NUMBERS, "acme")
        if nodes:
            self.give(*nodes)

    def give(self, *nodes: str) -> None:
        self.allocations.planes.put_nodes(self.admin, PlaneNodesIn(nodes=list(nodes)), "acme")

    def apply_files(self, *names: str) -> None:
        """Report every compiled file, or those of these names, as applied."""
        for file in self.allocations.plane_evidence.list_files():
            if not names or file.name in names:
                report = PlaneReportIn(hash=file.hash)
                self.allocations.plane_evidence.report(self.admin, file.name, report)

    def run_job(self, caller: Principal, name: str) -> JobOut:
        self.submit(principal=caller, name=name)
        return self.place(name)

    def place(self, name: str) -> JobOut:
        self.allocations.placer.run_cycle()
        return self.job(name)


@pytest.fixture
def house(tmp_path: Path) -> Iterator[PlaneHouse]:
    made = PlaneHouse(tmp_path, cards=4)
    made.register(4, "node-2")
    for tenant in ("acme", "other"):
        made.tenancy.tenants.create(made.admin, tenant, None)
    made.manager = made.member("ann", "acme", UserRole.TENANT_ADMIN)
    made.stranger = made.member("bob", "other", UserRole.TENANT_ADMIN)
    made.allocations.planes.put_inventory(make_content())
    yield made
    made.store.close()
