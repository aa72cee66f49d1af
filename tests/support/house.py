"""A house with real rooms on a real SQLite file, and a node whose agent is the test."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import sqlalchemy as sa

from gpupool.allocations.service import Allocations
from gpupool.allocations.store.tables import IS_LIVE, NOT_MADE, jobs
from gpupool.base.units import GIB
from gpupool.billing.charging.reserved_ranges import read_unused_time
from gpupool.fleet.service import FleetService
from gpupool.fleet.tables import devices
from gpupool.metering.service import MeteringService
from gpupool.model.job import LIVE, JobState
from gpupool.model.numa import NumaNode, write_numa_nodes
from gpupool.model.tenant import Principal, UserRole
from gpupool.model.vm import VM_COMMAND
from gpupool.scheduling.preemption.victims import DEFAULT_PREEMPTION_RULES, PreemptionRules
from gpupool.store.database import Store, connect, open_store, sqlite_url
from gpupool.store.tables import pool
from gpupool.tenancy.service import TenancyService
from gpupool.wire.defrag import MoveIn
from gpupool.wire.fleet import DeviceIn, NodeIn, ReportIn, ReportsIn, WorkOut
from gpupool.wire.jobs import JobOut
from gpupool.wire.network.networks import NetworkJoinIn
from gpupool.wire.submissions import JobIn, LaunchIn, ShapeIn
from gpupool.wire.vm import VmIn
from tests.support.empty_databases import make_tables


class House:
    """The server's rooms without HTTP or threads: nothing is placed but by a call, so every run is
    the same."""

    def __init__(
        self, directory: Path, cards: int = 2, rules: PreemptionRules = DEFAULT_PREEMPTION_RULES
    ) -> None:
        engine = connect(sqlite_url(directory / "house.db"))
        make_tables(engine)
        with engine.begin() as connection:
            row = {
                "id": 1,
                "pool_id": "p",
                "holder": "",
                "event_seq": 0,
                "generation": 1,
                "ledger_ns": 0,
            }
            connection.execute(pool.insert().values(**row))
        self._rules = rules
        self.begin(open_store(engine, "test"))
        self.register(cards)
        self.restart()

    @classmethod
    def reopen(cls, store: Store, rules: PreemptionRules = DEFAULT_PREEMPTION_RULES) -> Self:
        """The rooms of another process on the database of a house."""
        made = cls.__new__(cls)
        made._rules = rules
        made.begin(store)
        made.restart()
        return made

    def begin(self, store: Store) -> None:
        """Make what does not change when the rooms start anew."""
        self.store = store
        self.tenancy = TenancyService(self.store)
        self.admin = self.tenancy.bootstrap()
        self.fleet = FleetService(self.store)
        self.metering = MeteringService(self.store, read_unused_time)

    def restart(self) -> None:
        """The rooms as a server that starts has them: they know what is written down."""
        self.allocations = Allocations(
            self.store, self.tenancy, self.fleet, self.metering, rules=self._rules
        )
        self.allocations.placer.load()

    def register(
        self, cards: int, name: str = "node-1", numa: Sequence[NumaNode] = (), **more: Any
    ) -> None:
        """A node as its agent tells of it; its cards are cut evenly over the NUMA nodes."""
        facts = {"numa": write_numa_nodes(numa)} if numa else {}
        machine = [
            DeviceIn(
                uuid=f"GPU-{name}-{n}",
                index=n,
                vendor="nvidia",
                product="NVIDIA H200",
                model="H200",
                memory_bytes=140 * GIB,
                simulated=True,
                health="ok",
                facts={"numa_node": numa[n * len(numa) // cards].number} if numa else {},
            )
            for n in range(cards)
        ]
        told = NodeIn(devices=machine, simulated=True, adopt=True, **{"facts": facts, **more})
        self.fleet.register_node(name, told, self.admin)

    def submit(self, gpu_milli: int = 300, memory_gib: int | None = 8, **options: object) -> JobOut:
        who = options.pop("principal", self.admin)
        shape = {key: options.pop(key) for key in (*ShapeIn.model_fields,) if key in options}
        memory = None if memory_gib is None else memory_gib * GIB
        network = options.pop("network", None)
        if isinstance(network, str):
            network = {"name": network, "security_groups": options.pop("security_groups", ())}
        body = JobIn(
            shape=ShapeIn(gpu_milli=gpu_milli, memory_bytes=memory, **shape),
            launch=LaunchIn(
                argv=["true"],
                env={"SECRET": "x"},
                network=None if network is None else NetworkJoinIn.model_validate(network),
            ),
            **options,
        )
        assert isinstance(who, Principal)
        return self.allocations.jobs.submit_job(body, who, None).first

    def submit_vm(self, cpus: int = 2, **options: Any) -> JobOut:
        """A virtual machine without a card, of so many processors and 1.5 GiB."""
        more = options.pop("vm", {})
        network = options.pop("network", None)
        vm = VmIn(cpus=cpus, ram_bytes=GIB, image="/images/one.qcow2", **more)
        body = JobIn(
            shape=ShapeIn(count=0, cpu_milli=1000 * cpus, host_bytes=3 * GIB // 2),
            launch=LaunchIn(argv=[VM_COMMAND, "/images/one.qcow2"], vm=vm, network=network),
            **options,
        )
        return self.allocations.jobs.submit_job(body, self.admin, None).first

    def job(self, name: str) -> JobOut:
        return self.allocations.jobs.get_job(name, self.admin)

    def work(self, after: int = 0, node: str = "node-1") -> list[WorkOut]:
        return self.allocations.agents.read_work(node, after).work

    def report(self, item: WorkOut, state: str, node: str = "node-1", **more: Any) -> list[str]:
        report = ReportIn(
            allocation=item.allocation, generation=item.generation, state=state, **more
        )
        return self.allocations.agents.apply_reports(node, ReportsIn(reports=[report])).stale

    def finish(self, name: str, **more: Any) -> None:
        job = self.job(name)
        item = next(item for item in self.work() if item.job == job.id)
        assert self.report(item, "ended", **{"exit_code": 0, **more}) == []

    def move_to(self, name: str, *cards: str) -> MoveIn:
        """A move of the job to these cards as they are now."""
        with self.store.read() as connection:
            rows = connection.execute(sa.select(devices.c.uuid, devices.c.generation)).all()
        generation = {row.uuid: row.generation for row in rows}
        return MoveIn(
            job=self.job(name).id,
            cards=list(cards),
            generations=[generation[card] for card in cards],
        )

    def count_jobs(self) -> dict[str, int]:
        """Count live jobs by state, with the members of arrays that have no row yet."""
        by_state = sa.select(jobs.c.state, sa.func.count()).where(IS_LIVE).group_by(jobs.c.state)
        counts = {str(state): 0 for state in LIVE}
        with self.store.read() as connection:
            for state, count in connection.execute(by_state):
                counts[state] = count
            counts[JobState.PENDING] += connection.execute(NOT_MADE).scalar_one()
        return counts

    def member(self, name: str, tenant: str, role: UserRole = UserRole.USER) -> Principal:
        from gpupool.wire.people import UserIn

        self.tenancy.users.create(self.admin, UserIn(name=name, tenant=tenant, role=role.value))
        with self.store.read() as connection:
            row = connection.execute(
                sa.text(
                    "SELECT u.id AS id, u.tenant_id AS tenant_id FROM users u WHERE u.name = :name"
                ),
                {"name": name},
            ).one()
        return Principal(row.id, name, row.tenant_id, tenant, role)

    def close(self) -> None:
        self.allocations.close()
        self.store.engine.dispose()
