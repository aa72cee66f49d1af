"""Two replicas of the controller: one leads, and whatever happens to it, the other goes on and
gives no card twice."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from gpupool.kubernetes.ledger import ledger
from gpupool.kubernetes.manifests import install
from gpupool.kubernetes.resources.gpu_node import GpuNode
from tests.support.cluster.api import Api
from tests.support.cluster.cluster import Cluster
from tests.support.cluster.pods import is_bound
from tests.support.cluster_pool import ClusterPool, fresh
from tests.support.kube_builders import asking, pod
from tests.support.kube_faults.agents import Agents
from tests.support.kube_faults.doors import Doors, Trap
from tests.support.kube_faults.replicas import Replica, Replicas, doors_of

LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{install.NAMESPACE}/leases/{install.CONTROLLER}"
LIMIT_SECONDS = 90.0
CARDS = 2


class Two(NamedTuple):
    leader: Replica
    second: Replica


@pytest.fixture(scope="module")
def doors(cluster: Cluster) -> Iterator[Doors]:
    with doors_of(cluster) as made:
        yield made


@pytest.fixture(scope="module")
def agents(cluster: Cluster) -> Agents:
    return Agents(cluster.admin(), seed=1)


@pytest.fixture(scope="module")
def pool(
    cluster: Cluster, agents: Agents, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ClusterPool]:
    with ClusterPool(cluster, tmp_path_factory.mktemp("leading"), agents) as made:
        urgent = {
            "kind": "PriorityClass",
            "apiVersion": "scheduling.k8s.io/v1",
            "metadata": {"name": "urgent"},
        }
        made.admin.apply(
            "/apis/scheduling.k8s.io/v1/priorityclasses/urgent", {**urgent, "value": 1000}
        )
        made.adopt(cluster.simulate_nodes(1, prefix="leading"), CARDS)
        yield made


@pytest.fixture
def two(pool: ClusterPool, agents: Agents, doors: Doors, pods_path: str) -> Iterator[Two]:
    """The one that leads and the one that stands by."""
    replicas = Replicas(pool, doors, pool.place)
    settings = "--settings", json.dumps({"preemption": {"protectedSeconds": 1}})
    one, other = replicas.make(*settings), replicas.make(*settings)
    found = sees(
        pool,
        lambda: (one.leads and Two(one, other)) or (other.leads and Two(other, one)),
        "one leads",
    )
    sees(
        pool,
        lambda: f"stands by, {holder(pool.admin)} leads" in found.second.page("readyz"),
        "the other stands by",
    )
    yield found
    pool.admin.delete(f"{pods_path}?gracePeriodSeconds=0")
    pool.until(lambda: not any(pool.entries().values()), "every ledger empty")
    assert agents.broken == []
    for each in found:
        each.send(signal.SIGCONT)
        each.bury()
    pool.admin.delete(LEASE)


def sees(pool: ClusterPool, condition: Callable[[], Any], what: str) -> Any:
    return pool.until(condition, what, LIMIT_SECONDS)


def holder(admin: Api) -> str:
    return str(admin.get(LEASE)["spec"]["holderIdentity"])


def create(admin: Api, pods_path: str, name: str, **hints: Any) -> None:
    """It wants more than half a card: one card has room for one."""
    admin.create(
        pods_path,
        fresh(pod(name, {"main": asking(1, 600)}, namespace=pods_path.split("/")[4], **hints)),
    )


def urgent(admin: Api, pods_path: str) -> None:
    """One for whom others leave."""
    asked = {"main": asking(1, 600)}
    made = pod(
        "urgent", asked, namespace=pods_path.split("/")[4], spec={"priorityClassName": "urgent"}
    )
    admin.create(pods_path, fresh(made))


def orders(pool: ClusterPool) -> list[str]:
    """Pods that a ledger orders to leave."""
    return [
        entry["pod"]
        for entries in pool.entries().values()
        for entry in entries
        if entry.get("leavingFor")
    ]


def is_placed(pool: ClusterPool, pods_path: str, name: str) -> None:
    pool.admin.until(f"{pods_path}/{name}", is_bound, LIMIT_SECONDS)
    for read in pool.admin.get(ledger.NODES)["items"]:
        assert ledger.overcommitted_cards(GpuNode.from_json(read)) == []


def test_one_leads_and_both_say_who(pool: ClusterPool, pods_path: str, two: Two) -> None:
    create(pool.admin, pods_path, "first")
    is_placed(pool, pods_path, "first")
    name = holder(pool.admin)
    for each, leads in ((two.leader, "1.0"), (two.second, "0.0")):
        told = each.page("metrics")
        assert f"gpupool_controller_leads {leads}" in told
        assert f'gpupool_controller_leader_info{{holder="{name}"}} 1.0' in told
    assert "gpupool_controller_releases_total 1.0" in two.leader.page("metrics")
    assert two.second.door.steps["ledger"] == two.second.door.steps["release"] == 0


def test_the_other_goes_on_after_a_kill_9(pool: ClusterPool, pods_path: str, two: Two) -> None:
    # Before the pod exists: its release may reach the door before `create` returns here.
    two.leader.door.set(Trap("release", two.leader.kill))
    create(pool.admin, pods_path, "before")
    two.leader.wait()
    create(pool.admin, pods_path, "after")
    for name in ("before", "after"):
        is_placed(pool, pods_path, name)
    assert two.second.leads
    assert two.leader.door.steps["release"] == 1


def test_one_that_is_told_to_end_leaves_its_lease_to_the_other(
    pool: ClusterPool, pods_path: str, two: Two
) -> None:
    name = holder(pool.admin)
    two.leader.send(signal.SIGTERM)
    two.leader.wait()
    assert holder(pool.admin) != name
    create(pool.admin, pods_path, "after")
    is_placed(pool, pods_path, "after")


def test_a_leader_that_stood_still_past_its_lease_writes_nothing_over_the_new_one(
    pool: ClusterPool, pods_path: str, two: Two
) -> None:
    """It stops in the middle of a write, which arrives when the next one has long given out the
    card."""
    old, new = two
    old.door.set(Trap("ledger", lambda: old.send(signal.SIGSTOP), holds=True))
    create(pool.admin, pods_path, "first")
    is_placed(pool, pods_path, "first")
    create(pool.admin, pods_path, "second")
    is_placed(pool, pods_path, "second")
    name, before = holder(pool.admin), pool.entries()
    old.door.let_pass()
    sees(
        pool,
        lambda: sum(old.door.answers[key] for key in old.door.answers if key[0] == "ledger"),
        "it is answered",
    )
    assert old.door.answers["ledger", 422] == 1
    old.send(signal.SIGCONT)
    sees(pool, lambda: f"stands by, {name} leads" in old.page("readyz"), "the old one stands by")
    assert new.leads
    assert [(n, [(e["uid"], e["cards"]) for e in es]) for n, es in pool.entries().items()] == [
        (n, [(e["uid"], e["cards"]) for e in es]) for n, es in before.items()
    ]
    assert old.door.answers["ledger", 200] == old.door.answers["release", 200] == 0


def test_an_eviction_that_is_late_leaves_a_pod_alone_that_need_not_go_any_more(
    pool: ClusterPool, pods_path: str, two: Two
) -> None:
    """The old leader stops while it asks; for whom it asks is gone by the time that the server
    hears of it."""
    old, new = two
    for name in ("first", "second"):
        create(pool.admin, pods_path, name, preemptible=True)
        is_placed(pool, pods_path, name)
    trap = Trap("eviction", lambda: old.send(signal.SIGSTOP), holds=True)
    old.door.set(trap)
    urgent(pool.admin, pods_path)
    assert trap.sprung.wait(LIMIT_SECONDS)
    assert len(orders(pool)) == 1
    pool.admin.delete(f"{pods_path}/urgent?gracePeriodSeconds=0")
    sees(pool, lambda: not orders(pool), "nobody is told to leave")
    old.door.let_pass()
    sees(
        pool,
        lambda: sum(old.door.answers[key] for key in old.door.answers if key[0] == "eviction"),
        "it is answered",
    )
    assert old.door.answers["eviction", 409] == 1
    old.send(signal.SIGCONT)
    sees(pool, lambda: "stands by" in old.page("readyz"), "the old one stands by")
    assert new.leads
    for name in ("first", "second"):
        assert "deletionTimestamp" not in pool.admin.get(f"{pods_path}/{name}")["metadata"]


def test_while_the_api_server_is_away_nobody_leads_and_then_one_does(
    cluster: Cluster, pool: ClusterPool, pods_path: str, two: Two
) -> None:
    cluster.processes.kill("kube-apiserver")
    sees(pool, lambda: not two.leader.leads, "it leads no more")
    cluster.up(print)
    pool.admin.close()  # the old connection is of the server that died
    create(pool.admin, pods_path, "after")
    is_placed(pool, pods_path, "after")
    assert sorted(each.leads for each in two) == [False, True]
