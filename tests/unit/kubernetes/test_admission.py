"""A pod that asks becomes the normal form behind our gate; everybody else is left alone."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from gpupool.base.errors import Refused
from gpupool.kubernetes import admission, names
from gpupool.kubernetes.admission import Cluster, decide, review
from gpupool.kubernetes.hosts import Host
from gpupool.kubernetes.objects import GpuNode
from gpupool.kubernetes.pods import read_pod
from gpupool.kubernetes.pool import Pool
from gpupool.kubernetes.tenants import TenantTree
from gpupool.model.quota import Branch, Quota
from gpupool.scheduling.admit import judge
from tests.support.kube_builders import CREATED, gpu_node, node


def asking(**limits: str) -> dict[str, Any]:
    words = {f"gpupool.dev/{name.replace('_', '-')}": text for name, text in limits.items()}
    return {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "main", "resources": {"limits": words}}]}}


def cluster(**more: Any) -> Cluster:
    pool = Pool()
    pool.note_host("n0", Host.from_json(node("n0")))
    pool.note_ledger("n0", GpuNode.from_json(gpu_node("n0")))
    return Cluster(pool.snapshot().cards, **more)


def test_what_is_decided_is_what_the_controller_reads() -> None:
    made = decide(asking(gpus="2", gpu_milli="300", memory="8Gi"), "team", cluster()).pod
    meta = {"uid": "u", "namespace": "team", "resourceVersion": "1", "creationTimestamp": CREATED}
    read = read_pod({**made, "metadata": {**made["metadata"], **meta}})
    (ask,) = read.asks
    assert (ask.shape.count, ask.shape.gpu_milli, ask.shape.memory_bytes) == (2, 300, 8 << 30)
    assert read.waits
    assert made["metadata"]["labels"] == {names.MANAGED: "true"}


def test_deciding_twice_is_deciding_once() -> None:
    once = decide(asking(gpu_milli="300"), "team", cluster())
    assert decide(once.pod, "team", cluster()).pod == once.pod


def test_gates_of_others_stay() -> None:
    pod = asking(gpus="1")
    pod["spec"]["schedulingGates"] = [{"name": "other.example/gate"}]
    gates = decide(pod, "team", cluster()).pod["spec"]["schedulingGates"]
    assert [gate["name"] for gate in gates] == ["other.example/gate", names.GATE]


def test_who_asks_for_no_card_is_left_alone() -> None:
    pod = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "main"}]}}
    assert decide(pod, "team", cluster()).pod == pod


def test_words_of_a_dialect_that_is_not_taken_are_left_to_others() -> None:
    pod = {"spec": {"containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]}}
    assert decide(pod, "team", cluster(dialects=frozenset({"native"}))).pod == pod
    assert "schedulingGates" in decide(pod, "team", cluster()).pod["spec"]


def test_what_is_in_use_waits_and_what_is_beyond_the_maximum_does_not() -> None:
    limited = cluster(tree=TenantTree(tenants={"team": Branch(None, Quota(1000, 500))}))
    assert decide(asking(gpus="1"), "team", limited)
    with pytest.raises(Refused, match=r"2\.00 GPU"):
        decide(asking(gpus="2"), "team", limited)
    assert decide(asking(gpus="2"), "another", limited)


def test_what_is_beyond_the_maximum_of_who_is_above_the_tenant_is_refused_too() -> None:
    tree = TenantTree({"lab": Branch(None, Quota(1000, 500))}, {"a": Branch("lab")}, {"space": "a"})
    limited = cluster(tree=tree)
    assert decide(asking(gpus="1"), "space", limited)
    with pytest.raises(Refused, match=r"(?s)2\.00 GPU is beyond cohort lab's maximum of 1\.50 GPU .*kubectl edit"):
        decide(asking(gpus="2"), "space", limited)


def test_what_pods_of_a_kind_ask_is_judged_once_while_the_cluster_stays_as_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []
    monkeypatch.setattr(admission, "judge", lambda *of, **more: asked.append(of) or judge(*of, **more))
    known = cluster()
    for _ in range(5):
        decide(asking(gpus="1"), "team", known)
        with pytest.raises(Refused):
            decide(asking(gpus="64"), "team", known)
    assert len(asked) == 2
    decide(asking(gpus="1"), "another", known)
    decide(asking(gpus="1"), "team", cluster())
    assert len(asked) == 4


def test_before_there_are_cards_nothing_is_too_large() -> None:
    assert decide(asking(gpus="64"), "team", Cluster())
    with pytest.raises(Refused):
        decide(asking(gpus="64"), "team", cluster())


def test_a_card_that_is_named_is_checked_against_the_pools() -> None:
    pod = asking(gpus="1")
    pod["metadata"]["annotations"] = {"gpupool.dev/cards": "GPU-n0-2"}
    decide(pod, "team", cluster())
    pod["metadata"]["annotations"] = {"gpupool.dev/cards": "GPU-1"}
    with pytest.raises(Refused, match="none of the cards GPU-1 is in this pool"):
        decide(pod, "team", cluster())


@pytest.mark.parametrize("word", ["huawei.com/Ascend910B3", "amd.com/gpu"])
def test_another_vendors_card_is_refused_where_the_pool_has_none(word: str) -> None:
    pod = asking(gpus="1")
    pod["spec"]["containers"][0]["resources"] = {"limits": {word: "1"}}
    with pytest.raises(Refused, match=r"no card of vendor (ascend|amd) in this pool; it has cards of nvidia"):
        decide(pod, "team", cluster())


def test_the_vendor_that_a_pod_names_in_our_words_is_kept() -> None:
    pod = asking(gpus="1")
    pod["metadata"]["annotations"] = {"gpupool.dev/vendor": "amd"}
    with pytest.raises(Refused, match="no card of vendor amd"):
        decide(pod, "team", cluster())


def test_an_answer_is_a_patch_or_a_refusal_in_one_sentence() -> None:
    told = review({"request": {"uid": "7", "namespace": "team", "object": asking(gpus="1")}}, cluster())["response"]
    assert (told["uid"], told["allowed"], told["patchType"]) == ("7", True, "JSONPatch")
    assert {one["path"] for one in json.loads(base64.b64decode(told["patch"]))} == {"/metadata", "/spec"}
    refused = review({"request": {"uid": "7", "object": asking(gpu_milli="5000")}}, cluster())["response"]
    assert not refused["allowed"]
    assert refused["status"]["message"].startswith("GP-1041: ")
