"""Who may be bound by the controller, and what becomes of him on admission, as often as it is
asked."""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.base.errors import PodRejection
from gpupool.kubernetes.admission.decide import ClusterFacts, decide_admission
from gpupool.kubernetes.resources import direct_binding, names
from gpupool.kubernetes.resources.pod import Pod, read_pod
from gpupool.kubernetes.status.pod_conditions import condition_patch
from tests.support.kube_builders import pod
from tests.unit.kubernetes.admission.test_decide import asking

ON = ClusterFacts(direct=True)
OFF = ClusterFacts()
TERM = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {}}
PLAIN = {
    "volumes": [{"name": "a", "emptyDir": {}}, {"name": "b", "projected": {"sources": []}}],
    "tolerations": [{"operator": "Exists"}],
    "nodeSelector": {"tier": "gold"},
    "affinity": {"nodeAffinity": {}},
    "priorityClassName": "high",
    "initContainers": [{"name": "i", "resources": {"requests": {"cpu": "1"}}}],
}
NOT_PLAIN: list[dict[str, Any]] = [
    {"volumes": [{"name": "a", "persistentVolumeClaim": {"claimName": "c"}}]},
    {"volumes": [{"name": "a", "ephemeral": {}}]},
    {"affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [TERM]}}},
    {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}}},
    {"topologySpreadConstraints": [{"maxSkew": 1}]},
    {"resourceClaims": [{"name": "c"}]},
    {"schedulingGates": [{"name": "other.example/gate"}]},
    {"hostNetwork": True},
    {"schedulingGroup": {"podGroupName": "g"}},
    {"initContainers": [{"name": "i", "resources": {"requests": {"rdma/hca": "1"}}}]},
    {"initContainers": [{"name": "i", "resources": {"limits": {"ephemeral-storage": "1Gi"}}}]},
    {"initContainers": [{"name": "i", "ports": [{"containerPort": 80, "hostPort": 80}]}]},
]


def made(spec: dict[str, Any], cluster: ClusterFacts = ON) -> dict[str, Any]:
    typed = asking(gpu_milli="300")
    return decide_admission({**typed, "spec": {**typed["spec"], **spec}}, "team", cluster).pod


def is_direct(found: dict[str, Any]) -> bool:
    """And is not gated then; else it is."""
    gates = [gate["name"] for gate in found["spec"].get("schedulingGates", ())]
    named = found["spec"].get("schedulerName") == names.DIRECT
    assert (names.GATE in gates) != named
    assert found["metadata"]["labels"][names.MANAGED] == "true"
    return bool(named)


def test_who_has_nothing_but_cards_and_processors_to_place_is_direct_where_that_is_on() -> None:
    assert is_direct(made(PLAIN))
    assert not is_direct(made(PLAIN, OFF))


@pytest.mark.parametrize("spec", NOT_PLAIN, ids=str)
def test_what_kube_scheduler_alone_knows_is_left_to_it(spec: dict[str, Any]) -> None:
    assert not is_direct(made(spec))


def test_asked_again_it_is_as_the_pod_and_the_settings_are_now() -> None:
    once = made({})
    assert decide_admission(once, "team", ON).pod == once
    assert not is_direct(decide_admission(once, "team", OFF).pod)
    changed = {**once, "spec": {**once["spec"], **NOT_PLAIN[0]}}
    found = decide_admission(changed, "team", ON).pod
    assert not is_direct(found)
    assert found["spec"]["schedulerName"] == "default-scheduler"


def test_nobody_chooses_it_for_himself() -> None:
    with pytest.raises(PodRejection, match="no scheduler known here"):
        made({"schedulerName": names.DIRECT})


def test_what_is_not_taken_stays_as_it_is() -> None:
    theirs = asking(gpu_milli="300")
    theirs["spec"]["containers"][0]["resources"]["limits"] = {"nvidia.com/gpu": "1"}
    once = decide_admission(theirs, "team", ON).pod
    assert is_direct(once)
    assert (
        decide_admission(
            once, "team", ClusterFacts(direct=True, dialects=frozenset({"native"}))
        ).pod
        == once
    )


def _read(**spec: Any) -> Pod:
    found = pod(direct=True)
    return read_pod({**found, "spec": {**found["spec"], **spec}})


def test_it_waits_until_it_is_bound() -> None:
    assert (_read().is_waiting, _read().gated, _read().direct) == (True, True, True)
    assert (_read(nodeName="n0").is_waiting, _read(nodeName="n0").gated) == (False, False)


def test_its_reason_is_not_written_over_what_it_has_become() -> None:
    assert condition_patch(_read(), "WaitsForCards", "why")["metadata"] == {
        "uid": "uid-a",
        "resourceVersion": "1",
    }
    assert condition_patch(read_pod(pod()), "SchedulingGated", "why")["metadata"] == {
        "uid": "uid-a"
    }


def test_no_condition_of_the_api_server_names_a_field_that_old_ones_lack() -> None:
    assert "workloadRef" not in direct_binding.cel_condition()
    assert "schedulingGroup" not in direct_binding.cel_condition()
