"""qGPU: tencentcloud.com/document/product/457/59103 (steps, whole cards) and its pages on online
and offline pods."""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.model.claim import SharingKind
from tests.unit.dialects.pods import ask_of, pod, said

CORE, MEMORY, GREEDY = (
    f"tke.cloud.tencent.com/qgpu-{name}" for name in ("core", "memory", "core-greedy")
)
CLASS = "tke.cloud.tencent.com/app-class"


@pytest.mark.parametrize(
    ("limits", "meaning"),
    [
        ({CORE: 30, MEMORY: 8}, "0.30 GPU (30 % compute) + 8192 MiB, burst"),
        ({CORE: 10, MEMORY: 1}, "0.10 GPU (10 % compute) + 1024 MiB, burst"),
        ({CORE: 100}, "1.00 GPU (100 % compute) + its part of the memory, fixed"),
        ({CORE: 200, MEMORY: 40}, "2 × [1.00 GPU (100 % compute) + its part of the memory], fixed"),
    ],
)
def test_compute_is_percent_and_memory_is_gibibytes(limits: dict[str, Any], meaning: str) -> None:
    assert said(pod(limits)) == meaning


@pytest.mark.parametrize(
    ("limits", "refusal"),
    [
        (
            {CORE: 150, MEMORY: 8},
            "GP-1041: tke.cloud.tencent.com/qgpu-core: 150: above 100 only whole cards can be had",
        ),
        ({CORE: 33, MEMORY: 8}, "GP-1041: tke.cloud.tencent.com/qgpu-core: 33: goes in steps of 5"),
        (
            {CORE: 30},
            "GP-1041: tke.cloud.tencent.com/qgpu-core: 30 without tke.cloud.tencent.com/qgpu-memory",
        ),
        (
            {CORE: 30, MEMORY: 8192},
            "GP-1041: tke.cloud.tencent.com/qgpu-memory: 8192 is 8192 GiB, more than any card has",
        ),
        (
            {MEMORY: 8},
            "GP-2016: tke.cloud.tencent.com/qgpu-memory: 8 without tke.cloud.tencent.com/qgpu-core: only an online",
        ),
        (
            {GREEDY: 30, MEMORY: 8},
            "GP-1041: tke.cloud.tencent.com/qgpu-core-greedy: 30 is for offline pods",
        ),
    ],
)
def test_what_qgpu_does_not_have_is_refused(limits: dict[str, Any], refusal: str) -> None:
    assert said(pod(limits)).startswith(refusal)


@pytest.mark.parametrize(
    ("label", "sharing"),
    [
        ("fs", SharingKind.FIXED),
        ("burst-share", SharingKind.BURST),
        ("be", SharingKind.BEST_EFFORT),
    ],
)
def test_the_nodes_policy_is_a_fact_or_the_pods_own_selector(
    label: str, sharing: SharingKind
) -> None:
    limits, key = {CORE: 30, MEMORY: 8}, "tke.cloud.tencent.com/qgpu-schedule-policy"
    assert ask_of(pod(limits), {"qgpu_policy": label}).sharing is sharing
    assert ask_of(pod(limits), {"labels": {key: label}}).sharing is sharing
    assert ask_of(pod(limits, nodeSelector={key: label})).sharing is sharing


def test_an_unknown_policy_is_a_guess_that_is_told() -> None:
    ask = ask_of(pod({CORE: 30, MEMORY: 8}))
    assert ask.sharing is SharingKind.BURST
    assert ask.guesses[0].startswith("the node's policy is not known: burst")


def test_offline_pods_take_what_is_left_and_online_ones_ask_for_memory_alone() -> None:
    offline = ask_of(pod({GREEDY: 30, MEMORY: 8}, {CLASS: "offline"}))
    assert (offline.sharing, offline.memory_bytes, offline.held_milli) == (
        SharingKind.OFFLINE,
        8 << 30,
        0,
    )
    assert said(pod({GREEDY: 30, MEMORY: 8}, {CLASS: "offline"})) == (
        "0.30 GPU (offline) + 8192 MiB, offline"
    )
    online = ask_of(pod({MEMORY: 8}, {CLASS: "online"}))
    assert (online.gpu_milli, online.urgency, online.memory_bytes) == (None, "high", 8 << 30)
    assert said(pod({GREEDY: 30, CORE: 30}, {CLASS: "offline"})).startswith("GP-1042")
    assert said(pod({GREEDY: 200, MEMORY: 8}, {CLASS: "offline"})).startswith("GP-1041")


def test_requests_alone_are_understood_as_the_vendor_writes_them() -> None:
    given = pod()
    given["spec"]["containers"][0]["resources"] = {"requests": {CORE: 10, MEMORY: 1}}
    assert ask_of(given).gpu_milli == 100
