"""A card that fails leaves the pool, and the pod that had it runs on another one; it comes back
when it is well."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gpupool.kubernetes.ledger import ledger
from gpupool.model.device import DeviceHealth
from gpupool.probes.simulated_health import set_health
from tests.support.cluster.api import Api, Object
from tests.support.cluster.images import SHELL
from tests.support.cluster.node import NAME
from tests.support.cluster_pool import ClusterPool, NodeParts, fresh
from tests.support.kube_builders import asking, pod

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("cards_come_back")]

SECONDS = 120.0
"""The card has half a minute to come back before anybody is asked to leave."""


@pytest.fixture
def well_again(parts: NodeParts) -> Iterator[None]:
    yield
    for card in range(4):
        set_health(parts.simulated, card, DeviceHealth.OK)


def cards_of(admin: Api) -> list[Object]:
    found: list[Object] = admin.get(f"{ledger.NODES}/{NAME}")["status"]["cards"]
    return found


def condition(admin: Api) -> tuple[str, str]:
    found = admin.get(f"{ledger.NODES}/{NAME}")["status"]["conditions"]
    return next((one["status"], one["message"]) for one in found if one["type"] == "CardsHealthy")


def replicas(pods_path: str, count: int) -> Object:
    """A ReplicaSet whose pods each have a whole card."""
    made = fresh(
        pod("of-a-set", {"main": asking(1, 1000, None)}, spec={"terminationGracePeriodSeconds": 0})
    )
    made["spec"]["containers"][0] |= {"image": SHELL.name, "command": ["/bin/sleep", "600"]}
    labels = {**made["metadata"]["labels"], "app": "set"}
    template = {
        "metadata": {"labels": labels, "annotations": made["metadata"]["annotations"]},
        "spec": made["spec"],
    }
    spec = {"replicas": count, "selector": {"matchLabels": {"app": "set"}}, "template": template}
    return {"metadata": {"name": "set", "namespace": pods_path.split("/")[4]}, "spec": spec}


def bare(pods_path: str) -> Object:
    made = fresh(
        pod("bare", {"main": asking(1, 1000, None)}, spec={"terminationGracePeriodSeconds": 0})
    )
    made["metadata"]["namespace"] = pods_path.split("/")[4]
    made["spec"]["containers"][0] |= {"image": SHELL.name, "command": ["/bin/sleep", "600"]}
    return made


def running(pool: ClusterPool, pods_path: str) -> dict[str, int]:
    """By pod that runs the index of its card."""
    index = {card["uuid"]: card["index"] for card in cards_of(pool.admin)}
    held = {one["pod"]: index[one["cards"][0]["uuid"]] for one in pool.entries()[NAME]}
    pods = [
        one
        for one in pool.admin.get(pods_path)["items"]
        if "deletionTimestamp" not in one["metadata"]
    ]
    runs = (one["metadata"]["name"] for one in pods if one["status"].get("phase") == "Running")
    return {name: held[name] for name in runs if name in held}


def test_an_owners_pod_moves_to_a_card_that_is_well_and_a_bare_one_stays_with_the_reason(
    pool: ClusterPool, parts: NodeParts, admin: Api, pods_path: str, well_again: None
) -> None:
    sets = pods_path.removesuffix("pods").replace("/api/v1", "/apis/apps/v1") + "replicasets"
    admin.create(sets, replicas(pods_path, 1))
    admin.create(pods_path, bare(pods_path))
    before = pool.until(
        lambda: found if len(found := running(pool, pods_path)) == 2 else None, "two pods run"
    )
    (first,) = before.keys() - {"bare"}
    for card in before.values():
        set_health(parts.simulated, card, DeviceHealth.FAILED, "fell off the bus", 79)
    pool.until(lambda: condition(admin)[0] == "False", "a condition that says so")
    assert condition(admin)[1].count("fell off the bus (XID 79)") == 2
    assert sorted(one["index"] for one in cards_of(admin) if one["health"] == "failed") == sorted(
        before.values()
    )

    after = pool.until(lambda: _moved(pool, pods_path, first), "the owner's next pod runs", SECONDS)
    assert set(after) - {"bare"} != {first}
    assert after["bare"] == before["bare"]
    assert not {after[name] for name in after if name != "bare"} & set(before.values())
    events = admin.get(pods_path.removesuffix("pods") + "events")["items"]
    told = {
        one["involvedObject"]["name"]: one["message"]
        for one in events
        if one["reason"] == "CardFailed"
    }
    assert set(told) == {"bare", first}
    assert told["bare"].endswith(
        "fell off the bus (XID 79); delete it: nobody would make another in its place"
    )

    for card in before.values():
        set_health(parts.simulated, card, DeviceHealth.OK)
    pool.until(lambda: condition(admin) == ("True", ""), "all are well")
    assert {one["health"] for one in cards_of(admin)} == {"ok"}
    admin.delete(f"{sets}/set")


def _moved(pool: ClusterPool, pods_path: str, first: str) -> dict[str, int]:
    found = running(pool, pods_path)
    return found if len(found) == 2 and first not in found else {}
