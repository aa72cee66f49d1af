"""Processors and main memory by NUMA node in a real ledger: granted, told, given back, and read
again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa

from gpupool.allocations.cache.ledger_cache import LedgerCache
from gpupool.allocations.ledger.grants import write_grants
from gpupool.base.errors import GangTooLarge, NoRoomNow, StaleGeneration
from gpupool.base.units import GIB
from gpupool.model.numa import NumaNode, NumaPart, write_numa_nodes
from gpupool.scheduling.engine.cycle import cycle
from gpupool.wire.defrag import MoveIn, MovesIn
from gpupool.wire.jobs import NumaPartOut
from gpupool.wire.submissions import WithinIn
from tests.support.house import House

TWO = (NumaNode(0, (0, 1, 8, 9), 16 * GIB), NumaNode(1, (2, 3, 10, 11), 16 * GIB))
REQUIRED = WithinIn(required="numa")


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """One node of four cards, two on each of two NUMA nodes."""
    made = House(tmp_path, cards=0)
    made.register(4, numa=TWO)
    made.allocations.placer.load()
    yield made
    made.close()


def free(house: House) -> list[tuple[int, int]]:
    """Processors and GiB that the node says are free, by NUMA node."""
    return [
        (numa.free_cpu_milli, numa.free_bytes // GIB)
        for numa in house.fleet.get_node("node-1").numa
    ]


def mirrored(cache: LedgerCache) -> list[tuple[int, int]]:
    hosts = cache.build_snapshot().cards.hosts
    assert hosts is not None
    assert hosts.numa is not None
    return list(
        zip(
            hosts.numa.free_cpu_milli.tolist(),
            (hosts.numa.free_memory_bytes // GIB).tolist(),
            strict=True,
        )
    )


def reloaded(house: House) -> list[tuple[int, int]]:
    now_ns = house.store.clock.now_ns
    fresh = LedgerCache(clock=now_ns)
    with house.store.read() as connection:
        fresh.load(connection, now_ns())
    return mirrored(fresh)


def test_a_job_is_told_with_the_numa_nodes_that_it_has(house: House) -> None:
    job = house.submit(300, 8, name="near", cpu_milli=3000, host_bytes=4 * GIB)
    assert job.numa == [NumaPartOut(numa=0, cpu_milli=3000, host_bytes=4 * GIB)]
    (work,) = house.work()
    assert [(one.numa, one.cpus, one.cpu_milli) for one in work.numa] == [(0, "0-1,8-9", 3000)]
    assert (
        free(house)
        == mirrored(house.allocations.cache)
        == reloaded(house)
        == [(1000, 12), (4000, 16)]
    )


def test_what_a_job_had_comes_back_exactly_wherever_it_came_from(house: House) -> None:
    house.submit(300, 8, name="one", cpu_milli=3000, host_bytes=15 * GIB)
    house.submit(1000, None, name="two", count=3, cpu_milli=4500, host_bytes=3 * GIB)
    assert len(house.job("two").numa) == 2
    house.finish("one")
    assert free(house) == mirrored(house.allocations.cache) == reloaded(house)
    house.finish("two")
    assert (
        free(house)
        == mirrored(house.allocations.cache)
        == reloaded(house)
        == [(4000, 16), (4000, 16)]
    )


def test_jobs_without_processors_or_memory_have_no_part_of_any_numa_node(house: House) -> None:
    assert house.submit(300, 8, name="cards-only").numa == []
    assert free(house) == [(4000, 16), (4000, 16)]


def test_a_required_numa_node_that_nobody_has_is_refused_at_once_with_the_numbers(
    house: House,
) -> None:
    with pytest.raises(
        GangTooLarge, match=r"5 processors of one NUMA node; nearest is NUMA node 0 .* 4 processors"
    ):
        house.submit(300, 8, name="wide", cpu_milli=5000, within=REQUIRED)


def test_a_required_numa_node_that_is_in_use_is_waited_for_with_the_numbers(house: House) -> None:
    for name in ("a", "b"):
        house.submit(1000, None, name=name, count=2, cpu_milli=2500, within=REQUIRED)
    assert [house.job(name).numa[0].numa for name in "ab"] == [0, 1]
    house.finish("a")
    house.submit(300, 8, name="c", cpu_milli=1000)
    with pytest.raises(
        NoRoomNow, match="nearest is NUMA node 0 of node-1 with 2 cards and 3 processors free"
    ):
        house.submit(300, 8, name="d", cpu_milli=3500, within=REQUIRED, wait=False)
    waits = house.submit(300, 8, name="d", cpu_milli=3500, within=REQUIRED)
    assert waits.state == "pending"
    house.finish("c")
    house.allocations.placer.run_cycle()
    assert house.job("d").numa == [NumaPartOut(numa=0, cpu_milli=3500, host_bytes=0)]


def test_a_numa_node_that_has_shrunk_since_the_plan_makes_it_stale(house: House) -> None:
    house.submit(1000, None, name="first", count=4)
    house.submit(300, 8, name="later", cpu_milli=3000)
    house.finish("first")
    plan = cycle(house.allocations.cache.build_snapshot(), 0)
    house.register(
        4, numa=(replace(TWO[0], cpus=(0, 1)), NumaNode(1, tuple(range(2, 16)), 16 * GIB))
    )
    with pytest.raises(StaleGeneration), house.store.write() as write:
        write_grants(write, house.metering, plan.placements)
    assert house.job("later").state == "pending"
    house.allocations.placer.run_cycle()
    assert house.job("later").numa == [NumaPartOut(numa=1, cpu_milli=3000, host_bytes=0)]


def test_a_node_that_shows_other_numa_nodes_than_its_jobs_have_goes_on(house: House) -> None:
    house.submit(300, 8, name="old", cpu_milli=3000)
    house.register(4, numa=(NumaNode(7, tuple(range(8)), 32 * GIB),))
    house.allocations.placer.refresh_cache()
    assert house.work()[0].numa == []
    house.submit(300, 8, name="new", cpu_milli=5000)
    assert house.job("new").numa[0].numa == 7
    for name in ("old", "new"):
        house.finish(name)
    assert mirrored(house.allocations.cache) == reloaded(house) == [(8000, 32)]


def test_jobs_from_before_numa_nodes_were_known_count_for_the_node_alone(house: House) -> None:
    house.submit(300, 8, name="old", cpu_milli=3000)
    with house.store.write() as write:
        write.execute(sa.text("UPDATE allocations SET numa = NULL"))
        write.execute(sa.text("UPDATE nodes SET used_numa = '[]'"))
    house.allocations.placer.load()
    node = house.fleet.get_node("node-1")
    assert (node.free_cpu_milli, [one.free_cpu_milli for one in node.numa]) == (5000, [4000, 4000])
    assert house.submit(300, 8, name="most", cpu_milli=5000).state == "starting"
    with pytest.raises(NoRoomNow):
        house.submit(300, 8, name="more", cpu_milli=1, wait=False)
    for name in ("old", "most"):
        house.finish(name)
    assert free(house) == reloaded(house) == [(4000, 16), (4000, 16)]


def test_a_job_that_moves_has_the_numa_node_of_its_new_card(house: House) -> None:
    job = house.submit(1000, None, name="mover", cpu_milli=3000, preemptible=True, within=REQUIRED)
    (item,) = house.work()
    house.report(item, "running", started_ns=5)
    to = house.fleet.get_device("node-1:3", house.admin)
    house.allocations.migrations.apply_moves(
        MovesIn(moves=[MoveIn(job=job.id, cards=[to.uuid], generations=[to.generation])])
    )
    house.report(house.work()[0], "ended", reason="stopped", signal=15)
    house.allocations.placer.run_cycle()
    moved = house.job("mover")
    assert (moved.seats[0].device, [part.numa for part in moved.numa]) == ("node-1:3", [1])


def test_nodes_of_which_nothing_is_known_give_processors_to_nobody_and_say_so(
    tmp_path: Path,
) -> None:
    silent = House(tmp_path)
    silent.register(2, "node-2", facts={"numa": write_numa_nodes(TWO)})
    silent.allocations.placer.load()
    assert silent.submit(300, 8, name="j", cpu_milli=1000).node == "node-2"
    assert silent.fleet.get_node("node-1").cpu_milli is None
    silent.close()


def test_a_pool_that_knows_nothing_of_its_hosts_grants_what_it_plans(tmp_path: Path) -> None:
    silent = House(tmp_path)
    assert silent.submit(300, 8, name="j", cpu_milli=1000).state == "starting"
    silent.close()


def test_parts_of_a_plan_are_what_the_ledger_has(house: House) -> None:
    house.submit(1000, None, name="j", count=4, cpu_milli=6000, host_bytes=8 * GIB)
    with house.store.read() as connection:
        (held,) = connection.execute(sa.text("SELECT numa FROM allocations")).scalars()
    assert json.loads(held) == [[0, 3000, 4 * GIB], [1, 3000, 4 * GIB]]
    (running,) = house.allocations.cache.build_snapshot().running
    assert running.numa == (NumaPart(0, 3000, 4 * GIB), NumaPart(1, 3000, 4 * GIB))
