"""What tenants hold, held and may hold, as the scheduler is told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpupool.base.units import GIB
from gpupool.kubernetes.cache import tenant_usage
from gpupool.kubernetes.cache.cluster import ClusterCache
from gpupool.kubernetes.resources.gpu_node import Entry, GpuNode
from gpupool.kubernetes.resources.node import NodeFacts
from gpupool.kubernetes.resources.pod import read_pod
from gpupool.kubernetes.resources.tenant import TenantSpec, build_tree
from gpupool.model.allocation import Seat
from gpupool.model.claim import Shape
from gpupool.model.quota import ResourceAmount
from gpupool.model.reservation import Reservation
from gpupool.scheduling.engine.cycle import cycle
from gpupool.scheduling.quota.usage_decay import HALF_LIFE_S
from gpupool.scheduling.snapshot.claims import ClassKey
from gpupool.scheduling.snapshot.plan import PlannedStart
from tests.support.kube_builders import asking, gpu_node, node, pod, tenant

NS = 10**9
TREE = {
    "top": tenant("top", limits={"gpu": {"nominal": "3", "borrowing": "0"}}),
    "a": tenant("a", "top", ["team-a"], limits={"gpu": {"nominal": "1", "borrowing": "0"}}),
    "b": tenant("b", "top", ["team-b"], weight=3),
}


def pool_with(tree: dict[str, object] | None = None) -> ClusterCache:
    made = ClusterCache()
    made.note_host("n0", NodeFacts.from_json(node("n0")))
    made.note_ledger("n0", GpuNode.from_json(gpu_node("n0")))
    made.note_tenants(
        build_tree(
            {name: TenantSpec.from_json(one["spec"]) for name, one in (tree or TREE).items()}
        )
    )  # type: ignore[index]
    return made


def hold(pool: ClusterCache, uid: str, tenant_name: str, card: int) -> None:
    entry = Entry(uid, "x", uid, "main", (Seat(f"GPU-n0-{card}", 1000, 8 * GIB),), tenant_name)
    known = pool.ledgers["n0"]
    pool.note_ledger(
        "n0", replace(known, entries=(*known.entries, entry), version=known.version + 1)
    )


def wait(pool: ClusterCache, name: str, namespace: str) -> None:
    made = pod(name, {"main": asking(1, 1000, None)}, namespace=namespace, preemptible=True)
    pool.note_pod(made["metadata"]["uid"], read_pod(made))


def test_a_namespace_is_its_tenants_and_limits_hold_there() -> None:
    pool = pool_with()
    wait(pool, "one", "team-a")
    wait(pool, "two", "team-a")
    plan = cycle(pool.take_snapshot(), 0)
    assert len(plan.placements) == 1
    (rejection,) = plan.rejections.values()
    assert "tenant a" in rejection.sentence
    assert {entry.tenant for entry in pool.take_snapshot().waiting} == {"a"}


def test_the_limit_of_those_above_holds_for_all_below_together() -> None:
    pool = pool_with()
    for n in range(4):
        wait(pool, f"b{n}", "team-b")
    assert len(cycle(pool.take_snapshot(), 0).placements) == 3


def test_a_tenant_of_weight_0_starts_after_its_siblings_though_it_came_first() -> None:
    tree = {
        **TREE,
        "a": tenant("a", "top", ["team-a"], weight=0),
        "b": tenant("b", "top", ["team-b"]),
    }
    pool = pool_with(tree)
    wait(pool, "a0", "team-a")
    hold(pool, "uid-b", "b", 0)
    for n in range(2):
        wait(pool, f"b{n}", "team-b")
    plan = cycle(pool.take_snapshot(), 0)
    assert sorted(placement.job for placement in plan.placements) == ["uid-b0/main", "uid-b1/main"]


def test_a_snapshot_names_the_tree_as_an_sql_pool_does() -> None:
    snapshot = pool_with().take_snapshot()
    assert set(snapshot.cohorts) == {"top"}
    view = snapshot.tenants["b"]
    assert (view.cohort, view.weight_milli, view.quota.nominal_milli) == ("top", 3000, None)


def test_pods_that_wait_change_tenant_with_the_tree_and_what_is_held_does_not() -> None:
    pool = pool_with()
    hold(pool, "uid-x", "a", 0)
    wait(pool, "one", "team-a")
    pool.note_tenants(build_tree({"c": TenantSpec(namespaces=("team-a",))}))
    snapshot = pool.take_snapshot()
    assert [entry.tenant for entry in snapshot.waiting] == ["c"]
    assert (snapshot.tenants["a"].held, snapshot.tenants["c"].held) == (
        ResourceAmount(1000, 8 * GIB),
        ResourceAmount(),
    )


def test_held_and_waiting_are_added_up_to_the_top() -> None:
    pool = pool_with()
    hold(pool, "uid-x", "a", 0)
    hold(pool, "uid-y", "b", 1)
    wait(pool, "one", "team-a")
    assert pool.tenant_usage.held_amounts()["top"] == ResourceAmount(2000, 16 * GIB)
    assert pool.tenant_usage.sum_with_descendants(pool.queue.count_by_tenant()) == {
        "a": 1,
        "top": 1,
    }


def test_the_past_is_what_was_held_and_half_of_it_after_a_half_life() -> None:
    pool = pool_with()
    pool.take_snapshot(0)
    hold(pool, "uid-x", "a", 0)
    assert pool.take_snapshot(100 * NS).tenants["a"].past == 0
    known = pool.ledgers["n0"]
    used = pool.take_snapshot(200 * NS).tenants["a"].past
    assert 99_900_000 < used <= 100_000_000
    pool.note_ledger("n0", replace(known, entries=(), version=known.version + 1))
    pool.take_snapshot(200 * NS)
    assert abs(pool.take_snapshot((200 + HALF_LIFE_S) * NS).tenants["a"].past - used // 2) <= 1


def release_all(pool: ClusterCache) -> None:
    known = pool.ledgers["n0"]
    pool.note_ledger("n0", replace(known, entries=(), version=known.version + 1))


def test_a_namespace_whose_pods_are_gone_leaves_the_snapshot_and_keeps_its_past() -> None:
    pool = pool_with()
    hold(pool, "uid-x", "run-1", 0)
    assert set(pool.take_snapshot(0).tenants) - set(TREE) == {"run-1"}
    release_all(pool)
    assert set(pool.take_snapshot(100 * NS).tenants) == set(TREE)
    wait(pool, "again", "run-1")
    snapshot = pool.take_snapshot(200 * NS)
    assert snapshot.tenants["run-1"].held == ResourceAmount()
    assert 0 < snapshot.tenants["run-1"].past < 100_000_000


def test_past_usage_is_kept_of_the_namespaces_that_used_most(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tenant_usage, "MOST_PAST", 2)
    pool = pool_with()
    for number, seconds in enumerate((300, 5, 200, 10)):
        pool.take_snapshot(number * 1000 * NS)
        hold(pool, f"uid-{number}", f"run-{number}", 0)
        pool.take_snapshot(number * 1000 * NS)
        release_all(pool)
        pool.take_snapshot((number * 1000 + seconds) * NS)
    names = [f"run-{number}" for number in range(4)]
    for name in names:
        wait(pool, f"pod-of-{name}", name)
    tenants = pool.take_snapshot(5000 * NS).tenants
    assert [bool(tenants[name].past) for name in names] == [True, False, True, False]


def test_tenants_of_reservations_and_promises_stay_in_the_snapshot() -> None:
    pool = pool_with()
    pool.reservations = (Reservation("r", "held-for", Shape(1000), 10 * NS, 20 * NS),)
    key = ClassKey("promised", 0, Shape(1000))
    pool.promises.by_class = {
        key: PlannedStart(10, (0,), reserved=True, claim="a", firm=True, devices=("GPU-n0-0",))
    }
    assert set(pool.take_snapshot(0).tenants) - set(TREE) == {"held-for", "promised"}
