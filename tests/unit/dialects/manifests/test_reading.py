"""What several dialects understood of one pod is brought together, or the pod is refused."""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.base.errors import BadManifest, ContradictoryManifest, UnknownWord
from gpupool.dialects.kubernetes import native
from gpupool.dialects.manifests.reading import understand_pod
from gpupool.dialects.manifests.writing import write_admitted
from tests.unit.dialects.pods import claim_of, pod, said

HAMI = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 8192, "nvidia.com/gpucores": 30}
OURS = {"gpupool.dev/gpu-milli": 300, "gpupool.dev/memory": "8Gi"}


def test_the_same_meaning_in_two_dialects_is_fine_and_noted() -> None:
    (one,) = claim_of(pod({**OURS, **HAMI})).containers
    assert str(one.ask) == "0.30 GPU (30 % compute) + 8192 MiB"
    assert one.dialects == ("native", "hami")
    assert "native and hami say the same" in one.ask.notes


@pytest.mark.parametrize(
    "limits",
    [
        {**OURS, **HAMI, "nvidia.com/gpumem": 4096},
        {**OURS, "nvidia.com/gpu": 1},
        {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": 4096, "nvidia.com/gpu": 1},
        {"tke.cloud.tencent.com/qgpu-core": 200, "nvidia.com/gpu": 1},
        {"tencent.com/vcuda-core": 50, "tencent.com/vcuda-memory": 30, "nvidia.com/gpumem": 3000},
    ],
)
def test_two_meanings_in_one_container_are_refused(limits: dict[str, Any]) -> None:
    with pytest.raises(ContradictoryManifest, match="container main asks in two ways") as refused:
        claim_of(pod(limits))
    assert refused.value.details["path"] == ("spec", "containers", 0, "resources")


def test_containers_of_one_pod_may_speak_for_themselves() -> None:
    given = pod(HAMI)
    given["spec"]["containers"] += [
        {"name": "side", "resources": {"limits": {"nvidia.com/gpu": 2}}},
        {"name": "plain"},
    ]
    given["spec"]["initContainers"] = [
        {"name": "warm", "resources": {"limits": {"nvidia.com/gpu": 1}}},
        {"name": "proxy", "restartPolicy": "Always", "resources": {"limits": OURS}},
    ]
    claim = claim_of(given)
    assert [(one.container, one.kind) for one in claim.containers] == [
        ("main", "app"),
        ("side", "app"),
        ("warm", "init"),
        ("proxy", "sidecar"),
    ]
    assert claim.notes == ("warm: an init container that asks has a slot of its own while it runs",)


def test_an_unknown_word_of_a_known_system_is_noted_and_in_strict_mode_refused() -> None:
    given = pod({"nvidia.com/gpu": 1, "nvidia.com/gpumemory": 3000})
    assert claim_of(given).notes == (
        "nvidia.com/gpumemory: no known system has this word; did you mean nvidia.com/gpumem?",
    )
    with pytest.raises(UnknownWord) as refused:
        understand_pod(given, strict=True)
    assert refused.value.hint == "did you mean nvidia.com/gpumem?"
    assert refused.value.details["path"][-1] == "nvidia.com/gpumemory"


def test_what_the_systems_wrote_themselves_is_no_unknown_word() -> None:
    exported = {
        "hami.io/vgpu-node": "n1",
        "hami.io/bind-phase": "success",
        "hami.io/vgpu-devices-allocated": "GPU-1",
    }
    assert understand_pod(pod(HAMI, exported), strict=True).notes == ()


def test_requests_that_differ_from_limits_are_refused() -> None:
    given = pod(HAMI)
    given["spec"]["containers"][0]["resources"]["requests"] = {"nvidia.com/gpu": 2}
    assert said(given) == "GP-1040: nvidia.com/gpu: 2, but its limit is 1"
    given["spec"]["containers"][0]["resources"]["requests"] = {"nvidia.com/gpu": "1"}
    assert said(given).startswith("0.30 GPU")


def test_a_pod_that_was_admitted_means_what_it_meant() -> None:
    given = pod(HAMI)
    once = write_admitted(given, claim_of(given))
    again = understand_pod(once)
    assert [one.ask for one in again.containers] == [
        one.ask.without_remarks for one in claim_of(given).containers
    ]
    assert write_admitted(once, again) == once


def test_a_forged_claim_is_no_way_around_the_rules() -> None:
    given = pod(HAMI)
    once = write_admitted(given, claim_of(given))
    once["spec"]["nodeName"] = "n1"
    assert said(once).startswith("GP-2017: nodeName: n1")
    del once["spec"]["nodeName"]
    once["metadata"]["annotations"][native.CLAIM] = once["metadata"]["annotations"][
        native.CLAIM
    ].replace("300", "3000")
    once["spec"]["containers"][0]["resources"]["limits"][native.MILLI] = "3000"
    assert said(once).startswith("GP-1041: container main: 3.00 GPU")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "the pod should be a mapping, and is list"),
        ({"spec": 3}, "spec should be a mapping, and is int"),
        ({"spec": {"containers": {}}}, "spec.containers should be a list, and is dict"),
        ({"spec": {"containers": [7]}}, r"spec.containers\[0\] should be a mapping, and is int"),
        (
            {"spec": {"containers": [{"resources": {"limits": []}}]}},
            r"spec.containers\[0\].resources.limits should be",
        ),
        ({"spec": {"containers": [{"name": "a"}, {"name": "a"}]}}, "two containers are called 'a'"),
    ],
)
def test_what_is_no_pod_is_refused_with_the_place(given: Any, message: str) -> None:
    with pytest.raises(BadManifest, match=message):
        understand_pod(given)
