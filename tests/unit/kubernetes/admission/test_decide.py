"""A pod that asks becomes the normal form behind our gate; everybody else is left alone."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Any

import pytest

from gpupool.base.errors import BadManifest, ForeignValue, IsolationNotOffered, RequestRejection
from gpupool.kubernetes.admission import decide as admission
from gpupool.kubernetes.admission.decide import ClusterFacts, decide_admission, review_pod
from gpupool.kubernetes.cache.cluster import ClusterCache
from gpupool.kubernetes.resources import names
from gpupool.kubernetes.resources.card_offers import build_card_offers
from gpupool.kubernetes.resources.gpu_node import GpuNode
from gpupool.kubernetes.resources.gpu_node_status import ShareIsolation
from gpupool.kubernetes.resources.node import NodeFacts
from gpupool.kubernetes.resources.pod import read_pod
from gpupool.kubernetes.resources.tenant import TenantTree
from gpupool.model.enforcement import FenceLevel
from gpupool.model.quota import Quota, QuotaBranch
from gpupool.scheduling.admission.claim import judge_claim
from tests.support.kube_builders import CREATED, gpu_node, node


def asking(**limits: str) -> dict[str, Any]:
    words = {f"gpupool.dev/{name.replace('_', '-')}": text for name, text in limits.items()}
    return {
        "metadata": {"name": "a"},
        "spec": {"containers": [{"name": "main", "resources": {"limits": words}}]},
    }


def cluster(**more: Any) -> ClusterFacts:
    pool = ClusterCache()
    pool.note_host("n0", NodeFacts.from_json(node("n0")))
    pool.note_ledger("n0", GpuNode.from_json(gpu_node("n0")))
    return ClusterFacts(pool.take_snapshot().cards, **more)


def test_what_is_decided_is_what_the_controller_reads() -> None:
    made = decide_admission(asking(gpus="2", gpu_milli="300", memory="8Gi"), "team", cluster()).pod
    meta = {"uid": "u", "namespace": "team", "resourceVersion": "1", "creationTimestamp": CREATED}
    read = read_pod({**made, "metadata": {**made["metadata"], **meta}})
    (ask,) = read.asks
    assert (ask.shape.count, ask.shape.gpu_milli, ask.shape.memory_bytes) == (2, 300, 8 << 30)
    assert read.is_waiting
    assert made["metadata"]["labels"] == {names.MANAGED: "true"}


def test_deciding_twice_is_deciding_once() -> None:
    once = decide_admission(asking(gpu_milli="300"), "team", cluster())
    assert decide_admission(once.pod, "team", cluster()).pod == once.pod


def test_gates_of_others_stay() -> None:
    pod = asking(gpus="1")
    pod["spec"]["schedulingGates"] = [{"name": "other.example/gate"}]
    gates = decide_admission(pod, "team", cluster()).pod["spec"]["schedulingGates"]
    assert [gate["name"] for gate in gates] == ["other.example/gate", names.GATE]


def test_who_asks_for_no_card_is_left_alone() -> None:
    pod = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "main"}]}}
    assert decide_admission(pod, "team", cluster()).pod == pod


def test_words_of_a_dialect_that_is_not_taken_are_left_to_others() -> None:
    pod = {
        "spec": {"containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]}
    }
    assert decide_admission(pod, "team", cluster(dialects=frozenset({"native"}))).pod == pod
    assert "schedulingGates" in decide_admission(pod, "team", cluster()).pod["spec"]


def test_what_is_in_use_waits_and_what_is_beyond_the_maximum_does_not() -> None:
    limited = cluster(tree=TenantTree(tenants={"team": QuotaBranch(None, Quota(1000, 500))}))
    assert decide_admission(asking(gpus="1"), "team", limited)
    with pytest.raises(RequestRejection, match=r"2\.00 GPU"):
        decide_admission(asking(gpus="2"), "team", limited)
    assert decide_admission(asking(gpus="2"), "another", limited)


def test_what_is_beyond_the_maximum_of_who_is_above_the_tenant_is_refused_too() -> None:
    tree = TenantTree(
        {"lab": QuotaBranch(None, Quota(1000, 500))}, {"a": QuotaBranch("lab")}, {"space": "a"}
    )
    limited = cluster(tree=tree)
    assert decide_admission(asking(gpus="1"), "space", limited)
    with pytest.raises(
        RequestRejection,
        match=r"(?s)2\.00 GPU is beyond cohort lab's maximum of 1\.50 GPU .*kubectl edit",
    ):
        decide_admission(asking(gpus="2"), "space", limited)


def test_what_pods_of_a_kind_ask_is_judged_once_while_the_cluster_stays_as_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []
    monkeypatch.setattr(
        admission, "judge_claim", lambda *of, **more: asked.append(of) or judge_claim(*of, **more)
    )
    known = cluster()
    for _ in range(5):
        decide_admission(asking(gpus="1"), "team", known)
        with pytest.raises(RequestRejection):
            decide_admission(asking(gpus="64"), "team", known)
    assert len(asked) == 2
    decide_admission(asking(gpus="1"), "another", known)
    decide_admission(asking(gpus="1"), "team", cluster())
    assert len(asked) == 4


def test_before_there_are_cards_nothing_is_too_large() -> None:
    assert decide_admission(asking(gpus="64"), "team", ClusterFacts())
    with pytest.raises(RequestRejection):
        decide_admission(asking(gpus="64"), "team", cluster())


def test_a_card_that_is_named_is_checked_against_the_pools() -> None:
    pod = asking(gpus="1")
    pod["metadata"]["annotations"] = {"gpupool.dev/cards": "GPU-n0-2"}
    decide_admission(pod, "team", cluster())
    pod["metadata"]["annotations"] = {"gpupool.dev/cards": "GPU-1"}
    with pytest.raises(RequestRejection, match="none of the cards GPU-1 is in this pool"):
        decide_admission(pod, "team", cluster())


@pytest.mark.parametrize("word", ["huawei.com/Ascend910B3", "amd.com/gpu"])
def test_another_vendors_card_is_refused_where_the_pool_has_none(word: str) -> None:
    pod = asking(gpus="1")
    pod["spec"]["containers"][0]["resources"] = {"limits": {word: "1"}}
    with pytest.raises(
        RequestRejection,
        match=r"no card of vendor (ascend|amd) in this pool; it has cards of nvidia",
    ):
        decide_admission(pod, "team", cluster())


def test_the_vendor_that_a_pod_names_in_our_words_is_kept() -> None:
    pod = asking(gpus="1")
    pod["metadata"]["annotations"] = {"gpupool.dev/vendor": "amd"}
    with pytest.raises(RequestRejection, match="no card of vendor amd"):
        decide_admission(pod, "team", cluster())


def test_an_answer_is_a_patch_or_a_refusal_in_one_sentence() -> None:
    told = review_pod(
        {"request": {"uid": "7", "namespace": "team", "object": asking(gpus="1")}}, cluster()
    )["response"]
    assert (told["uid"], told["allowed"], told["patchType"]) == ("7", True, "JSONPatch")
    assert {one["path"] for one in json.loads(base64.b64decode(told["patch"]))} == {
        "/metadata",
        "/spec",
    }
    refused = review_pod({"request": {"uid": "7", "object": asking(gpu_milli="5000")}}, cluster())[
        "response"
    ]
    assert not refused["allowed"]
    assert refused["status"]["message"].startswith("GP-1041: ")


def demanding(**needs: str) -> dict[str, Any]:
    pod = asking(gpu_milli="300")
    pod["metadata"]["annotations"] = {f"gpupool.dev/{key}": text for key, text in needs.items()}
    return pod


@pytest.mark.parametrize("isolation", ["soft", "hard", "fault"])
def test_isolation_that_no_node_says_it_reaches_is_refused(isolation: str) -> None:
    with pytest.raises(IsolationNotOffered) as refused:
        decide_admission(demanding(isolation=isolation), "team", cluster())
    assert refused.value.message == (
        f"container main: no card gives --isolation {isolation} to 0.30 GPU (30 % compute) "
        "+ its part of the memory: 4 × L40S (their node does not say what isolates its claims)"
    )
    asked = {"request": {"uid": "u", "object": demanding(isolation=isolation)}}
    answer = review_pod(asked, cluster())["response"]
    assert answer["status"]["message"].startswith("GP-1023: container main: no card gives")


def with_shares(share: ShareIsolation) -> ClusterFacts:
    """The cluster whose agents report this of each of their cards."""
    facts = cluster()
    assert facts.cards is not None
    offers = dict.fromkeys(range(len(facts.cards)), build_card_offers(share, simulated=False))
    return replace(facts, cards=replace(facts.cards, offers=offers))


@pytest.mark.parametrize("isolation", ["soft", "hard"])
def test_isolation_that_a_node_reports_is_admitted(isolation: str) -> None:
    facts = with_shares(ShareIsolation(FenceLevel.SOFT))
    assert decide_admission(demanding(isolation=isolation), "team", facts).warnings == ()


def test_hard_isolation_without_the_limit_is_refused_with_the_reason() -> None:
    facts = with_shares(ShareIsolation(FenceLevel.SOFT, "the driver is older than R615"))
    decide_admission(demanding(isolation="soft"), "team", facts)
    with pytest.raises(IsolationNotOffered) as refused:
        decide_admission(demanding(isolation="hard"), "team", facts)
    assert (
        "fence: memory is soft, hard is asked; memgroup would make memory hard, but: the driver is "
        "older than R615"
    ) in refused.value.message


def test_what_demands_nothing_of_a_card_is_admitted_and_read_by_the_controller() -> None:
    pod = demanding(isolation="none", goal="latency", host="container")
    once = decide_admission(pod, "team", cluster())
    assert once.warnings == ()
    meta = {"uid": "u", "namespace": "team", "resourceVersion": "1", "creationTimestamp": CREATED}
    read = read_pod({**once.pod, "metadata": {**once.pod["metadata"], **meta}})
    assert read.asks[0].shape.needs.write() == {"isolation": "none", "goal": "latency"}
    assert decide_admission(once.pod, "team", cluster()).pod == once.pod


def test_a_pod_is_no_virtual_machine_and_no_process() -> None:
    for host in ("vm", "process"):
        with pytest.raises(BadManifest, match=f"gpupool.dev/host: {host}"):
            decide_admission(demanding(host=host), "team", cluster())


def test_gang_of_more_members_than_a_plan_places_is_refused() -> None:
    made = asking(gpus="1")
    size = "gpupool.dev/gang-size"
    made["metadata"] |= {"labels": {"gpupool.dev/gang": "g"}, "annotations": {size: "10001"}}
    with pytest.raises(ForeignValue, match="a gang has 10000 members at most"):
        decide_admission(made, "team", ClusterFacts())
    made["metadata"]["annotations"][size] = "10000"
    assert decide_admission(made, "team", ClusterFacts()).pod != made
