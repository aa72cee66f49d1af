"""The ground the pool stands on: what the API server lets a controller do to a pod that is
gated."""

from typing import Any

import pytest

from tests.support.cluster.api import Api, Object, RefusedError
from tests.support.cluster.pods import is_bound, labelled, on_node, pod, required

GATE = "gpupool.test/placement"
OTHER = "example.test/other"
INVALID, CONFLICT = 422, 409
ZONES = labelled("zone", "a", "b")
DISKS = labelled("disk", "ssd")


@pytest.fixture
def gated(admin: Api, pods_path: str) -> str:
    """The path of a pod with two gates, a selector and a required affinity of two terms."""
    spec: dict[str, Any] = {"affinity": required(ZONES, DISKS), "nodeSelector": {"tier": "gold"}}
    admin.create(pods_path, pod("p", gates=[GATE, OTHER], **spec))
    return f"{pods_path}/p"


@pytest.fixture
def plain(admin: Api, pods_path: str) -> str:
    """The path of a pod with one gate and nothing else."""
    admin.create(pods_path, pod("p", gates=[GATE]))
    return f"{pods_path}/p"


def _gates(found: Object) -> list[str]:
    return [gate["name"] for gate in found["spec"].get("schedulingGates", ())]


def _refuses(admin: Api, path: str, spec: Object, words: str) -> None:
    before = admin.get(path)["spec"]
    with pytest.raises(RefusedError, match=words) as refusal:
        admin.merge(path, {"spec": spec})
    assert refusal.value.status == INVALID
    assert admin.get(path)["spec"] == before


@pytest.mark.parametrize("first", [GATE, OTHER])
def test_gates_go_in_any_order(admin: Api, gated: str, first: str) -> None:
    (left,) = {GATE, OTHER} - {first}
    assert _gates(admin.merge(gated, {"spec": {"schedulingGates": [{"name": left}]}})) == [left]
    assert _gates(admin.merge(gated, {"spec": {"schedulingGates": None}})) == []


def test_a_gate_is_never_added_later(admin: Api, plain: str) -> None:
    _refuses(
        admin,
        plain,
        {"schedulingGates": [{"name": GATE}, {"name": OTHER}]},
        "only deletion is allowed",
    )


def test_a_gated_pod_is_not_placed_and_says_why(
    admin: Api, plain: str, simulated_nodes: list[str]
) -> None:
    found = admin.until(plain, lambda p: bool(p["status"].get("conditions")))
    (condition,) = found["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == (
        "PodScheduled",
        "False",
        "SchedulingGated",
    )
    assert not is_bound(found)


def test_a_selector_takes_more_keys(admin: Api, gated: str) -> None:
    found = admin.merge(gated, {"spec": {"nodeSelector": {"rack": "r1"}}})
    assert found["spec"]["nodeSelector"] == {"tier": "gold", "rack": "r1"}


@pytest.mark.parametrize("change", [{"tier": "silver"}, {"tier": None}])
def test_a_selectors_keys_neither_change_nor_go(admin: Api, gated: str, change: Object) -> None:
    _refuses(admin, gated, {"nodeSelector": change}, "nodeSelector")


def test_an_affinity_is_set_where_there_was_none(admin: Api, plain: str) -> None:
    found = admin.merge(plain, {"spec": {"affinity": required(on_node("n"))}})
    assert found["spec"]["affinity"] == required(on_node("n"))


def test_every_term_of_an_affinity_takes_more_requirements(admin: Api, gated: str) -> None:
    pinned = required({**ZONES, **on_node("n")}, {**DISKS, **on_node("n")})
    assert admin.merge(gated, {"spec": {"affinity": pinned}})["spec"]["affinity"] == pinned


@pytest.mark.parametrize(
    "terms",
    [
        (ZONES, DISKS, on_node("n")),
        (ZONES,),
        (ZONES, on_node("n")),
        (ZONES, labelled("disk", "hdd")),
    ],
    ids=["one more", "one less", "one replaced", "one changed"],
)
def test_the_terms_of_an_affinity_stay_as_they_are(
    admin: Api, gated: str, terms: tuple[Object, ...]
) -> None:
    _refuses(admin, gated, {"affinity": required(*terms)}, "odeSelectorTerms")


