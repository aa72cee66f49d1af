"""What was noted is what the scheduler sees, however it came in."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpupool.base.units import GIB
from gpupool.kubernetes.hosts import Host
from gpupool.kubernetes.objects import Entry, GpuNode
from gpupool.kubernetes.pods import read_pod
from gpupool.kubernetes.pool import Pool
from gpupool.kubernetes.reported import SlotUse
from gpupool.model.allocation import Seat
from gpupool.scheduling.cycle import cycle
from gpupool.scheduling.snapshot import CARD_STATUS, CardStatus, Plan
from tests.support.kube_builders import asking, gpu_node, node, pod


@pytest.fixture
def pool() -> Pool:
    made = Pool()
    for name in ("n0", "n1"):
        note_node(made, name)
    return made


def note_node(pool: Pool, name: str, **more: Any) -> None:
    pool.note_host(name, Host.from_json(node(name, **more)))
    pool.note_ledger(name, GpuNode.from_json(gpu_node(name)))


def note(pool: Pool, *pods: dict[str, Any]) -> None:
    for each in pods:
        pool.note_pod(each["metadata"]["uid"], read_pod(each))


def plan(pool: Pool) -> Plan:
    return cycle(pool.snapshot(), 0)


def hold(pool: Pool, name: str, uid: str, milli: int, size: int) -> None:
    entry = Entry(uid, "default", uid, "main", (Seat(f"GPU-{name}-0", milli, size),), "default")
    known = pool.ledgers[name]
    assert pool.note_ledger(name, replace(known, entries=(*known.entries, entry), version=known.version + 1))


def test_a_gated_pod_is_placed_and_a_plan_names_the_ledgers_version(pool: Pool) -> None:
    note(pool, pod())
    (placement,) = plan(pool).placements
    assert placement.job == "uid-a/main"
    assert placement.generations == (1,)
    assert placement.seats[0].memory_bytes == 8 * GIB


def test_what_a_ledger_holds_is_not_free(pool: Pool) -> None:
    hold(pool, "n0", "x", 800, 40 * GIB)
    cards = pool.snapshot().cards
    row = cards.uuids.index("GPU-n0-0")
    assert (cards.free_milli[row], cards.free_bytes[row], cards.generation[row]) == (200, 8 * GIB, 2)


def test_a_pod_with_an_entry_waits_no_more_and_counts_on_its_node(pool: Pool) -> None:
    asks = pod(spec={"nodeSelector": {}})
    asks["spec"]["containers"][0]["resources"]["limits"]["cpu"] = "4"
    note(pool, asks)
    assert len(pool.queue) == 1
    hold(pool, "n0", "uid-a", 300, 8 * GIB)
    assert len(pool.queue) == 0
    hosts = pool.snapshot().cards.hosts
    assert hosts is not None
    assert hosts.free_cpu_milli.tolist() == [60_000, 64_000]
    pool.note_pod("uid-a", None)
    hosts = pool.snapshot().cards.hosts
    assert hosts is not None
    assert hosts.free_cpu_milli.tolist() == [64_000, 64_000]


def test_a_ledger_that_was_read_since_is_noted_though_its_version_is_lower(pool: Pool) -> None:
    hold(pool, "n0", "x", 800, 40 * GIB)
    assert pool.note_ledger("n0", GpuNode.from_json(gpu_node("n0")), sure=True)
    assert (pool.ledger_of("x"), pool.snapshot().cards.free_milli[0]) == ("", 1000)


def test_an_older_ledger_is_not_noted(pool: Pool) -> None:
    hold(pool, "n0", "x", 800, GIB)
    assert not pool.note_ledger("n0", GpuNode.from_json(gpu_node("n0")))
    assert pool.snapshot().cards.free_milli[0] == 200


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"mode": "observe"}, CardStatus.NOT_ADOPTED),
        ({"mode": "slot"}, CardStatus.OPEN),
    ],
)
def test_only_adopted_nodes_are_open(change: dict[str, Any], status: CardStatus) -> None:
    pool = Pool()
    pool.note_host("n0", Host.from_json(node("n0")))
    pool.note_ledger("n0", GpuNode.from_json(gpu_node("n0", **change)))
    assert set(pool.snapshot().cards.status.tolist()) == {CARD_STATUS.index(status)}


def test_a_node_whose_agent_or_kubelet_is_silent_takes_nothing() -> None:
    silent = gpu_node("n0")
    silent["status"]["conditions"] = []
    pool = Pool()
    pool.note_host("n0", Host.from_json(node("n0")))
    pool.note_ledger("n0", GpuNode.from_json(silent))
    assert pool.snapshot().cards.status.tolist() == [CARD_STATUS.index(CardStatus.UNHEALTHY)] * 4


def test_a_node_whose_cards_are_held_without_an_entry_takes_nothing_until_they_are_free(pool: Pool) -> None:
    for name in ("n0", "n1"):
        pool.note_ledger(name, replace(pool.ledgers[name], slots=(SlotUse("uid-lost", "main"),)))
    note(pool, pod())
    assert not plan(pool).placements
    pool.note_ledger("n1", replace(pool.ledgers["n1"], slots=(SlotUse("uid-lost", "main", released=True),)))
    assert [placement.node for placement in plan(pool).placements] == ["n1"]


def test_a_pod_goes_only_where_its_selector_and_taints_let_it() -> None:
    pool = Pool()
    note_node(pool, "n0")
    note_node(pool, "n1", zone="b")
    note(pool, pod("a", spec={"nodeSelector": {"zone": "b"}}), pod("b", spec={"nodeSelector": {"zone": "c"}}))
    found = plan(pool)
    assert [(one.job, one.node) for one in found.placements] == [("uid-a/main", "n1")]
    (rejection,) = found.rejections.values()
    assert not rejection.fits_ever


def test_a_cordoned_node_takes_nobody_and_comes_back() -> None:
    pool = Pool()
    note_node(pool, "n0")
    cordoned = node("n0")
    cordoned["spec"]["unschedulable"] = True
    note(pool, pod())
    pool.note_host("n0", Host.from_json(cordoned))
    assert not plan(pool).placements
    pool.note_host("n0", Host.from_json(node("n0")))
    assert plan(pool).placements


def test_processors_are_placed_together_with_cards(pool: Pool) -> None:
    asks = [pod(name, spec={}) for name in "abc"]
    for each in asks:
        each["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "60"}
    note(pool, *asks)
    found = plan(pool)
    assert len(found.placements) == 2
    assert {one.node for one in found.placements} == {"n0", "n1"}


def test_two_containers_with_cards_come_to_one_node_or_not_at_all(pool: Pool) -> None:
    note(pool, pod(containers={"one": asking(3, 1000, None), "two": asking(1, 500, GIB)}))
    found = plan(pool).placements
    assert sorted(one.job for one in found) == ["uid-a/one", "uid-a/two"]
    assert len({one.node for one in found}) == 1
    note(pool, pod(containers={"one": asking(4, 1000, None), "two": asking(1, 500, GIB)}))
    assert not plan(pool).placements


def test_a_node_without_room_for_another_pod_takes_none() -> None:
    pool = Pool()
    note_node(pool, "n0", pods="0")
    note(pool, pod())
    assert not plan(pool).placements


def test_nodes_and_pods_that_vanish_are_forgotten(pool: Pool) -> None:
    note(pool, pod())
    pool.note_pod("uid-a", None)
    pool.note_host("n0", None)
    assert pool.snapshot().cards.nodes == ("n1",)
    assert pool.snapshot().waiting == ()


def test_the_oldest_of_a_class_come_first(pool: Pool) -> None:
    later, sooner = pod("a"), pod("b")
    later["metadata"]["creationTimestamp"] = "2026-11-22T00:00:09Z"
    note(pool, later, sooner)
    (waiting,) = pool.snapshot().waiting
    assert waiting.heads == ("uid-b/main", "uid-a/main")


def test_what_stands_in_a_ledger_runs_and_says_what_it_holds(pool: Pool) -> None:
    running = pod(spec={"nodeName": "n1", "schedulingGates": [], "activeDeadlineSeconds": 60})
    running["status"] = {"startTime": "2026-11-22T00:00:10Z"}
    note(pool, running)
    hold(pool, "n1", "uid-a", 300, 8 * GIB)
    (job,) = pool.snapshot().running
    assert (job.job, job.rows, job.milli, job.sizes) == ("uid-a/main", (4,), (300,), (8 * GIB,))
    assert job.ends_ns is not None
    assert job.ends_ns - job.started_ns == 60 * 10**9
    note_node(pool, "m0")
    (job,) = pool.snapshot().running
    assert pool.snapshot().cards.uuids[job.rows[0]] == "GPU-n1-0"


def test_a_node_of_whole_cards_takes_whole_ones_alone_and_says_so_of_others(pool: Pool) -> None:
    for name in ("n0", "n1"):
        pool.note_ledger(name, GpuNode.from_json(gpu_node(name, mode="whole", version=2)))
    share, part_of_memory = pod("a"), pod("b", {"main": asking(1, 1000, 8 * GIB)})
    note(pool, share, part_of_memory, pod("c", {"main": asking(2, 1000, None)}))
    assert [one.job for one in plan(pool).placements] == ["uid-c/main"]
    pool.note_ledger("n0", GpuNode.from_json(gpu_node("n0", mode="slot", version=3)))
    assert {one.node for one in plan(pool).placements if one.job != "uid-c/main"} == {"n0"}
