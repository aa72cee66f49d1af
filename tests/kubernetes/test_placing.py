"""The controller on a real control plane: pods that ask get cards, everybody else is told why, and
nobody gets two."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from gpupool.kubernetes.ledger import ledger
from gpupool.kubernetes.manifests import install
from gpupool.kubernetes.resources import names
from gpupool.model.sharing_default import SHARING_LABEL
from tests.support.cluster.api import Api, Object, RefusedError
from tests.support.cluster.cluster import Cluster
from tests.support.cluster.pods import is_bound
from tests.support.cluster_pool import ClusterPool, fresh
from tests.support.kube_builders import asking, gang, pod

WHOLE = {"main": asking(1, 1000, None)}
CARDS = 4


@pytest.fixture(scope="module")
def pool(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterPool]:
    with ClusterPool(cluster, tmp_path_factory.mktemp("pool")) as made:
        made.adopt(cluster.simulate_nodes(2, prefix="cards"), CARDS)
        made.start()
        yield made


@pytest.fixture(autouse=True)
def _nothing_is_left(pool: ClusterPool, pods_path: str) -> Iterator[None]:
    yield
    pool.clear(pods_path)


def create(admin: Api, pods_path: str, name: str, containers: Any = None, **more: Any) -> Object:
    made = fresh(pod(name, containers, **more))
    made["metadata"]["namespace"] = pods_path.split("/")[4]
    return admin.create(pods_path, made)


def message(found: Object) -> tuple[str, str]:
    (one,) = [c for c in found["status"].get("conditions", ()) if c["type"] == "PodScheduled"]
    return one["reason"], one.get("message", "")


def held(pool: ClusterPool) -> dict[str, int]:
    """By card, thousandths that ledgers hold."""
    found: dict[str, int] = {}
    for entries in pool.entries().values():
        for card in (card for entry in entries for card in entry["cards"]):
            found[card["uuid"]] = found.get(card["uuid"], 0) + card["gpuMilli"]
    return found


def test_shares_are_packed_bound_and_told(pool: ClusterPool, admin: Api, pods_path: str) -> None:
    for n in range(6):
        create(admin, pods_path, f"share-{n}")
    for n in range(6):
        found = admin.until(f"{pods_path}/share-{n}", is_bound)
        assert found["spec"]["nodeName"] in found["metadata"]["annotations"][names.PLACED]
    assert sorted(held(pool).values()) == [900, 900]
    active = lambda: {e["state"] for es in pool.entries().values() for e in es} == {"active"}  # noqa: E731
    pool.until(active, "every entry active")


def test_a_node_says_what_it_has(pool: ClusterPool, admin: Api, pods_path: str) -> None:
    has = {names.GPU_MILLI: "4k", names.MEMORY: str(CARDS * 48 << 30)}
    for name in pool.agents.names:
        admin.until(
            f"/api/v1/nodes/{name}", lambda node: node["status"]["capacity"].items() >= has.items()
        )


def test_who_finds_no_room_waits_with_a_sentence_and_gets_the_next_free_card(
    pool: ClusterPool, admin: Api, pods_path: str
) -> None:
    for n in range(2 * CARDS):
        create(admin, pods_path, f"whole-{n}", WHOLE)
    for n in range(2 * CARDS):
        admin.until(f"{pods_path}/whole-{n}", is_bound)
    create(admin, pods_path, "late", WHOLE)
    found = admin.until(f"{pods_path}/late", lambda p: message(p)[0] == "Unschedulable")
    assert "whole card" in message(found)[1]
    assert not is_bound(found)
    admin.delete(f"{pods_path}/whole-3?gracePeriodSeconds=0")
    admin.until(f"{pods_path}/late", is_bound)
    assert set(held(pool).values()) == {1000}


def test_what_no_node_could_ever_hold_is_no_reason_to_add_nodes(
    pool: ClusterPool, admin: Api, pods_path: str
) -> None:
    create(admin, pods_path, "huge", {"main": asking(16, 1000, None)})
    found = admin.until(f"{pods_path}/huge", lambda p: "16" in message(p)[1])
    assert message(found)[0] == "SchedulingGated"


def test_a_gang_whose_pods_come_one_after_the_other_has_its_seats_from_the_first(
    pool: ClusterPool, admin: Api, pods_path: str
) -> None:
    create(admin, pods_path, "w-0", WHOLE, gang=gang(6))
    admin.until(f"{pods_path}/w-0", is_bound)
    assert sum(held(pool).values()) == 6000
    create(admin, pods_path, "other", {"main": asking(4, 1000, None)})
    for n in range(1, 6):
        create(admin, pods_path, f"w-{n}", WHOLE, gang=gang(6))
        admin.until(f"{pods_path}/w-{n}", is_bound)
    assert sum(held(pool).values()) == 6000
    assert not is_bound(admin.get(f"{pods_path}/other"))


def test_kill_9_in_the_middle_gives_nobody_two_and_forgets_nobody(
    pool: ClusterPool, admin: Api, pods_path: str
) -> None:
    for n in range(24):
        create(admin, pods_path, f"p-{n}")
        if n % 8 == 3:
            pool.kill()
            pool.start()
    for n in range(24):
        admin.until(f"{pods_path}/p-{n}", is_bound)
    assert sum(held(pool).values()) == 24 * 300
    assert max(held(pool).values()) <= 1000
    uids = [entry["uid"] for entries in pool.entries().values() for entry in entries]
    assert len(uids) == len(set(uids)) == 24


def test_a_pod_of_higher_priority_has_one_of_lower_evicted_and_no_more(
    pool: ClusterPool, admin: Api, pods_path: str
) -> None:
    low, high = {"value": -10}, {"value": 10}
    for name, one in (("gpupool-test-low", low), ("gpupool-test-high", high)):
        made = {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            **one,
        }
        admin.apply(f"/apis/scheduling.k8s.io/v1/priorityclasses/{name}", made)
    for n in range(2 * CARDS):
        spec = {"priorityClassName": "gpupool-test-low", "terminationGracePeriodSeconds": 0}
        create(admin, pods_path, f"low-{n}", WHOLE, preemptible=True, spec=spec)
    for n in range(2 * CARDS):
        admin.until(f"{pods_path}/low-{n}", is_bound)
    create(admin, pods_path, "high", WHOLE, spec={"priorityClassName": "gpupool-test-high"})
    admin.until(
        f"{pods_path}/high", is_bound, 150
    )  # who has just started is left alone until the next look, in 60 s
    left = [p for p in admin.get(pods_path)["items"] if p["metadata"]["name"].startswith("low")]
    assert len(left) == 2 * CARDS - 1


FORBIDDEN = "GP-2031"


@pytest.mark.parametrize(
    "patch",
    [
        {"spec": {"schedulingGates": None}},
        {"metadata": {"annotations": {names.CLAIM: "{}"}}},
        {"metadata": {"annotations": {names.PLACED: "here"}}},
        {"metadata": {"labels": {names.MANAGED: None}}},
    ],
)
def test_a_tenant_that_helps_itself_is_refused(
    pool: ClusterPool, admin: Api, pods_path: str, patch: dict[str, Any]
) -> None:
    tenant = _tenant(pool, pods_path)
    create(admin, pods_path, "huge", {"main": asking(16, 1000, None)})
    with pytest.raises(RefusedError, match=FORBIDDEN):
        tenant.merge(f"{pods_path}/huge", patch)
    tenant.merge(f"{pods_path}/huge", {"metadata": {"annotations": {"my.own/note": "fine"}}})


def test_a_pod_that_slipped_past_admission_is_refused(
    pool: ClusterPool, admin: Api, pods_path: str
) -> None:
    with pytest.raises(RefusedError, match="GP-2032"):
        create(admin, pods_path, "bare", spec={"schedulingGates": []})


def test_only_the_controller_writes_a_ledger_and_an_agent_its_own_status(
    pool: ClusterPool, admin: Api, pods_path: str
) -> None:
    mine, other = sorted(pool.agents.names)[:2]
    with pytest.raises(RefusedError, match=FORBIDDEN):
        admin.merge(f"{ledger.NODES}/{mine}", {"spec": {"allocations": [_entry()]}})
    access = pool.cluster.access()
    agent = access.client(access.token(install.NAMESPACE, install.AGENT, mine))
    agent.merge(f"{ledger.NODES}/{mine}/status", {"status": {"agent": "0.1"}})
    with pytest.raises(RefusedError, match=FORBIDDEN):
        agent.merge(f"{ledger.NODES}/{other}/status", {"status": {"agent": "0.1"}})
    with pytest.raises(RefusedError, match="forbidden"):
        agent.merge(f"{ledger.NODES}/{mine}", {"spec": {"mode": "observe"}})


def _entry() -> dict[str, Any]:
    card = {"uuid": "GPU-x", "gpuMilli": 1000, "memoryBytes": 1}
    named = dict.fromkeys(("uid", "namespace", "pod", "container", "tenant"), "x")
    return {**named, "cards": [card], "state": "reserved", "generation": 1}


def _tenant(pool: ClusterPool, pods_path: str) -> Api:
    """Somebody who may do what he likes with pods."""
    access, namespace = pool.cluster.access(), pods_path.split("/")[4]
    rule = {
        "apiGroups": [""],
        "resources": ["pods"],
        "verbs": ["get", "create", "patch", "update", "delete"],
    }
    access.service_account(namespace, "tenant", [rule])
    return access.client(access.token(namespace, "tenant"))


POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"


def test_a_pod_whose_release_somebody_forbids_says_so_and_goes_once_it_is_allowed(
    pool: ClusterPool, admin: Api, pods_path: str
) -> None:
    """Another's admission sees our patch as an update by us; what it says is all that people have
    to go by."""
    rule = {
        "operations": ["UPDATE"],
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "resources": ["pods"],
    }
    gates = "size({}.spec.?schedulingGates.orValue([]))"
    kept = f"{gates.format('object')} == {gates.format('oldObject')}"
    spec: Object = {
        "matchConstraints": {"resourceRules": [rule]},
        "matchConditions": [{"name": "mine", "expression": "object.metadata.name == 'forbidden'"}],
        "validations": [{"expression": kept, "message": "gates are security's"}],
    }
    named: Object = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "metadata": {"name": "of-others"},
    }
    admin.apply(
        f"{POLICIES}/of-others", {**named, "kind": "ValidatingAdmissionPolicy", "spec": spec}
    )
    binding = {"policyName": "of-others", "validationActions": ["Deny"]}
    bindings = f"{POLICIES.removesuffix('ies')}ybindings"
    admin.apply(
        f"{bindings}/of-others",
        {**named, "kind": "ValidatingAdmissionPolicyBinding", "spec": binding},
    )
    try:
        admin.until(pods_path, lambda _: _forbids(admin, pods_path))
        create(admin, pods_path, "forbidden")
        found = admin.until(f"{pods_path}/forbidden", lambda one: "security" in str(one["status"]))
        assert "the release of this pod is refused" in message(found)[1]
        assert held(pool), "its cards are kept"
    finally:
        admin.delete(f"{bindings}/of-others")
        admin.delete(f"{POLICIES}/of-others")
    admin.until(f"{pods_path}/forbidden", is_bound)


def _forbids(admin: Api, pods_path: str) -> bool:
    """Whether the API server knows of the policy: it takes a moment. Tried on a pod that nobody
    manages."""
    bare = {"name": "p", "image": "none"}
    gated = {"containers": [bare], "schedulingGates": [{"name": "example.com/try"}]}
    made: Object = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "forbidden"},
        "spec": gated,
    }
    admin.create(pods_path, made)
    try:
        admin.merge(f"{pods_path}/forbidden", {"spec": {"schedulingGates": None}})
    except RefusedError:
        return True
    finally:
        admin.delete(f"{pods_path}/forbidden?gracePeriodSeconds=0")
        admin.until_gone(f"{pods_path}/forbidden")
    return False


def test_pod_without_sharing_takes_the_default_of_its_node(
    pool: ClusterPool, admin: Api, pods_path: str
) -> None:
    name = min(pool.agents.names)
    path = f"/api/v1/nodes/{name}"
    pinned = {"nodeSelector": {"kubernetes.io/hostname": name}}
    admin.merge(path, {"metadata": {"labels": {SHARING_LABEL: "burst"}}})
    try:
        containers = {"unnamed": asking(names_sharing=False), "named": asking()}
        create(admin, pods_path, "default", containers, spec=pinned)
        found = admin.until(f"{pods_path}/default", is_bound)
    finally:
        admin.merge(path, {"metadata": {"labels": {SHARING_LABEL: None}}})
    kinds = {one["container"]: one.get("sharing", "fixed") for one in pool.entries()[name]}
    assert kinds == {"unnamed": "burst", "named": "fixed"}
    assert found["metadata"]["annotations"][names.PLACED].count("(burst)") == 1