def test_preferences_labels_annotations_and_tolerations_are_free(admin: Api, gated: str) -> None:
    preferred = [{"weight": 5, "preference": labelled("zone", "a")}]
    affinity = required(ZONES, DISKS)
    affinity["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] = preferred
    tolerations = [*admin.get(gated)["spec"]["tolerations"], {"key": "k", "operator": "Exists"}]
    metadata = {"labels": {"l": "1"}, "annotations": {"a": "2"}}
    found = admin.merge(
        gated, {"metadata": metadata, "spec": {"affinity": affinity, "tolerations": tolerations}}
    )
    assert (found["metadata"]["labels"]["l"], found["metadata"]["annotations"]["a"]) == ("1", "2")
    assert found["spec"]["affinity"] == affinity
    assert found["spec"]["tolerations"] == tolerations


CONTAINER = {"name": "main", "image": "gpupool.test/busybox:1"}
APART = {"labelSelector": {"matchLabels": {"l": "1"}}, "topologyKey": "kubernetes.io/hostname"}


@pytest.mark.parametrize(
    "spec",
    [
        {"containers": [{**CONTAINER, "resources": {"limits": {"gpupool.test/card": "2"}}}]},
        {"containers": [{**CONTAINER, "env": [{"name": "A", "value": "1"}]}]},
        {"preemptionPolicy": "Never"},
        {"priorityClassName": "system-cluster-critical"},
        {"schedulerName": "another"},
        {"runtimeClassName": "another"},
        {
            "affinity": {
                "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [APART]}
            }
        },
        {"resourceClaims": [{"name": "c", "resourceClaimName": "c"}]},
        {"nodeName": "n"},
    ],
    ids=lambda spec: next(iter(spec)),
)
def test_what_a_pod_asks_for_is_settled_when_it_is_created(
    admin: Api, plain: str, spec: Object
) -> None:
    _refuses(
        admin,
        plain,
        spec,
        "pod updates may not change fields|may only be|Forbidden|forbidden|field is immutable",
    )


def test_a_gated_pod_with_a_node_is_refused(admin: Api, pods_path: str) -> None:
    with pytest.raises(RefusedError, match="cannot be set until all schedulingGates") as refusal:
        admin.create(pods_path, pod("p", gates=[GATE], nodeName="n"))
    assert refusal.value.status == INVALID


def test_a_gated_pod_cannot_be_bound(admin: Api, plain: str, simulated_nodes: list[str]) -> None:
    with pytest.raises(RefusedError, match="has non-empty") as refusal:
        admin.create(f"{plain}/binding", _binding("p", simulated_nodes[0]))
    assert refusal.value.status == CONFLICT


def test_one_patch_releases_a_pod_to_the_chosen_node(
    admin: Api, plain: str, simulated_nodes: list[str]
) -> None:
    chosen = simulated_nodes[1]
    version = admin.get(plain)["metadata"]["resourceVersion"]
    metadata = {"resourceVersion": version, "annotations": {"gpupool.test/cards": "0,3"}}
    admin.merge(
        plain,
        {
            "metadata": metadata,
            "spec": {"schedulingGates": None, "affinity": required(on_node(chosen))},
        },
    )
    found = admin.until(plain, is_bound)
    assert found["spec"]["nodeName"] == chosen
    assert found["metadata"]["annotations"]["gpupool.test/cards"] == "0,3"


def test_a_release_that_read_an_older_pod_is_refused(admin: Api, plain: str) -> None:
    version = admin.get(plain)["metadata"]["resourceVersion"]
    admin.merge(plain, {"metadata": {"labels": {"changed": "meanwhile"}}})
    with pytest.raises(RefusedError, match="the object has been modified") as refusal:
        admin.merge(
            plain, {"metadata": {"resourceVersion": version}, "spec": {"schedulingGates": None}}
        )
    assert refusal.value.status == CONFLICT
    assert _gates(admin.get(plain)) == [GATE]


def test_without_gates_the_affinity_is_frozen(admin: Api, plain: str) -> None:
    admin.merge(
        plain, {"spec": {"schedulingGates": None, "affinity": required(on_node("no-such-node"))}}
    )
    _refuses(
        admin,
        plain,
        {"affinity": required(on_node("another"))},
        "pod updates may not change fields",
    )


def test_a_pod_is_bound_once_and_takes_the_bindings_annotations(
    admin: Api, pods_path: str, simulated_nodes: list[str]
) -> None:
    admin.create(pods_path, pod("p", schedulerName="a-binder-of-our-own"))
    admin.create(
        f"{pods_path}/p/binding", _binding("p", simulated_nodes[2], {"gpupool.test/cards": "1"})
    )
    found = admin.get(f"{pods_path}/p")
    assert found["spec"]["nodeName"] == simulated_nodes[2]
    assert found["metadata"]["annotations"]["gpupool.test/cards"] == "1"
    with pytest.raises(RefusedError, match="already assigned to node") as refusal:
        admin.create(f"{pods_path}/p/binding", _binding("p", simulated_nodes[0]))
    assert refusal.value.status == CONFLICT


def test_an_evicted_gated_pod_is_gone_at_once(admin: Api, plain: str) -> None:
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    admin.create(f"{plain}/eviction", eviction)
    assert admin.find(plain) is None


def test_a_reason_written_on_a_gated_pod_stays(admin: Api, plain: str) -> None:
    """Autoscalers act on `Unschedulable` alone, so that whoever holds the gate decides whether they
    do."""
    admin.until(plain, lambda p: bool(p["status"].get("conditions")))
    ours = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "no card is free",
    }
    admin.merge(f"{plain}/status", {"status": {"conditions": [ours]}})
    admin.merge(plain, {"metadata": {"labels": {"changed": "so-the-scheduler-looks-again"}}})
    (condition,) = admin.get(plain)["status"]["conditions"]
    assert (condition["reason"], condition["message"]) == ("Unschedulable", "no card is free")


def _binding(name: str, node: str, annotations: dict[str, str] | None = None) -> Object:
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    metadata = {"name": name, "annotations": annotations or {}}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
