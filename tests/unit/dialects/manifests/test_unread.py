"""What seems to ask for cards and is read by nobody: it is named, and never silently passed."""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.base.errors import KindUnread, UnknownWord
from gpupool.dialects.manifests.documents import understand_document
from gpupool.dialects.manifests.reading import understand_pod
from gpupool.dialects.manifests.registry import is_probably_card
from tests.unit.dialects.manifests.test_workloads import POD, of
from tests.unit.dialects.pods import claim_of, pod

LIMITS = {"resources": {"limits": {"nvidia.com/gpu": 1}}}


@pytest.mark.parametrize(
    ("name", "seems"),
    [
        ("example.com/gpu", True),
        ("example.com/npu-core", True),
        ("cloud.example.com/vgpu", True),
        ("rebellions.ai/ATOM-NPU", True),
        ("gpu.intel.com/tiles", True),
        ("example.com/fpga", False),
        ("example.com/output", False),
        ("rdma/hca", False),
        ("smarter-devices/fuse", False),
        ("example.com/exec", False),
    ],
)
def test_a_name_that_seems_a_card(name: str, seems: bool) -> None:
    assert is_probably_card(name) is seems
    assert bool(claim_of(pod({name: 1})).unread) is seems


def test_an_unknown_card_is_named_beside_known_ones_and_refused_in_strict_mode() -> None:
    given = pod({"nvidia.com/gpu": 1, "huawei.com/npu": 8})
    claim = claim_of(given)
    assert [one.ask.count for one in claim.containers] == [1]
    assert claim.unread == (
        "huawei.com/npu: 8: no dialect knows this card; it is left to its device plugin",
    )
    with pytest.raises(UnknownWord, match="no dialect knows this card"):
        understand_pod(given, strict=True)
    assert claim_of(pod({"huawei.com/npu": 0})).unread == ()


def test_a_resource_claim_is_named() -> None:
    claim = claim_of(pod(resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "t"}]))
    assert claim.unread == ("resource claim gpu is served by its DRA driver, and not by gpupool",)


@pytest.mark.parametrize(
    "document",
    [
        of(
            "TrainJob",
            {"trainer": {"numNodes": 2, "resourcesPerNode": {"limits": {"nvidia.com/gpu": 1}}}},
        ),
        of("InferenceService", {"predictor": {"model": {"modelFormat": {"name": "x"}, **LIMITS}}}),
        of("Workflow", {"templates": [{"name": "a", "container": {"image": "x", **LIMITS}}]}),
        of("Strange", {"deep": [{"resources": {"requests": {"example.com/npu": 2}}}]}),
    ],
    ids=lambda one: one["kind"],
)
def test_an_object_whose_pods_are_not_read_is_refused_by_name(document: dict[str, Any]) -> None:
    with pytest.raises(KindUnread, match=f"{document['kind']} x: .* where pods are not read"):
        understand_document(document)


def test_what_only_describes_cards_is_no_request() -> None:
    hard = {"hard": {"requests.nvidia.com/gpu": 4}}
    assert understand_document(of("ResourceQuota", hard)) == []
    flavors = [{"name": "a", "resources": [{"name": "nvidia.com/gpu", "nominalQuota": 9}]}]
    assert understand_document(of("ClusterQueue", {"resourceGroups": [{"flavors": flavors}]})) == []


def test_wrapped_objects_and_training_runtimes_are_read() -> None:
    inner = of("Deployment", {"replicas": 2, "template": POD})
    wrapped = of(
        "AppWrapper", {"components": [{"template": inner}, {"template": of("Service", {})}]}
    )
    (one,) = understand_document(wrapped)
    assert (one.template.kind, one.template.replicas, len(one.claim.containers)) == (
        "Deployment",
        2,
        1,
    )
    job = {"name": "node", "template": {"spec": {"template": POD}}}
    runtime = of("ClusterTrainingRuntime", {"template": {"spec": {"replicatedJobs": [job]}}})
    assert [len(found.claim.containers) for found in understand_document(runtime)] == [1]
