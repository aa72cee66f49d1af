"""Direct pods on a real control plane: the controller binds them, nobody helps himself, and nobody
waits for ever."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from gpupool.kubernetes.ledger import ledger
from gpupool.kubernetes.resources import direct_binding, names
from gpupool.kubernetes.resources.pool_settings import NAME, SETTINGS
from tests.support.cluster.api import Api, Object, RefusedError
from tests.support.cluster.cluster import Cluster
from tests.support.cluster.pods import is_bound
from tests.support.cluster_pool import ClusterPool, fresh
from tests.support.kube_builders import asking, gang, pod

POOL = f"{SETTINGS}/{NAME}"
WHOLE = {"main": asking(1, 1000, None)}
CARDS = 4


@pytest.fixture(scope="module")
def pool(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterPool]:
    with ClusterPool(cluster, tmp_path_factory.mktemp("direct")) as made:
        made.adopt(cluster.simulate_nodes(2, prefix="direct"), CARDS)
        made.start()
        made.start_webhook("native")
        made.admin.until(POOL, lambda found: bool(found.get("status")))
        yield made
        made.admin.delete(POOL)


@pytest.fixture(autouse=True)
def _on(pool: ClusterPool, admin: Api, pods_path: str) -> Iterator[None]:
    switch(pool, admin, pods_path, True)
    yield
    pool.clear(pods_path)


def switch(pool: ClusterPool, admin: Api, pods_path: str, on: bool) -> None:
    """Direct mode, in effect at admission."""
    admin.merge(POOL, {"spec": {"direct": on}})

    def is_so() -> bool:
        return (
            direct_binding.is_direct(admin.create(f"{pods_path}?dryRun=All", typed("probe"))) == on
        )

    pool.until(is_so, f"direct: {on}")


def typed(name: str, limits: dict[str, str] | None = None, **spec: Any) -> Object:
    """As its user writes it."""
    container = {
        "name": "main",
        "image": "x",
        "resources": {"limits": limits or {"gpupool.dev/gpu-milli": "300"}},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [container], **spec},
    }


def placed(pods_path: str, name: str, containers: Any = None, **more: Any) -> Object:
    """As admission leaves it."""
    made = fresh(pod(name, containers, direct=True, **more))
    made["metadata"]["namespace"] = pods_path.split("/")[4]
    return made


def condition(found: Object) -> tuple[str, str]:
    conditions = [
        one for one in found["status"].get("conditions", ()) if one["type"] == "PodScheduled"
    ]
    return (
        (conditions[0].get("reason", ""), conditions[0].get("message", ""))
        if conditions
        else ("", "")
    )


def held(pool: ClusterPool) -> int:
    return sum(
        card["gpuMilli"]
        for es in pool.entries().values()
        for entry in es
        for card in entry["cards"]
    )


def test_the_controller_binds_and_tells_in_one_write(
    pool: ClusterPool, admin: Api, pods_path: str
) -> None:
    made = admin.create(pods_path, typed("one"))
    assert direct_binding.is_direct(made)
    assert "schedulingGates" not in made["spec"]
    found = admin.until(f"{pods_path}/one", is_bound)
    (entry,) = [one for es in pool.entries().values() for one in es]
    assert entry["uid"] == found["metadata"]["uid"]
    assert found["metadata"]["annotations"][names.PLACED].startswith(found["spec"]["nodeName"])
    assert condition(found)[0] == ""  # the API server says that it is scheduled


def test_what_kube_scheduler_alone_knows_goes_by_the_gate(
    pool: ClusterPool, admin: Api, pods_path: str
) -> None:
    volume = {"name": "data", "ephemeral": {"volumeClaimTemplate": {"spec": _claim()}}}
    made = admin.create(f"{pods_path}?dryRun=All", typed("volume", volumes=[volume]))
    assert not direct_binding.is_direct(made)
    assert made["spec"]["schedulingGates"] == [{"name": names.GATE}]


def _claim() -> Object:
    return {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


def test_who_finds_no_room_waits_with_a_sentence_and_is_bound_when_there_is(
    pool: ClusterPool, admin: Api, pods_path: str
) -> None:
    for n in range(2 * CARDS):
        admin.create(pods_path, placed(pods_path, f"whole-{n}", WHOLE))
    for n in range(2 * CARDS):
        admin.until(f"{pods_path}/whole-{n}", is_bound)
    admin.create(pods_path, placed(pods_path, "late", WHOLE))
    found = admin.until(f"{pods_path}/late", lambda p: condition(p)[0] == "Unschedulable")
    assert "whole card" in condition(found)[1]
    admin.create(pods_path, placed(pods_path, "huge", {"main": asking(16, 1000, None)}))
    admin.until(f"{pods_path}/huge", lambda p: condition(p)[0] == "WaitsForCards")
    admin.delete(f"{pods_path}/whole-3?gracePeriodSeconds=0")
    found = admin.until(f"{pods_path}/late", is_bound)
    assert condition(found)[0] == ""
    assert held(pool) == 2 * CARDS * 1000


def test_who_is_turned_away_by_its_node_is_made_anew_elsewhere_and_its_cards_are_free(
    pool: ClusterPool, admin: Api, pods_path: str
) -> None:
    """The kubelet's word is written here: its own comes where it met another pod that was bound in
    the same moment."""
    space = pods_path.split("/")[4]
    made = placed(pods_path, "one")
    made["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "3"}
    labels = {**made["metadata"]["labels"], "job-name": "again"}
    template = {
        "metadata": {"labels": labels, "annotations": made["metadata"]["annotations"]},
        "spec": made["spec"],
    }
    template["spec"]["restartPolicy"] = "Never"
    jobs = f"/apis/batch/v1/namespaces/{space}/jobs"
    admin.create(
        jobs, {"metadata": {"name": "again"}, "spec": {"backoffLimit": 3, "template": template}}
    )
    first = pool.until(
        lambda: next((one for one in running(admin, pods_path)), None), "it is bound"
    )
    said = {
        "phase": "Failed",
        "reason": "OutOfcpu",
        "message": "Node didn't have enough resource: cpu",
    }
    admin.merge(f"{pods_path}/{first['metadata']['name']}/status", {"status": said})
    second = pool.until(
        lambda: next((one for one in running(admin, pods_path)), None),
        "its owner's next one is bound",
    )
    assert second["metadata"]["uid"] != first["metadata"]["uid"]
    pool.until(lambda: held(pool) == 300, "the cards of the first one are free")
    events = f"/apis/events.k8s.io/v1/namespaces/{space}/events"
    told = pool.until(
        lambda: [one for one in admin.get(events)["items"] if one["reason"] == "TurnedAway"],
        "an event",
    )
    assert [one["regarding"]["uid"] for one in told] == [first["metadata"]["uid"]]
    assert "its owner makes another. OutOfcpu: Node didn't have enough" in told[0]["note"]
    admin.delete(f"{jobs}/again?propagationPolicy=Background")


def running(admin: Api, pods_path: str) -> list[Object]:
    found = admin.get(pods_path)["items"]
    return [
        one for one in found if one["spec"].get("nodeName") and one["status"]["phase"] != "Failed"
    ]


def test_a_gang_of_which_some_go_by_the_gate_is_whole(
    pool: ClusterPool, admin: Api, pods_path: str
) -> None:
    for n in range(4):
        made = placed(pods_path, f"w-{n}", WHOLE, gang=gang(4))
        if n % 2:
            made["spec"] |= {
                "schedulerName": "default-scheduler",
                "schedulingGates": [{"name": names.GATE}],
            }
        admin.create(pods_path, made)
    for n in range(4):
        admin.until(f"{pods_path}/w-{n}", is_bound)
    assert held(pool) == 4000


def test_turned_off_it_still_binds_those_that_nobody_else_would(
    pool: ClusterPool, admin: Api, pods_path: str
) -> None:
    for n in range(2 * CARDS + 1):
        admin.create(pods_path, typed(f"whole-{n}", {"gpupool.dev/gpus": "1"}))
    waits = pool.until(lambda: _only_waiting(admin, pods_path), "one that waits")
    switch(pool, admin, pods_path, False)
    admin.delete(f"{pods_path}/{_some_bound(admin, pods_path)}?gracePeriodSeconds=0")
    assert direct_binding.is_direct(admin.until(f"{pods_path}/{waits}", is_bound))


def _only_waiting(admin: Api, pods_path: str) -> str | None:
    left = [one["metadata"]["name"] for one in admin.get(pods_path)["items"] if not is_bound(one)]
    return left[0] if len(left) == 1 else None


def _some_bound(admin: Api, pods_path: str) -> str:
    name: str = next(
        one["metadata"]["name"] for one in admin.get(pods_path)["items"] if is_bound(one)
    )
    return name


def test_kill_9_in_the_middle_gives_nobody_two_and_forgets_nobody(
    pool: ClusterPool, admin: Api, pods_path: str
) -> None:
    for n in range(24):
        admin.create(pods_path, placed(pods_path, f"p-{n}"))
        if n % 8 == 3:
            pool.kill()
            pool.start()
    for n in range(24):
        admin.until(f"{pods_path}/p-{n}", is_bound)
    assert held(pool) == 24 * 300
    uids = [entry["uid"] for entries in pool.entries().values() for entry in entries]
    assert len(uids) == len(set(uids)) == 24


def test_a_ledger_that_was_written_before_a_crash_is_bound_by(
    pool: ClusterPool, admin: Api, pods_path: str
) -> None:
    """The row of the failure table between the ledger and the binding."""
    pool.kill()
    made = admin.create(pods_path, placed(pods_path, "half", WHOLE))
    node = sorted(pool.agents.names)[1]
    card = {"uuid": f"GPU-{node}-2", "gpuMilli": 1000, "memoryBytes": 48 << 30}
    named = {
        "uid": made["metadata"]["uid"],
        "namespace": made["metadata"]["namespace"],
        "pod": "half",
    }
    entry = {
        **named,
        "container": "main",
        "cards": [card],
        "tenant": "x",
        "state": "reserved",
        "generation": 1,
    }
    writer = pool.cluster.access()
    controller = writer.client(writer.token("gpupool", "gpupool-controller"))
    controller.merge(f"{ledger.NODES}/{node}", {"spec": {"allocations": [entry]}})
    pool.start()
    found = admin.until(f"{pods_path}/half", is_bound)
    assert found["spec"]["nodeName"] == node
    assert card["uuid"] in found["metadata"]["annotations"][names.PLACED]


def test_one_that_somebody_bound_elsewhere_gives_its_cards_back(
    pool: ClusterPool, admin: Api, pods_path: str
) -> None:
    pool.kill()
    made = admin.create(pods_path, placed(pods_path, "taken", WHOLE))
    target = {"apiVersion": "v1", "kind": "Node", "name": sorted(pool.agents.names)[0]}
    meta = {"name": "taken", "uid": made["metadata"]["uid"]}
    admin.create(
        f"{pods_path}/taken/binding",
        {"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": target},
    )
    admin.create(pods_path, placed(pods_path, "next", WHOLE))
    pool.start()
    admin.until(f"{pods_path}/next", is_bound)
    pool.until(lambda: held(pool) == 1000, "nothing held for the pod that we did not bind")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"limits": {"cpu": "1"}}, "is given by gpupool's admission alone"),
        ({}, "no scheduler known here"),
    ],
)
def test_nobody_chooses_it_for_himself(
    pool: ClusterPool, admin: Api, pods_path: str, change: dict[str, Any], words: str
) -> None:
    with pytest.raises(RefusedError, match=words):
        admin.create(pods_path, typed("mine", **change, schedulerName=names.DIRECT))


def test_without_a_webhook_the_server_itself_refuses_what_would_be_placed_wrong(
    pool: ClusterPool, admin: Api, pods_path: str
) -> None:
    pool.end_webhook()
    try:
        admin.create(f"{pods_path}?dryRun=All", placed(pods_path, "fine"))
        ways: list[Object] = [
            {"volumes": [{"name": "a", "persistentVolumeClaim": {"claimName": "c"}}]},
            {"hostNetwork": True},
            {"schedulingGates": [{"name": names.GATE}]},
            {"schedulingGates": [{"name": "other.example/gate"}]},
        ]
        for spec in ways:
            with pytest.raises(RefusedError, match="GP-2032"):
                admin.create(f"{pods_path}?dryRun=All", placed(pods_path, "bad", spec=spec))
        plain = placed(pods_path, "bad")
        del plain["metadata"]["annotations"]
        with pytest.raises(RefusedError, match="GP-2032"):
            admin.create(f"{pods_path}?dryRun=All", plain)
    finally:
        pool.start_webhook("native")
