"""xGPU: CCE's pages 0742 (nvidia.com/gpu: 0.1), 0965 (8 GiB over two cards) and GPU virtualization
(40 × 128 MiB)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.dialects.pods import ask_of, pod, said

MEMORY, CORE, CARDS = (
    "volcano.sh/gpu-mem.128Mi",
    "volcano.sh/gpu-core.percentage",
    "volcano.sh/gpu-num",
)


@pytest.mark.parametrize(
    ("limits", "labels", "meaning"),
    [
        ({MEMORY: 40}, {}, "1.00 GPU (best effort) + 5120 MiB, best-effort"),
        ({MEMORY: "64"}, {CARDS: "2"}, "2 × [1.00 GPU (best effort) + 4096 MiB], best-effort"),
        ({MEMORY: 40, CORE: 25}, {}, "0.25 GPU (25 % compute) + 5120 MiB, fixed"),
        ({MEMORY: 64, CORE: 50}, {CARDS: "2"}, "2 × [0.25 GPU (25 % compute) + 4096 MiB], fixed"),
        ({"nvidia.com/gpu": 0.1}, {}, "0.10 GPU (10 % compute) + its part of the memory, burst"),
    ],
)
def test_the_vendors_examples_mean_what_they_mean_there(
    limits: dict[str, Any], labels: dict[str, str], meaning: str
) -> None:
    assert said(pod(limits, labels=labels, schedulerName="volcano")) == meaning


@pytest.mark.parametrize(
    ("limits", "labels", "refusal"),
    [
        (
            {CORE: 25},
            {},
            "GP-1041: volcano.sh/gpu-core.percentage: 25 without volcano.sh/gpu-mem.128Mi",
        ),
        (
            {MEMORY: 40, CORE: 7},
            {},
            "GP-1041: volcano.sh/gpu-core.percentage: 7: goes in steps of 5",
        ),
        (
            {MEMORY: 40, CORE: 15},
            {CARDS: "2"},
            "GP-1041: volcano.sh/gpu-core.percentage: 15 does not divide evenly over 2",
        ),
        (
            {MEMORY: 41},
            {CARDS: "2"},
            "GP-1041: volcano.sh/gpu-mem.128Mi: 41 does not divide evenly over 2 cards",
        ),
        (
            {MEMORY: 40, CORE: 105},
            {},
            "GP-1041: volcano.sh/gpu-core.percentage: 105: this is a percentage from 5 to 100",
        ),
        (
            {"nvidia.com/gpu": 0.1234},
            {},
            "GP-1041: nvidia.com/gpu: 0.1234: parts go in steps of 0.001",
        ),
    ],
)
def test_what_cce_does_not_have_is_refused(
    limits: dict[str, Any], labels: dict[str, str], refusal: str
) -> None:
    assert said(pod(limits, labels=labels)).startswith(refusal)


def test_the_environment_of_a_plain_engine_has_1_for_high() -> None:
    env = {
        "GPU_IDX": "0",
        "GPU_CONTAINER_MEM": "4096",
        "GPU_CONTAINER_QUOTA_PERCENT": "20",
        "GPU_POLICY": "1",
    }
    ask = ask_of(pod(env=env | {"GPU_CONTAINER_PRIORITY": "1"}))
    assert (ask.gpu_milli, ask.memory_bytes, ask.sharing, ask.urgency) == (
        200,
        4096 << 20,
        "fixed",
        "high",
    )
    assert ask.notes == ("GPU_IDX: 0 is ignored: an index is another card on each node",)


@pytest.mark.parametrize(
    ("policy", "sharing"), [(0, "best-effort"), (1, "fixed"), (3, "best-effort"), (4, "burst")]
)
def test_policies_are_numbers_of_xgpu_and_of_nobody_else(policy: int, sharing: str) -> None:
    env = {
        "GPU_CONTAINER_MEM": "4096",
        "GPU_CONTAINER_QUOTA_PERCENT": "20",
        "GPU_POLICY": str(policy),
    }
    assert ask_of(pod(env=env)).sharing == sharing
    assert said(pod(env=env | {"GPU_POLICY": "7"})).startswith("GP-1041: GPU_POLICY: 7")
