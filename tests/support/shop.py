"""A house with services, whose replicas the test runs and judges."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gpupool.templates.tables
from gpupool.model.tenant import Principal
from gpupool.serving.replicas import ENDED
from gpupool.serving.scaling import LoadMeasure
from gpupool.serving.service import ServingService
from gpupool.serving.sights import ReplicaHealth, ServiceFacts, ServiceSight
from gpupool.serving.tables import services
from gpupool.store.tables import metadata
from gpupool.templates.service import TemplateService
from gpupool.wire.fleet import RunAs
from gpupool.wire.serving.services import ServiceAdd, ServiceOut
from gpupool.wire.submissions import JobIn
from gpupool.workspaces.service import WorkspaceService
from tests.support.house import House

assert services.metadata is metadata
assert gpupool.templates.tables.templates.metadata is metadata

HEALTHY = ReplicaHealth("", 0)
JOB = {
    "shape": {"gpu_milli": 300, "memory_bytes": 1 << 30},
    "launch": {"argv": ["serve", "{port}"], "env": {"SECRET": "x"}},
}


class Shop:
    """Services of a house; a restart of the house is one of the shop."""

    def __init__(self, directory: Path) -> None:
        self.house = House(directory)
        self.ahead_ns = 0
        self._rooms: object = None
        self._serving: ServingService | None = None
        real = self.house.store.clock.now_ns
        self.house.store.clock.now_ns = lambda: real() + self.ahead_ns  # type: ignore[method-assign]

    @property
    def serving(self) -> ServingService:
        """As the server of now has it."""
        rooms = self.house.allocations
        if self._serving is not None and self._rooms is rooms:
            return self._serving
        self._rooms = rooms
        templates = TemplateService(self.house.store, self.house.tenancy)
        workspaces = WorkspaceService(self.house.store, rooms, self.house.fleet)
        self._serving = ServingService(
            self.house.store, self.house.tenancy, rooms, templates, workspaces
        )
        return self._serving

    def add(
        self,
        name: str = "web",
        who: Principal | None = None,
        run_as: RunAs | None = None,
        **rule: Any,
    ) -> ServiceOut:
        job = {**JOB, **rule.pop("job", {})}
        body = ServiceAdd.model_validate({"name": name, "job": job, "rule": rule})
        return self.serving.add(body, who or self.house.admin, run_as)

    def get(self, name: str = "web") -> ServiceOut:
        return self.serving.get(name, self.house.admin)

    def sight(self) -> ServiceSight:
        (found,) = self.serving.steps.read()
        return found

    def look(
        self,
        load: float | None = None,
        health: Mapping[int, ReplicaHealth] | None = None,
        requests: Mapping[int, int] | None = None,
        waiting: int = 0,
    ) -> None:
        """Let one look apply what it finds; replicas that run are healthy unless named."""
        seen = self.sight()
        found = {one.number: HEALTHY for one in seen.replicas if one.job_state == "running"}
        facts = ServiceFacts(
            LoadMeasure(load, max(1, seen.service.desired)),
            waiting,
            (),
            {**found, **(health or {})},
            requests or {},
        )
        self.serving.steps.apply(seen, facts)

    def run_jobs(self) -> None:
        """Place what waits, and let the node run what was placed and end what is to stop."""
        while self.house.allocations.placer.run_cycle().more:
            pass
        for item in self.house.work():
            job = self.house.job(item.job)
            if item.want == "stop":
                self.house.report(item, "ended", signal=15)
            elif job.state == "starting":
                self.house.report(item, "running")

    def settle(self, load: float | None = None, looks: int = 5, **more: Any) -> None:
        for _ in range(looks):
            self.look(load, **more)
            self.run_jobs()

    def set_body(self, job: Mapping[str, Any]) -> None:
        """Give the one service another job, as a pool that has changed under it would."""
        body = JobIn.model_validate(job).model_dump(mode="json")
        with self.house.store.write() as write:
            write.execute(services.update().values(body=body))

    def clear(self) -> None:
        """Remove every service with its replicas."""
        admin = self.house.admin
        for one in self.serving.list_services(admin):
            self.serving.remove(one.id, admin)
        for _ in range(4):
            for seen in self.serving.steps.read():
                self.serving.steps.apply(seen, ServiceFacts(LoadMeasure(None, 0)))
            self.run_jobs()
        assert self.serving.list_services(admin) == []

    def states(self) -> list[str]:
        return [one.state for one in self.sight().replicas if one.state != ENDED]

    def live_jobs(self) -> int:
        return sum(self.house.count_jobs().values())
