"""MPIJobs with their own operator: workers at once, the launcher beside them or when all of them
are ready."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.cluster.cluster import Cluster
from tests.support.cluster_pool import ClusterPool
from tests.support.operators.programs import MPI
from tests.support.operators.running import running
from tests.support.operators.space import CARD, Space
from tests.support.simulated_kubelet import SimulatedKubelet

VERSION, PLURAL = "kubeflow.org/v2beta1", "mpijobs"
Json = dict[str, Any]


@pytest.fixture(scope="module", autouse=True)
def _controller(cluster: Cluster, pool: ClusterPool, kubelet: SimulatedKubelet) -> Iterator[None]:
    if why_not := MPI.why_not():
        pytest.skip(why_not)
    with running(cluster, MPI):
        yield


@pytest.fixture(autouse=True)
def _nothing_is_left(space: Space, kubelet: SimulatedKubelet) -> Iterator[None]:
    yield
    kubelet.keep_unready()
    space.clear(space.path(VERSION, PLURAL))


def template(name: str, member_of: int, limits: Json) -> Json:
    labels = {"gpupool.dev/gang": "train"} if member_of else {}
    annotations = {"gpupool.dev/gang-size": str(member_of)} if member_of else {}
    container = {"name": name, "image": "x:1", "resources": {"limits": limits}}
    spec = {"terminationGracePeriodSeconds": 0, "containers": [container]}
    return {"metadata": {"labels": labels, "annotations": annotations}, "spec": spec}


def create(space: Space, workers: int, *, launcher_has_card: bool = False) -> None:
    size = workers + launcher_has_card
    launcher = template(
        "launcher", size if launcher_has_card else 0, CARD if launcher_has_card else {"cpu": "1"}
    )
    roles = {
        "Launcher": {"replicas": 1, "template": launcher},
        "Worker": {"replicas": workers, "template": template("worker", size, CARD)},
    }
    spec = {
        "launcherCreationPolicy": "WaitForWorkersReady",
        "slotsPerWorker": 1,
        "mpiReplicaSpecs": roles,
    }
    body = {"apiVersion": VERSION, "kind": "MPIJob", "metadata": {"name": "train"}, "spec": spec}
    space.admin.create(space.path(VERSION, PLURAL), body)


def test_workers_start_together_and_the_launcher_comes_when_they_are_ready(
    space: Space, pool: ClusterPool, kubelet: SimulatedKubelet
) -> None:
    """It asks for no card and is no member."""
    kubelet.keep_unready("train-worker-2")
    create(space, 4)
    pool.until(
        lambda: len(space.bound("train-worker")) == len(space.seats("train")) == 4, "its workers"
    )
    assert not space.pods("train-launcher")
    kubelet.keep_unready()
    pool.until(lambda: len(space.bound("train-launcher")) == 1, "its launcher")
    assert len(space.seats()) == 4


def test_a_launcher_with_a_card_has_its_seat_before_it_exists(
    space: Space, pool: ClusterPool, kubelet: SimulatedKubelet
) -> None:
    """Small pods that come before it get what is left beside the five."""
    kubelet.keep_unready("train-worker-2")
    create(space, 4, launcher_has_card=True)
    pool.until(
        lambda: len(space.bound("train-worker")) == 4 and len(space.seats("train")) == 5,
        "workers, and a seat",
    )
    for n in range(4):
        space.small(f"small-{n}")
    pool.until(lambda: len(space.bound("small")) == 3, "three beside the gang")
    assert not space.pods("train-launcher")
    kubelet.keep_unready()
    pool.until(lambda: len(space.bound("train-launcher")) == 1, "its launcher")
    assert (len(space.seats("train")), len(space.bound("small"))) == (5, 3)


def test_workers_that_do_not_fit_wait_whole_until_they_do(space: Space, pool: ClusterPool) -> None:
    for n in range(2):
        space.small(f"small-{n}")
    pool.until(lambda: len(space.bound("small")) == 2, "two cards in use")
    create(space, 7)
    pool.until(lambda: "7 of role" in space.why("train-worker-0"), "its reason")
    assert (space.bound("train"), space.seats("train")) == ({}, [])
    space.remove("small-0")
    pool.until(lambda: len(space.bound("train-worker")) == 7, "all workers, now that there is room")


@pytest.mark.parametrize("how", [Space.evict, Space.remove])
def test_a_worker_that_goes_has_its_old_card_again(
    space: Space, pool: ClusterPool, how: Callable[[Space, str], None]
) -> None:
    """Its operator makes another of that name; who waits for a card meanwhile goes on waiting."""
    create(space, 8)
    pool.until(
        lambda: len(space.bound("train-worker")) == 8 and space.bound("train-launcher"), "the job"
    )
    space.small("small")
    pool.until(lambda: space.why("small"), "its reason")
    before, cards = space.uids("train-worker"), space.cards("train-worker-3")
    how(space, "train-worker-3")
    pool.until(
        lambda: space.uids("train-worker") != before and len(space.bound("train-worker")) == 8,
        "another in its place",
    )
    assert space.cards("train-worker-3") == cards
    assert not space.bound("small")
