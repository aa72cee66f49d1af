"""A VM without a card in a real ledger: placed on a node, seen by its agent, booked and released."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from gpupool.allocations.cache.ledger_cache import LedgerCache
from gpupool.allocations.store.tables import allocations, seats
from gpupool.base.errors import BadOption, RequestRejection
from gpupool.base.units import GIB
from gpupool.fleet.tables import devices
from gpupool.metering.tables import delivered, intervals
from gpupool.model.claim import Shape
from gpupool.simulation.traces.job_drafts import parse_shape
from gpupool.store.tables import events
from gpupool.wire.jobs import ResizeIn
from gpupool.wire.samples import JobSample
from tests.support.house import House

FACTS = {"cpu_count": 4, "memory_bytes": 16 * GIB}


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """One node of two cards, 4 processors and 16 GiB."""
    made = House(tmp_path, cards=0)
    made.register(2, facts=FACTS)
    made.allocations.placer.load()
    yield made
    made.close()


def free_processors(cache: LedgerCache) -> list[int]:
    hosts = cache.build_snapshot().cards.hosts
    assert hosts is not None
    return hosts.free_cpu_milli.tolist()


def count_rows(house: House, table: sa.Table) -> int:
    with house.store.read() as connection:
        return int(connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one())


def reload_cache(house: House) -> LedgerCache:
    """The cache as a server that starts has it."""
    found = LedgerCache()
    with house.store.read() as connection:
        found.load(connection, 0)
    return found


def test_a_vm_without_a_card_holds_processors_of_its_node_and_no_seat(house: House) -> None:
    job = house.submit_vm(name="build")
    assert (job.state, job.node, job.device, job.seats) == ("starting", "node-1", None, [])
    assert (job.count, job.share, job.cpu_milli) == (0, "no GPU", 2000)
    assert count_rows(house, seats) == 0
    assert free_processors(house.allocations.cache) == [2000]
    (work,) = house.work()
    assert (work.node, work.seats, work.cpu_milli) == ("node-1", [], 2000)
    with house.store.read() as connection:
        used = connection.execute(sa.select(devices.c.shares, devices.c.used_milli)).all()
    assert [tuple(row) for row in used] == [(0, 0), (0, 0)]


def test_what_is_released_lets_the_next_one_start(house: House) -> None:
    house.submit_vm(3, name="build")
    second = house.submit_vm(3, name="second")
    assert second.state == "pending"
    assert "lack processors" in second.reason
    house.finish("build")
    house.allocations.placer.run_cycle()
    assert house.job("second").state == "starting"
    house.finish("second")
    assert free_processors(house.allocations.cache) == [4000]
    with house.store.read() as connection:
        states = connection.execute(sa.select(allocations.c.state)).scalars().all()
    assert states == ["released", "released"]


def test_a_server_that_starts_knows_the_job_and_what_it_holds(house: House) -> None:
    job = house.submit_vm(name="build")
    found = reload_cache(house)
    assert free_processors(found) == [2000]
    (running,) = found.build_snapshot().running
    assert (running.job, running.rows, running.node) == (job.id, (), 0)
    assert found.build_snapshot().running == house.allocations.cache.build_snapshot().running


def test_its_card_time_is_nothing_and_its_processor_time_is_booked(house: House) -> None:
    job = house.submit_vm(name="build")
    (work,) = house.work()
    house.report(work, "running", started_ns=5)
    house.metering.record_samples([JobSample(job=job.id, cpu_milliseconds=1500)])
    house.finish("build", cpu_milliseconds=2500)
    assert count_rows(house, intervals) == 0
    with house.store.read() as connection:
        rows = connection.execute(
            sa.select(sa.func.sum(delivered.c.cpu_milliseconds), sa.func.count())
        ).one()
    assert tuple(rows) == (2500, 1)


def test_a_node_without_an_open_card_takes_no_vm(house: House) -> None:
    house.fleet.release_devices(["node-1:0", "node-1:1"], False, house.admin)
    house.allocations.placer.load()
    waits = house.submit_vm(name="build")
    assert waits.state == "pending"
    assert "all 2 cards are not adopted" in waits.reason


@pytest.mark.parametrize("option", [{"preemptible": True}, {"reservation": "mine"}])
def test_what_is_about_cards_is_refused(house: House, option: dict[str, Any]) -> None:
    with pytest.raises(BadOption, match="not preemptible and uses no reservation"):
        house.submit_vm(name="build", **option)


def test_there_is_no_share_to_resize_or_to_suspend(house: House) -> None:
    house.submit_vm(name="build")
    (work,) = house.work()
    house.report(work, "running", started_ns=5)
    with pytest.raises(RequestRejection, match="has no share that could be resized"):
        house.allocations.resizes.resize_job("build", ResizeIn(gpu_milli=500), house.admin)
    with pytest.raises(RequestRejection, match="its suspension would free none"):
        house.allocations.suspensions.suspend_job("build", house.admin)


def test_more_than_any_node_has_is_refused_at_once(house: House) -> None:
    with pytest.raises(RequestRejection, match=r"needs 9 processors .* nodes have at most 4"):
        house.submit_vm(9, name="build")


def test_the_log_of_a_pool_says_what_it_asked_for(house: House) -> None:
    house.submit_vm(name="build")
    with house.store.read() as connection:
        data = connection.execute(
            sa.select(events.c.data).where(events.c.kind == "job.submitted")
        ).scalar_one()
    asked = Shape(0, None, 0, cpu_milli=2000, host_bytes=3 * GIB // 2)
    assert parse_shape(data["shape"]) == asked
