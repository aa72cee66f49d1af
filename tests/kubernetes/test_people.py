"""`kubectl gpupool` on a real control plane: nodes are adopted beside others and given back, and
what it says is so."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from gpupool.kubernetes.ledger import ledger
from gpupool.kubernetes.resources import names
from tests.support.cluster.api import Api, Object
from tests.support.cluster.cluster import Cluster
from tests.support.cluster.pods import is_bound, labelled, required
from tests.support.cluster.pods import pod as plain_pod
from tests.support.cluster_pool import ClusterPool, fresh
from tests.support.kube_builders import asking, pod
from tests.support.kube_people import People, observed, offer

OPERATOR = "nvidia.com/gpu.deploy.device-plugin"
PLUGINS = "/apis/apps/v1/namespaces/kube-system/daemonsets"
FIRST, SECOND = "people-00000", "people-00001"


@pytest.fixture(scope="module")
def pool(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterPool]:
    with ClusterPool(cluster, tmp_path_factory.mktemp("people")) as made:
        assert sorted(cluster.simulate_nodes(2, prefix="people")) == [FIRST, SECOND]
        observed(made, [FIRST, SECOND])
        made.start()
        yield made


@pytest.fixture
def people(pool: ClusterPool, cluster: Cluster) -> Iterator[People]:
    somebody = People(cluster.kubeconfig)
    yield somebody
    for name in (FIRST, SECOND):
        offer(pool, name, {"nvidia.com/gpu": None})
        somebody.ok("release", name, "--drain", "--yes")
    assert pool.running, pool.log()


@pytest.fixture
def plugin(pool: ClusterPool) -> Iterator[Object]:
    """The NVIDIA plugin, as one DaemonSet on every node."""
    name = "nvidia-device-plugin-daemonset"
    labels = {"name": name}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "main", "image": "x/plugin:1"}]},
    }
    made = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": "kube-system"},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }
    yield pool.admin.create(PLUGINS, made)
    pool.admin.delete(f"{PLUGINS}/{name}")


def create(admin: Api, pods_path: str, name: str, **more: Any) -> Object:
    made = fresh(pod(name, **more))
    made["metadata"]["namespace"] = pods_path.split("/")[4]
    made["spec"]["terminationGracePeriodSeconds"] = 0
    return admin.create(pods_path, made)


def mode(pool: ClusterPool, node: str = FIRST) -> str:
    return str(pool.admin.get(f"{ledger.NODES}/{node}")["spec"]["mode"])


def labels(pool: ClusterPool, node: str = FIRST) -> dict[str, str]:
    return dict(pool.admin.get(f"/api/v1/nodes/{node}")["metadata"]["labels"])


def test_a_dry_run_prints_every_change_and_makes_none(pool: ClusterPool, people: People) -> None:
    before = labels(pool)
    said = people.ok("adopt", FIRST, "--dry-run")
    assert f"would set spec.mode of GpuNode {FIRST} to slot (now observe)" in said
    assert f"would label node {FIRST} {names.MODE}=slot" in said
    assert (mode(pool), labels(pool)) == ("observe", before)


def test_a_node_whose_cards_others_use_is_refused_with_their_names(
    pool: ClusterPool, people: People, admin: Api, pods_path: str
) -> None:
    offer(pool, FIRST, {"nvidia.com/gpu": "4"})
    theirs = plain_pod("theirs", limits={"nvidia.com/gpu": "1"}, nodeName=FIRST)
    admin.create(pods_path, theirs)
    namespace = pods_path.split("/")[4]
    said = people.refused("adopt", FIRST, "--yes")
    assert "GP-2008" in said
    assert f"{namespace}/theirs (nvidia.com/gpu)" in said
    assert mode(pool) == "observe"
    admin.delete(f"{pods_path}/theirs?gracePeriodSeconds=0")


def test_a_plugin_that_would_stay_is_refused_until_what_was_told_is_typed(
    pool: ClusterPool, people: People, plugin: Object
) -> None:
    said = people.refused("adopt", FIRST, "--yes")
    assert "NVIDIA device plugin (kube-system/nvidia-device-plugin-daemonset)" in said
    patch = {
        "spec": {"template": {"spec": {"affinity": required({"matchExpressions": [_no_mode()]})}}}
    }
    assert "kubectl -n kube-system patch daemonset nvidia-device-plugin-daemonset -p" in said
    pool.admin.merge(f"{PLUGINS}/nvidia-device-plugin-daemonset", patch)
    people.ok("adopt", FIRST, "--yes")
    assert mode(pool) == "slot"
    gone = lambda: FIRST not in _plugin_nodes(pool)  # noqa: E731
    pool.until(gone, "the plugin has left the node")


def test_the_operators_plugin_is_waited_for_and_comes_back(
    pool: ClusterPool, people: People, plugin: Object
) -> None:
    selects = {"spec": {"template": {"spec": {"nodeSelector": {OPERATOR: "true"}}}}}
    pool.admin.merge(f"{PLUGINS}/nvidia-device-plugin-daemonset", selects)
    pool.admin.merge(f"/api/v1/nodes/{FIRST}", {"metadata": {"labels": {OPERATOR: "true"}}})
    before = labels(pool)
    offer(pool, FIRST, {"nvidia.com/gpu": "4"})
    adopting = people.begin("adopt", FIRST, "--yes")
    pool.until(lambda: labels(pool).get(OPERATOR) == "false", "the plugin is told to leave")
    assert (mode(pool), adopting.poll()) == ("observe", None)
    adopting.kill()
    adopting.wait()
    offer(pool, FIRST, {"nvidia.com/gpu": "0"})
    people.ok("adopt", FIRST, "--yes")
    assert mode(pool) == "slot"
    assert "is adopted already" in people.ok("adopt", FIRST, "--yes")
    people.ok("release", FIRST, "--yes")
    assert (mode(pool), labels(pool)) == ("observe", before)
    pool.admin.merge(f"/api/v1/nodes/{FIRST}", {"metadata": {"labels": {OPERATOR: None}}})


def test_what_is_shown_is_what_the_ledger_has(
    pool: ClusterPool, people: People, admin: Api, pods_path: str
) -> None:
    people.ok("adopt", FIRST, "--yes")
    namespace = pods_path.split("/")[4]
    create(admin, pods_path, "share")
    admin.until(f"{pods_path}/share", is_bound)
    shares = [share for row in people.data("map", "--node", FIRST) for share in row["shares"]]
    assert [(one["pod"], one["gpu_milli"]) for one in shares] == [(f"{namespace}/share", 300)]
    assert [row["pod"] for row in people.data("top")] == [f"{namespace}/share"]
    why = people.data("why", f"{namespace}/share")
    assert (why["asks"][0]["gpu_milli"], why["has"][0]["node"]) == (300, FIRST)
    assert f"it is on {FIRST}" in people.ok("why", f"{namespace}/share")
    assert {row["tenant"]: row["held_milli"] for row in people.data("quota")}[namespace] == 300


def test_why_says_the_sentence_of_the_condition(
    pool: ClusterPool, people: People, admin: Api, pods_path: str
) -> None:
    create(admin, pods_path, "huge", containers={"main": asking(16, 1000, None)})
    told = lambda p: any("16" in c.get("message", "") for c in p["status"].get("conditions", ()))  # noqa: E731
    admin.until(f"{pods_path}/huge", told)
    why = people.data("why", "huge", "-n", pods_path.split("/")[4])
    assert (why["gated"], why["has"]) == (True, [])
    assert "16" in why["message"]
    assert "GP-3003" in people.refused("why", "nobody", "-n", "default")


def test_a_node_in_use_is_given_back_only_when_its_pods_may_be_evicted(
    pool: ClusterPool, people: People, admin: Api, pods_path: str
) -> None:
    people.ok("adopt", FIRST, "--yes")
    create(admin, pods_path, "job")
    admin.until(f"{pods_path}/job", is_bound)
    assert f"{pods_path.split('/')[4]}/job" in people.refused("release", FIRST, "--yes")
    assert mode(pool) == "slot"
    people.ok("release", FIRST, "--drain", "--yes")
    assert mode(pool) == "observe"
    assert pool.entries()[FIRST] == []
    assert admin.find(f"{pods_path}/job") is None


def test_a_pod_that_waits_for_the_node_alone_leaves_the_gate_with_it(
    pool: ClusterPool, people: People, admin: Api, pods_path: str
) -> None:
    people.ok("adopt", FIRST, "--yes")
    here = required(labelled("kubernetes.io/hostname", FIRST))
    too_much = {"main": asking(16, 1000, None)}
    create(admin, pods_path, "here", containers=too_much, spec={"affinity": here})
    create(admin, pods_path, "anywhere", containers=too_much)
    people.ok("release", FIRST, "--yes")
    admin.until(f"{pods_path}/here", lambda found: not found["spec"].get("schedulingGates"))
    assert admin.get(f"{pods_path}/anywhere")["spec"]["schedulingGates"] == [{"name": names.GATE}]


def test_a_direct_pod_that_waits_for_the_node_alone_is_named_since_nobody_else_binds_it(
    pool: ClusterPool, people: People, admin: Api, pods_path: str
) -> None:
    people.ok("adopt", FIRST, "--yes")
    here = required(labelled("kubernetes.io/hostname", FIRST))
    too_much, name = {"main": asking(16, 1000, None)}, f"{pods_path.split('/')[4]}/here"
    create(admin, pods_path, "here", containers=too_much, direct=True, spec={"affinity": here})
    create(admin, pods_path, "anywhere", containers=too_much, direct=True)
    assert f"would leave {name}, which waits for {FIRST} alone" in people.ok(
        "release", FIRST, "--dry-run"
    )
    assert people.data("release", FIRST, "--dry-run")["left"] == [name]
    said = f"{FIRST} is only looked at now; {name} cannot go elsewhere and nobody else binds them: kubectl delete pod"
    assert said in people.ok("release", FIRST, "--yes")
    assert f"only looked at already; {name} cannot go" in people.ok("release", FIRST, "--yes")


def test_a_doctor_names_what_is_missing_and_who_else_is_here(
    pool: ClusterPool, people: People, plugin: Object
) -> None:
    done = people.run("doctor", "-o", "table")
    found = {line.split()[0]: line for line in done.stdout.splitlines() if line.strip()}
    assert " ok " in found["server"]
    assert " ok " in found["objects"], done.stdout
    assert " ok " in found["agents"]
    assert "NVIDIA device plugin" in found["others"]
    assert "nobody leads" in found["controller"]  # the tests' controller runs without a lease
    assert done.returncode == 1


def test_adopting_is_told_to_who_looks_at_the_node(pool: ClusterPool, people: People) -> None:
    people.ok("adopt", SECOND, "--yes")
    events = "/apis/events.k8s.io/v1/namespaces/default/events"
    pool.admin.until(events, lambda found: bool(_adopted(found)))
    assert _adopted(pool.admin.get(events)) == ["gpupool hands out its 4 cards, in mode slot"]


def _adopted(events: Object) -> list[str]:
    return [
        one["note"]
        for one in events["items"]
        if one["regarding"]["name"] == SECOND and one["reason"] == "Adopted"
    ]


def _no_mode() -> Object:
    return {"key": names.MODE, "operator": "DoesNotExist"}


def _plugin_nodes(pool: ClusterPool) -> set[str]:
    """Where the DaemonSet's controller wants it; without kubelets pods that leave stay marked."""
    items = pool.admin.get(
        "/api/v1/namespaces/kube-system/pods?labelSelector=name%3Dnvidia-device-plugin-daemonset"
    )
    live = [one for one in items["items"] if "deletionTimestamp" not in one["metadata"]]
    return {one["spec"].get("nodeName", "") for one in live}
