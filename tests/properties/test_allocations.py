"""What always holds of the ledger, whatever tenants, nodes and crashes do, in any order.

One machine drives the real rooms on a real SQLite file: it submits, reports (late, twice,
out of date), stops, changes quotas, adopts and releases cards, and restarts the server.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

import sqlalchemy as sa
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from gpupool.allocations.service import Allocations
from gpupool.allocations.store.tables import allocations, jobs, seats
from gpupool.base.errors import RequestRejection
from gpupool.base.units import GIB
from gpupool.fleet.tables import devices, nodes
from gpupool.metering.tables import intervals
from gpupool.model.job import LIVE
from gpupool.tenancy.tables import tenants
from gpupool.wire.fleet import WorkOut
from gpupool.wire.people import QuotaIn
from tests.support.house import House
from tests.support.properties import whole_pools

TENANTS = ("red", "blue")
ENDS = st.sampled_from(
    [
        {"state": "ended", "exit_code": 0},
        {"state": "ended", "exit_code": 1},
        {"state": "lost"},
        {"state": "not_started"},
        {"state": "running"},
        {"state": "prepared"},
    ]
)


#: Of the node.
CPUS = 8


class Ledger(RuleBasedStateMachine):
    """Three cards of 140 GiB on a node of 8 processors, two tenants."""

    @initialize()
    def build(self) -> None:
        self.directory = tempfile.TemporaryDirectory()
        self.house = House(Path(self.directory.name), cards=0)
        self.house.register(3, facts={"cpu_count": CPUS, "memory_bytes": 64 * GIB})
        self.house.allocations.placer.load()
        for name in TENANTS:
            self.house.tenancy.tenants.create(self.house.admin, name, None)
        self.told: list[WorkOut] = []

    def teardown(self) -> None:
        if hasattr(self, "house"):
            self.house.close()
            self.directory.cleanup()

    @rule(
        gpu_milli=st.sampled_from([1, 100, 300, 500, 999, 1000]),
        memory=st.sampled_from([None, 1, 40, 139, 140]),
        count=st.integers(1, 3),
        tenant=st.sampled_from(TENANTS),
        sharing=st.sampled_from(["fixed", "burst", "best-effort"]),
        wait=st.booleans(),
    )
    def submit(
        self, gpu_milli: int, memory: int | None, count: int, tenant: str, sharing: str, wait: bool
    ) -> None:
        before = self.rows()
        try:
            self.house.submit(
                gpu_milli, memory, count=count, tenant=tenant, sharing=sharing, wait=wait
            )
        except RequestRejection as refusal:
            assert refusal.code.startswith("GP-2")
            assert self.rows() == before

    @rule(
        cpus=st.sampled_from([1, 3, CPUS, CPUS + 1]),
        tenant=st.sampled_from(TENANTS),
        wait=st.booleans(),
    )
    def submit_without_a_card(self, cpus: int, tenant: str, wait: bool) -> None:
        before = self.rows()
        try:
            self.house.submit_vm(cpus, tenant=tenant, wait=wait)
        except RequestRejection as refusal:
            assert refusal.code.startswith("GP-2")
            assert self.rows() == before

    @rule(end=ENDS, which=st.integers(0, 20), again=st.booleans(), stale=st.booleans())
    def report(self, end: dict[str, object], which: int, again: bool, stale: bool) -> None:
        work = self.house.work()
        if not work:
            return
        item = work[which % len(work)]
        self.told.append(item)
        if stale:
            item = item.model_copy(update={"generation": item.generation - 1})
        for _ in range(2 if again else 1):
            self.house.report(item, **end)  # type: ignore[arg-type]

    @rule(which=st.integers(0, 20))
    def report_long_after(self, which: int) -> None:
        if self.told:
            self.house.report(self.told[which % len(self.told)], "ended", exit_code=0)

    @rule(which=st.integers(0, 20))
    def stop(self, which: int) -> None:
        live = self.live()
        if live:
            self.house.allocations.jobs.stop_job(live[which % len(live)], self.house.admin, None)

    @rule(
        tenant=st.sampled_from(TENANTS),
        nominal=st.sampled_from([None, 0, 500, 2000]),
        borrowing=st.integers(0, 1000),
    )
    def change_quota(self, tenant: str, nominal: int | None, borrowing: int) -> None:
        quota = QuotaIn(nominal_milli=nominal, borrowing_milli=borrowing)
        self.house.tenancy.put_quota(self.house.admin, tenant, quota)

    @rule(card=st.integers(0, 2), adopt=st.booleans())
    def adopt_or_drain(self, card: int, adopt: bool) -> None:
        try:
            if adopt:
                self.house.fleet.adopt_devices([f"node-1:{card}"], self.house.admin)
            else:
                self.house.fleet.release_devices([f"node-1:{card}"], True, self.house.admin)
        except RequestRejection as refusal:
            assert refusal.hint

    @rule()
    def place(self) -> None:
        self.house.allocations.placer.run_cycle()

    @rule()
    def restart(self) -> None:
        house = self.house
        house.allocations = Allocations(house.store, house.tenancy, house.fleet, house.metering)
        house.allocations.placer.load()

    # --- what always holds ---------------------------------------------------------------

    @invariant()
    def cards_hold_what_their_seats_add_up_to_and_never_more_than_they_have(self) -> None:
        if not hasattr(self, "house"):
            return
        with self.house.store.read() as connection:
            held = self._held(connection)
            sums: dict[int, Counter[str]] = {}
            for seat in held:
                sums.setdefault(seat.device_id, Counter()).update(
                    m=seat.gpu_milli, b=seat.memory_bytes, n=1
                )
            for card in connection.execute(sa.select(devices)):
                use = sums.get(card.id, Counter())
                assert (card.used_milli, card.used_bytes, card.shares) == (
                    use["m"],
                    use["b"],
                    use["n"],
                )
                assert card.used_milli <= 1000
                assert card.used_bytes <= 140 * GIB

    @invariant()
    def the_node_gives_what_its_jobs_ask_and_never_more_than_it_has(self) -> None:
        if not hasattr(self, "house"):
            return
        with self.house.store.read() as connection:
            asked = connection.execute(
                sa.select(
                    sa.func.coalesce(sa.func.sum(allocations.c.cpu_milli), 0),
                    sa.func.coalesce(sa.func.sum(allocations.c.host_bytes), 0),
                ).where(allocations.c.state != "released")
            ).one()
            used = connection.execute(
                sa.select(nodes.c.used_cpu_milli, nodes.c.used_host_bytes)
            ).one()
        assert tuple(used) == tuple(asked)
        assert used.used_cpu_milli <= 1000 * CPUS
        hosts = self.house.allocations.cache.build_snapshot().cards.hosts
        assert hosts is not None
        assert hosts.free_cpu_milli.tolist() == [1000 * CPUS - used.used_cpu_milli]

    @invariant()
    def tenants_hold_what_their_seats_add_up_to(self) -> None:
        if not hasattr(self, "house"):
            return
        with self.house.store.read() as connection:
            sums: dict[int, Counter[str]] = {}
            for seat in self._held(connection):
                sums.setdefault(seat.tenant_id, Counter()).update(
                    m=seat.gpu_milli, b=seat.memory_bytes
                )
            for tenant in connection.execute(sa.select(tenants)):
                use = sums.get(tenant.id, Counter())
                assert (tenant.held_milli, tenant.held_memory_bytes) == (use["m"], use["b"])

    @invariant()
    def a_live_job_that_was_placed_has_one_allocation_and_no_other_has_any(self) -> None:
        if not hasattr(self, "house"):
            return
        with self.house.store.read() as connection:
            query = sa.select(allocations.c.job_id).where(allocations.c.state != "released")
            holders = Counter(connection.execute(query).scalars())
            placed = set(
                connection.execute(
                    sa.select(jobs.c.id).where(jobs.c.state.in_(["starting", "running"]))
                ).scalars()
            )
            assert set(holders) == placed
            assert all(count == 1 for count in holders.values())

    @invariant()
    def the_meter_runs_for_exactly_the_seats_that_are_held(self) -> None:
        if not hasattr(self, "house"):
            return
        with self.house.store.read() as connection:
            running = connection.execute(
                sa.select(intervals.c.allocation_id, intervals.c.device_id).where(
                    intervals.c.end_s.is_(None)
                )
            )
            held = {(seat.allocation_id, seat.device_id) for seat in self._held(connection)}
            assert {tuple(row) for row in running} == held

    @invariant()
    def the_queue_in_memory_is_the_queue_in_the_books(self) -> None:
        if not hasattr(self, "house"):
            return
        with self.house.store.read() as connection:
            query = sa.select(sa.func.count()).where(jobs.c.state == "pending")
            assert (
                connection.execute(query).scalar_one()
                == self.house.allocations.cache.count_waiting()
            )

    # --- looking --------------------------------------------------------------------------

    def _held(self, connection: sa.Connection) -> list[sa.Row[tuple[object, ...]]]:
        query = (
            sa.select(seats, jobs.c.tenant_id)
            .join(allocations, allocations.c.id == seats.c.allocation_id)
            .join(jobs, jobs.c.id == allocations.c.job_id)
            .where(allocations.c.state != "released")
        )
        return list(connection.execute(query))

    def live(self) -> list[str]:
        with self.house.store.read() as connection:
            query = sa.select(jobs.c.public_id).where(jobs.c.state.in_(LIVE)).order_by(jobs.c.id)
            return list(connection.execute(query).scalars())

    def rows(self) -> int:
        with self.house.store.read() as connection:
            return connection.execute(sa.select(sa.func.count()).select_from(jobs)).scalar_one()


Ledger.TestCase.settings = settings(
    whole_pools,
    max_examples=12,
    stateful_step_count=30,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestLedger = Ledger.TestCase
