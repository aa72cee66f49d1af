"""cGPU: ACK's pages on shared scheduling (one card, several), node labels, topology; gpushare's
`--memory-unit`."""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.model.claim import TopologyConstraint
from tests.unit.dialects.pods import ask_of, claim_of, pod, said

MEMORY, CORE, COUNT = "aliyun.com/gpu-mem", "aliyun.com/gpu-core.percentage", "aliyun.com/gpu-count"


@pytest.mark.parametrize(
    ("limits", "labels", "meaning"),
    [
        ({MEMORY: 3}, {}, "1.00 GPU (best effort) + 3072 MiB, best-effort"),
        ({MEMORY: 8}, {COUNT: "4"}, "4 × [1.00 GPU (best effort) + 2048 MiB], best-effort"),
        ({MEMORY: 5.5, CORE: 25}, {}, "0.25 GPU (25 % compute) + 5632 MiB, fixed"),
        ({COUNT: 1, MEMORY: 5}, {}, "1.00 GPU (best effort) + 5120 MiB, best-effort"),
        ({MEMORY: 8138}, {}, "1.00 GPU (best effort) + 8138 MiB, best-effort"),
        (
            {MEMORY: 640, CORE: 400},
            {COUNT: "8"},
            "8 × [0.50 GPU (50 % compute) + 81920 MiB], fixed",
        ),
        (
            {"aliyun.com/gpu": 4},
            {},
            "4 × [1.00 GPU (100 % compute) + its part of the memory], fixed",
        ),
    ],
)
def test_memory_is_in_the_unit_that_makes_sense(
    limits: dict[str, Any], labels: dict[str, str], meaning: str
) -> None:
    assert said(pod(limits, labels=labels)) == meaning


def test_a_number_that_could_be_either_unit_is_never_guessed() -> None:
    refusal = said(pod({MEMORY: 256}))
    assert refusal.startswith("GP-1044: aliyun.com/gpu-mem: 256: 256 GiB or 256 MiB on a card?")
    assert ask_of(pod({MEMORY: 256}), {"aliyun_gpu_mem_unit": "MiB"}).memory_bytes == 256 << 20
    assert ask_of(pod({MEMORY: 256}), {"aliyun_gpu_mem_unit": "GiB"}).memory_bytes == 256 << 30


@pytest.mark.parametrize(
    ("limits", "labels", "refusal"),
    [
        ({CORE: 25}, {}, "GP-1041: aliyun.com/gpu-core.percentage: 25 without aliyun.com/gpu-mem"),
        (
            {MEMORY: 8, CORE: 31},
            {COUNT: "4"},
            "GP-1041: aliyun.com/gpu-core.percentage: 31 does not divide evenly",
        ),
        (
            {MEMORY: 8, CORE: 150},
            {},
            "GP-1041: aliyun.com/gpu-core.percentage: 150: this is a percentage from 1 to 100",
        ),
        ({MEMORY: 8}, {COUNT: "none"}, "GP-1041: aliyun.com/gpu-count: 'none' is no quantity"),
    ],
)
def test_what_makes_no_sense_is_refused(
    limits: dict[str, Any], labels: dict[str, str], refusal: str
) -> None:
    assert said(pod(limits, labels=labels)).startswith(refusal)


def test_gputopology_is_nearness_and_a_gang() -> None:
    claim = claim_of(
        pod({"aliyun.com/gpu": 4}, labels={"gpu-topology": "nccl", "gpu-topology-replica": "2"})
    )
    assert claim.hints.within == TopologyConstraint(preferred="nvlink")
    assert claim.hints.gang is not None
    assert (claim.hints.gang.name, claim.hints.gang.size) == ("nccl", 2)
    plain = claim_of(
        pod({"aliyun.com/gpu": 4}, labels={"gpu-topology": "true", "gpu-topology-replica": "true"})
    )
    assert plain.hints.gang is None


def test_node_labels_of_modes_are_taken_out_aloud() -> None:
    claim = claim_of(pod({MEMORY: 3}, nodeSelector={"ack.node.gpu.schedule": "cgpu"}))
    assert claim.notes == (
        "ack.node.gpu.schedule: cgpu is taken out: nodes of the pool carry no such label",
    )


def test_weights_come_nearest_to_burst_and_the_switch_is_refused() -> None:
    weighted = ask_of(pod({MEMORY: 3, CORE: 30}, env={"ALIYUN_COM_GPU_SCHD_WEIGHT": "2"}))
    assert weighted.sharing == "burst"
    assert said(pod({MEMORY: 3}, env={"CGPU_DISABLE": "true"})).startswith(
        "GP-1041: CGPU_DISABLE: true"
    )


def test_pais_egpu_is_in_the_environment() -> None:
    env = {"AMP_VGPU_ENABLE": "1", "GPU_MEM_PER_DEVICE": str(8 << 30), "GPU_UTIL_PER_DEVICE": "30"}
    assert (
        said(pod({"nvidia.com/gpu": 2}, env=env))
        == "2 × [0.30 GPU (30 % compute) + 8192 MiB], fixed"
    )
