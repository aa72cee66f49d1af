"""Nodes that go while nobody tells the books: their ledgers stay until all is told, say so, and
hold nobody up."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpupool.kubernetes.ledger import ledger
from gpupool.kubernetes.manifests import install
from gpupool.kubernetes.resources.gpu_node import GpuNode
from tests.support.cluster.api import Api, Object
from tests.support.cluster.cluster import Cluster
from tests.support.cluster.pods import is_bound
from tests.support.cluster_books import Books, MeterProcess
from tests.support.cluster_pool import ClusterPool, fresh
from tests.support.kube_builders import asking, pod
from tests.support.kube_people import People, cluster_admin

PREFIX = "orphan"
NODE, STAYS = f"{PREFIX}-00000", f"{PREFIX}-00001"
HERE = {"kubernetes.io/hostname": NODE}
S = 10**9


@pytest.fixture
def pool(cluster: Cluster, tmp_path: Path) -> Iterator[ClusterPool]:
    with ClusterPool(cluster, tmp_path) as made:
        made.adopt(cluster.simulate_nodes(2, prefix=PREFIX), 2)
        yield made


def held(pool: ClusterPool, admin: Api, pods_path: str, name: str) -> None:
    made = fresh(
        pod(
            name,
            {"main": asking(1, 300)},
            namespace=pods_path.split("/")[4],
            spec={"nodeSelector": HERE},
        )
    )
    admin.create(pods_path, made)
    admin.until(f"{pods_path}/{name}", is_bound)


def goes(pool: ClusterPool, admin: Api) -> None:
    pool.agents.names.discard(NODE)
    admin.delete(f"/api/v1/nodes/{NODE}")


def kept(admin: Api) -> GpuNode:
    return GpuNode.from_json(admin.get(f"{ledger.NODES}/{NODE}"))


def test_what_ended_on_a_node_that_is_gone_is_told_to_the_second_when_the_meter_comes(
    pool: ClusterPool, admin: Api, pods_path: str, tmp_path: Path
) -> None:
    pool.start("--metered")
    held(pool, admin, pods_path, "over")
    held(pool, admin, pods_path, "cut")
    admin.delete(f"{pods_path}/over?gracePeriodSeconds=0")
    pool.until(lambda: [one.pod for one in kept(admin).ended] == ["over"], "one has ended")
    goes(pool, admin)
    admin.delete(f"{pods_path}?gracePeriodSeconds=0")
    pool.until(
        lambda: len(kept(admin).ended) == 2 and kept(admin).mode.value == "observe",
        "its ledger is only kept",
    )
    event = pool.until(lambda: waits(admin), "the ledger says what it waits for")
    assert ("2 left" in event["note"], event["type"], event["regarding"]["name"]) == (
        True,
        "Warning",
        NODE,
    )
    checks = json.loads(People(cluster_admin(pool.cluster)).run("doctor", "-o", "json").stdout)[
        "checks"
    ]
    assert [
        one["state"] for one in checks if one["name"] == f"node {NODE}" and "2 left" in one["text"]
    ] == ["warn"]

    ended = kept(admin).ended
    with Books(tmp_path / "books") as books:
        meter = MeterProcess(pool, books)
        try:
            admin.until_gone(f"{ledger.NODES}/{NODE}")
            server = books.pool
            pool.until(
                lambda: (
                    {one["state"] for one in server.json("gpus") if one["node"] == NODE} == {"lost"}
                ),
                "lost",
            )
        finally:
            meter.kill()
        found = server.json("report", "--by", "job,tenant")
    rows = {
        row["job"]: row["card_milliseconds"] for row in found["rows"] if row["kind"] == "tenant"
    }
    counted = {one.uid: 300 * (one.ended_ns // S - one.held_ns // S) for one in ended}
    assert (rows, found["closes"]) == (
        {uid: amount for uid, amount in counted.items() if amount},
        True,
    )
    assert admin.get(f"{ledger.NODES}/{STAYS}")["spec"]["mode"] == "slot"


def waits(admin: Api) -> dict[str, object] | None:
    found = admin.get("/apis/events.k8s.io/v1/namespaces/default/events")["items"]
    return next(
        (one for one in found if one["reason"] == "LedgerWaits" and "2 left" in one["note"]), None
    )


def test_a_node_that_comes_back_while_its_ledger_is_kept_is_only_looked_at(
    cluster: Cluster, pool: ClusterPool, admin: Api, pods_path: str
) -> None:
    pool.start("--metered")
    held(pool, admin, pods_path, "over")
    goes(pool, admin)
    admin.delete(f"{pods_path}?gracePeriodSeconds=0")
    pool.until(
        lambda: kept(admin).ended and kept(admin).mode.value == "observe", "its ledger is only kept"
    )
    cluster.simulate_nodes(2, prefix=PREFIX)
    pool.adopt([NODE], 2)
    held(pool, admin, pods_path, "next")
    assert [one.pod for one in kept(admin).ended] == ["over"]
    assert [one.pod for one in kept(admin).entries] == ["next"]


def test_a_ledger_that_is_kept_is_given_up_by_deleting_it(
    pool: ClusterPool, admin: Api, pods_path: str
) -> None:
    pool.start("--metered")
    held(pool, admin, pods_path, "over")
    goes(pool, admin)
    admin.delete(f"{pods_path}?gracePeriodSeconds=0")
    pool.until(lambda: kept(admin).ended, "it is kept")
    admin.delete(f"{ledger.NODES}/{NODE}")
    admin.until_gone(f"{ledger.NODES}/{NODE}")


def test_a_ledger_that_was_metered_goes_with_its_node_when_nobody_meters_any_more(
    pool: ClusterPool, admin: Api, pods_path: str
) -> None:
    pool.start("--metered")
    held(pool, admin, pods_path, "over")
    assert not admin.get(f"{ledger.NODES}/{NODE}")["metadata"].get("ownerReferences")
    pool.kill()
    goes(pool, admin)
    admin.delete(f"{pods_path}?gracePeriodSeconds=0")
    pool.start()
    admin.until_gone(f"{ledger.NODES}/{NODE}")


def test_an_agent_whose_ledger_went_makes_one_again(
    cluster: Cluster, pool: ClusterPool, admin: Api
) -> None:
    """As on a Node that came back while the ledger of the last one of its name was still there."""
    admin.delete(f"{ledger.NODES}/{NODE}")
    access = cluster.access()
    file = access.kubeconfig(
        "agent.kubeconfig", access.token(install.NAMESPACE, install.AGENT, NODE)
    )
    words = [
        sys.executable,
        "-m",
        "gpupool.kubernetes",
        "--kubeconfig",
        str(file),
        "agent",
        "--node",
        NODE,
    ]
    places = {
        "state-dir": "state",
        "socket": "agent.sock",
        "cdi": "cdi",
        "kubelet": "kubelet",
        "plugins": "plugins",
    }
    words += [f"--{name}={pool.place / place}" for name, place in places.items()]
    with open(pool.place / "agent.log", "ab") as log:
        agent = subprocess.Popen(
            [*words, "--sim", "2xL40S"], stdout=log, stderr=log, stdin=subprocess.DEVNULL
        )
    try:
        first = admin.until(f"{ledger.NODES}/{NODE}", has_cards)["metadata"]["uid"]
        admin.delete(f"{ledger.NODES}/{NODE}")
        again = admin.until(f"{ledger.NODES}/{NODE}", has_cards)
        assert (again["metadata"]["uid"] != first, again["spec"]["mode"]) == (True, "observe")
    finally:
        agent.terminate()
        agent.wait()


def has_cards(found: Object) -> bool:
    return len(found.get("status", {}).get("cards", ())) == 2
