"""KAI: kai-scheduler/KAI-Scheduler docs/gpu-sharing/*.yaml, docs/topology;
run-ai/gpu-sharing-operator README."""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.model.claim import TopologyConstraint
from tests.unit.dialects.pods import ask_of, claim_of, pod, said

QUEUE = {"kai.scheduler/queue": "default-queue"}


@pytest.mark.parametrize(
    ("annotations", "meaning"),
    [
        ({"gpu-fraction": "0.5"}, "0.50 GPU (50 % compute) + its part of the memory, burst"),
        ({"gpu-memory": "2000"}, "1.00 GPU (best effort) + 2000 MiB, best-effort"),
        (
            {"gpu-fraction": "0.5", "gpu-fraction-num-devices": "2"},
            "2 × [0.50 GPU (50 % compute) + its part of the memory], burst",
        ),
        (
            {"nvidia.com/container.main.gpu-memory.request": "8Gi"},
            "1.00 GPU (best effort) + 8192 MiB, best-effort",
        ),
        (
            {"nvidia.com/container.main.gpu-memory.limit": "4Gi"},
            "1.00 GPU (best effort) + 4096 MiB, best-effort",
        ),
    ],
)
def test_the_vendors_examples_mean_what_they_mean_there(
    annotations: dict[str, str], meaning: str
) -> None:
    given = pod(None, annotations, QUEUE, schedulerName="kai-scheduler")
    assert said(given) == meaning
    assert claim_of(given).hints.queue == "default-queue"


def test_an_elastic_limit_is_held_whole_and_that_is_told() -> None:
    both = {
        "nvidia.com/container.main.gpu-memory.request": "8Gi",
        "nvidia.com/container.main.gpu-memory.limit": "16Gi",
    }
    ask = ask_of(pod(None, both))
    assert ask.memory_bytes == 16 << 30
    assert ask.guesses[0] == "memory is not lent here: all 16384 MiB of the limit are held for it"
    lower = both | {"nvidia.com/container.main.gpu-memory.limit": "4Gi"}
    assert said(pod(None, lower)).startswith(
        "GP-1041: nvidia.com/container.main.gpu-memory.limit: 4Gi is below"
    )


@pytest.mark.parametrize("kind", ["containers", "initContainers"])
def test_the_named_container_is_meant_and_else_the_first(kind: str) -> None:
    given = pod(None, {"gpu-fraction": "0.5", "gpu-fraction-container-name": "gpu-workload"})
    given["spec"].setdefault(kind, []).append({"name": "gpu-workload", "image": "cuda"})
    (one,) = claim_of(given).containers
    assert (one.container, one.kind) == ("gpu-workload", "app" if kind == "containers" else "init")


@pytest.mark.parametrize(
    ("limits", "annotations", "refusal"),
    [
        (
            None,
            {"gpu-fraction": "0.5", "gpu-memory": "2000"},
            "GP-1041: gpu-fraction: 0.5 and gpu-memory: 2000: one or the",
        ),
        (
            None,
            {"gpu-fraction": "1.5"},
            "GP-1041: gpu-fraction: 1.5: a part of one card is above 0 and at most 1",
        ),
        (None, {"gpu-fraction": "half"}, "GP-1041: gpu-fraction: 'half' is no quantity"),
        (None, {"gpu-memory": "8"}, "GP-1041: gpu-memory: 8 is 8 MiB, which holds no CUDA context"),
        (
            {"nvidia.com/gpu": 1},
            {"gpu-fraction": "0.5"},
            "GP-1042: gpu-fraction: 0.5 beside nvidia.com/gpu: 1",
        ),
        (
            None,
            {"gpu-fraction": "0.5", "gpu-fraction-container-name": "x"},
            "GP-1041: gpu-fraction-container-name: x: there",
        ),
        (
            None,
            {"nvidia.com/container.x.gpu-memory.limit": "4Gi"},
            "GP-1041: nvidia.com/container.x.gpu-memory.limit: 4Gi:",
        ),
    ],
)
def test_what_kai_refuses_is_refused(
    limits: Any, annotations: dict[str, str], refusal: str
) -> None:
    assert said(pod(limits, annotations)).startswith(refusal)


def test_topology_is_a_level_and_semi_preemptible_is_nothing_here() -> None:
    given = {
        "kai.scheduler/topology": "cluster-topology",
        "kai.scheduler/topology-required-placement": "cloud.provider.com/topology-block",
        "kai.scheduler/topology-preferred-placement": "cloud.provider.com/topology-rack",
    }
    assert claim_of(pod({"nvidia.com/gpu": 1}, given, QUEUE)).hints.within == TopologyConstraint(
        "block", "rack"
    )
    semi = QUEUE | {"kai.scheduler/preemptibility": "semi-preemptible"}
    assert said(pod({"nvidia.com/gpu": 1}, labels=semi)).startswith(
        "GP-2016: kai.scheduler/preemptibility"
    )
    yields = QUEUE | {"kai.scheduler/preemptibility": "preemptible"}
    assert claim_of(pod({"nvidia.com/gpu": 1}, labels=yields)).hints.preemptible is True
