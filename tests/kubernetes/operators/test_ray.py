"""RayJobs and RayClusters with their own operator: head and workers at once, each job in a cluster
of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.cluster.cluster import Cluster
from tests.support.cluster_pool import ClusterPool
from tests.support.operators.programs import RAY
from tests.support.operators.running import running
from tests.support.operators.space import CARD, Space
from tests.support.simulated_kubelet import SimulatedKubelet

VERSION = "ray.io/v1"
CLUSTERS, JOBS = "rayclusters", "rayjobs"
Json = dict[str, Any]


@pytest.fixture(scope="module", autouse=True)
def _controller(cluster: Cluster, pool: ClusterPool, kubelet: SimulatedKubelet) -> Iterator[None]:
    if why_not := RAY.why_not():
        pytest.skip(why_not)
    with running(cluster, RAY):
        yield


@pytest.fixture(autouse=True)
def _nothing_is_left(space: Space) -> Iterator[None]:
    yield
    space.clear(space.path(VERSION, JOBS), space.path(VERSION, CLUSTERS))


def template(name: str, member_of: int, limits: Json) -> Json:
    labels = {"gpupool.dev/gang": "tune"} if member_of else {}
    annotations = {"gpupool.dev/gang-size": str(member_of)} if member_of else {}
    container = {"name": name, "image": "rayproject/ray:2.52.0", "resources": {"limits": limits}}
    spec = {"terminationGracePeriodSeconds": 0, "containers": [container]}
    return {"metadata": {"labels": labels, "annotations": annotations}, "spec": spec}


def cluster_spec(workers: int, *, head_has_card: bool = False) -> Json:
    size = workers + head_has_card
    head = template("head", size if head_has_card else 0, CARD if head_has_card else {"cpu": "1"})
    group = {
        "groupName": "workers",
        "replicas": workers,
        "minReplicas": workers,
        "maxReplicas": workers,
        "rayStartParams": {},
        "template": template("worker", size, CARD),
    }
    return {"headGroupSpec": {"rayStartParams": {}, "template": head}, "workerGroupSpecs": [group]}


def create(space: Space, plural: str, kind: str, spec: Json, name: str = "tune") -> None:
    body = {"apiVersion": VERSION, "kind": kind, "metadata": {"name": name}, "spec": spec}
    space.admin.create(space.path(VERSION, plural), body)


def workers(space: Space) -> dict[str, str]:
    """By name of a worker that is bound, its node."""
    return {name: node for name, node in space.bound("tune").items() if "-worker-" in name}


def test_workers_of_a_job_start_together_beside_its_head(space: Space, pool: ClusterPool) -> None:
    create(
        space, JOBS, "RayJob", {"entrypoint": "python tune.py", "rayClusterSpec": cluster_spec(5)}
    )
    pool.until(
        lambda: len(workers(space)) == 5 and len(space.bound("tune")) >= 6, "head and workers"
    )
    (gang,) = {entry["gang"] for entry in space.seats()}
    assert gang.startswith(f"{space.name}/tune-tune-")
    assert len(space.seats()) == 5


def test_workers_that_do_not_fit_wait_whole_and_the_head_does_not(
    space: Space, pool: ClusterPool
) -> None:
    space.small("small")
    pool.until(lambda: len(space.bound("small")) == 1, "one card in use")
    create(space, CLUSTERS, "RayCluster", cluster_spec(8))
    pool.until(lambda: len(space.bound("tune")) == 1, "the head")
    waits = lambda: [name for name in space.pods("tune") if "8 of role" in space.why(name)]  # noqa: E731
    pool.until(lambda: len(waits()) == 8, "the reason on all of them")
    assert (workers(space), space.seats("tune")) == ({}, [])
    space.remove("small")
    pool.until(lambda: len(workers(space)) == 8, "all workers, now that there is room")


def test_a_head_with_a_card_is_a_member(space: Space, pool: ClusterPool) -> None:
    create(space, CLUSTERS, "RayCluster", cluster_spec(7, head_has_card=True))
    pool.until(
        lambda: len(space.bound("tune")) == len(space.seats("tune")) == 8, "head and workers"
    )


def test_two_clusters_of_one_template_are_two_gangs(space: Space, pool: ClusterPool) -> None:
    """Of ten workers eight would find room: five start, the others wait whole."""
    create(space, CLUSTERS, "RayCluster", cluster_spec(5), "tune-a")
    create(space, CLUSTERS, "RayCluster", cluster_spec(5), "tune-b")
    pool.until(lambda: len(workers(space)) == 5 and len(space.pods("tune")) == 12, "one of them")
    pool.until(
        lambda: len(set(workers(space)) & set(space.pods("tune-a"))) in (0, 5), "whole or absent"
    )
    assert len(space.seats()) == 5


@pytest.mark.parametrize("how", [Space.evict, Space.fail])
def test_a_worker_that_goes_leaves_its_card_to_the_next(
    space: Space, pool: ClusterPool, how: Callable[[Space, str], None]
) -> None:
    """The operator gives it another name; who waits for a card goes on waiting."""
    create(space, CLUSTERS, "RayCluster", cluster_spec(8))
    pool.until(lambda: len(workers(space)) == 8, "the cluster")
    space.small("small")
    pool.until(lambda: space.why("small"), "its reason")
    gone = sorted(workers(space))[3]
    cards = space.cards(gone)
    how(space, gone)
    pool.until(
        lambda: len(workers(space)) == 8 and gone not in workers(space), "another in its place"
    )
    held = {card["uuid"]: entry["pod"] for entry in space.seats("tune") for card in entry["cards"]}
    assert set(cards) <= held.keys()
    assert not space.bound("small")
