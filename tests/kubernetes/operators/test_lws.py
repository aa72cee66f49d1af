"""LeaderWorkerSets with their own controller and webhooks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.cluster.cluster import Cluster
from tests.support.cluster_pool import ClusterPool
from tests.support.operators.programs import LWS
from tests.support.operators.running import running
from tests.support.operators.space import CARD, Space
from tests.support.simulated_kubelet import SimulatedKubelet

VERSION, PLURAL = "leaderworkerset.x-k8s.io/v1", "leaderworkersets"
Json = dict[str, Any]


@pytest.fixture(scope="module", autouse=True)
def _controller(cluster: Cluster, pool: ClusterPool, kubelet: SimulatedKubelet) -> Iterator[None]:
    if why_not := LWS.why_not():
        pytest.skip(why_not)
    with running(cluster, LWS):
        yield


@pytest.fixture(autouse=True)
def _nothing_is_left(space: Space) -> Iterator[None]:
    yield
    space.clear(space.path(VERSION, PLURAL))


def template(limits: Json | None = None) -> Json:
    container = {"name": "main", "image": "x:1", "resources": {"limits": limits or CARD}}
    spec = {"terminationGracePeriodSeconds": 0, "containers": [container]}
    return {"metadata": {"labels": {"gpupool.dev/gang": "llama"}}, "spec": spec}


def create(space: Space, replicas: int, size: int, **spec: Any) -> None:
    groups = {"size": size, "workerTemplate": template(), **spec.pop("groups", {})}
    made = {"replicas": replicas, "leaderWorkerTemplate": groups, **spec}
    body = {
        "apiVersion": VERSION,
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "llama"},
        "spec": made,
    }
    space.admin.create(space.path(VERSION, PLURAL), body)


@pytest.mark.parametrize("policy", ["LeaderCreated", "LeaderReady"])
def test_a_group_is_whole_and_the_next_waits_with_its_reason(
    space: Space, pool: ClusterPool, policy: str
) -> None:
    """Eight cards, two groups of five: the second has none until the first is gone."""
    create(space, 2, 5, startupPolicy=policy)
    pool.until(lambda: len(space.bound()) == 5, "one whole group")
    first = next(iter(space.bound()))[: len("llama-0")]
    second = "llama-1" if first == "llama-0" else "llama-0"
    assert len(space.seats()) == len(space.seats(first)) == 5
    pool.until(
        lambda: "5 of role" in space.why(second) and "3 find room" in space.why(second),
        "its reason",
    )
    assert not space.bound(second)
    space.admin.merge(f"{space.path(VERSION, PLURAL)}/llama", {"spec": {"replicas": 1}})
    if second == "llama-0":
        pool.until(lambda: len(space.bound(second)) == 5, "the second, now that the first is gone")
    pool.until(
        lambda: len(space.seats()) == len(space.seats("llama-0")) == len(space.bound()) == 5,
        "one group",
    )


def test_workers_that_come_when_the_leader_is_ready_find_their_seats(
    space: Space, pool: ClusterPool, kubelet: SimulatedKubelet
) -> None:
    """Small pods that come meanwhile get what the group left, and no more."""
    kubelet.keep_unready("llama-0")
    create(space, 1, 5, startupPolicy="LeaderReady")
    pool.until(lambda: list(space.bound()) == ["llama-0"], "the leader")
    for n in range(4):
        space.small(f"small-{n}")
    pool.until(lambda: len(space.bound("small")) == 3, "three beside the group")
    assert list(space.pods("llama")) == ["llama-0"]
    assert len(space.seats("llama-0")) == 5
    kubelet.keep_unready()
    pool.until(lambda: len(space.bound("llama")) == 5, "its workers")
    assert len(space.bound("small")) == 3


def test_a_group_that_no_pool_holds_waits_whole(space: Space, pool: ClusterPool) -> None:
    create(space, 1, 9)
    pool.until(
        lambda: "9 of role" in space.why("llama-0") and "8 find room" in space.why("llama-0"),
        "its reason",
    )
    assert (space.bound(), space.seats()) == ({}, [])


def test_a_leader_without_a_card_is_no_member(space: Space, pool: ClusterPool) -> None:
    """Its workers are, and the template says how many they are."""
    leader, worker = template({"cpu": "1"}), template()
    del leader["metadata"]["labels"]
    worker["metadata"]["annotations"] = {"gpupool.dev/gang-size": "4"}
    create(space, 2, 5, groups={"leaderTemplate": leader, "workerTemplate": worker})
    pool.until(lambda: len(space.bound()) == 10, "both groups")
    assert len(space.seats("llama-0")) == len(space.seats("llama-1")) == 4


@pytest.mark.parametrize("how", [Space.evict, Space.fail])
def test_a_worker_that_goes_has_its_old_card_again(
    space: Space, pool: ClusterPool, how: Callable[[Space, str], None]
) -> None:
    """With `restartPolicy: None` the others go on; who waits for a card gets none of theirs."""
    create(space, 1, 8, groups={"restartPolicy": "None"})
    pool.until(lambda: len(space.bound()) == 8, "the group")
    space.small("small")
    pool.until(lambda: space.why("small"), "its reason")
    before, cards = space.uids("llama"), space.cards("llama-0-3")
    how(space, "llama-0-3")
    pool.until(
        lambda: len(space.bound("llama")) == 8 and space.uids("llama") != before,
        "another in its place",
    )
    after = space.uids("llama")
    assert {name for name in before if before[name] != after[name]} == {"llama-0-3"}
    assert space.cards("llama-0-3") == cards
    assert not space.bound("small")


def test_a_group_that_is_made_anew_has_its_cards_again(space: Space, pool: ClusterPool) -> None:
    """As LeaderWorkerSet does it where nothing is said: one worker goes, so all of them do."""
    create(space, 1, 8)
    pool.until(lambda: len(space.bound()) == 8, "the group")
    space.small("small")
    pool.until(lambda: space.why("small"), "its reason")
    before = space.uids("llama")
    space.evict("llama-0-3")

    def anew() -> bool:
        now = space.uids("llama")
        return now.keys() == before.keys() and not {*before.values()} & {*now.values()}

    pool.until(lambda: anew() and len(space.bound("llama")) == 8, "the whole group anew")
    assert not space.bound("small")
