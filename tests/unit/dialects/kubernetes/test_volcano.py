"""Volcano: Project-HAMi/volcano-vgpu-device-plugin README and examples/*.yml."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.dialects.pods import ask_of, claim_of, pod, said

NUMBER, MEMORY, PART, CORES = (
    f"volcano.sh/vgpu-{name}" for name in ("number", "memory", "memory-percentage", "cores")
)


@pytest.mark.parametrize(
    ("limits", "meaning"),
    [
        ({NUMBER: 1, MEMORY: 1024}, "1.00 GPU (best effort) + 1024 MiB, best-effort"),
        ({NUMBER: 1, MEMORY: 10240}, "1.00 GPU (best effort) + 10240 MiB, best-effort"),
        ({NUMBER: 2, MEMORY: 3000, CORES: 50}, "2 × [0.50 GPU (50 % compute) + 3000 MiB], burst"),
        (
            {NUMBER: 2, PART: 50, CORES: 50},
            "2 × [0.50 GPU (50 % compute) + its part of the memory], burst",
        ),
        ({NUMBER: 1}, "1.00 GPU (100 % compute) + its part of the memory, fixed"),
        ({"volcano.sh/gpu-memory": 1024}, "1.00 GPU (best effort) + 1024 MiB, best-effort"),
        (
            {"volcano.sh/gpu-number": 2},
            "2 × [1.00 GPU (100 % compute) + its part of the memory], fixed",
        ),
    ],
)
def test_the_vendors_examples_mean_what_they_mean_there(
    limits: dict[str, Any], meaning: str
) -> None:
    assert said(pod(limits, schedulerName="volcano")) == meaning


def test_a_small_number_needs_the_memory_factor() -> None:
    limits = {NUMBER: 1, MEMORY: 800}
    assert (
        said(pod(limits))
        == "GP-1044: volcano.sh/vgpu-memory: 800: 800 MiB, or with a memory factor of 10 8000 MiB?"
    )
    assert ask_of(pod(limits), {"volcano_memory_factor": 10}).memory_bytes == 8000 << 20
    assert ask_of(pod(limits), {"volcano_memory_factor": 1}).memory_bytes == 800 << 20


def test_an_older_share_is_fenced_here_and_the_user_is_told() -> None:
    assert ask_of(pod({"volcano.sh/gpu-memory": 1024})).notes == (
        "Volcano only counts this memory; here it is fenced",
    )
    both = pod({"volcano.sh/gpu-memory": 1024, "volcano.sh/gpu-number": 1})
    assert said(both).startswith(
        "GP-2016: volcano.sh/gpu-memory: 1024 and volcano.sh/gpu-number: 1"
    )


def test_queue_group_and_cards_are_annotations() -> None:
    claim = claim_of(
        pod(
            {NUMBER: 1, MEMORY: 3000},
            {
                "volcano.sh/queue-name": "research",
                "scheduling.k8s.io/group-name": "train",
                "volcano.sh/vgpu-use-gpuuuid": "GPU-1",
                "volcano.sh/preemptable": "true",
            },
            schedulerName="volcano",
        )
    )
    assert (claim.hints.queue, claim.hints.preemptible) == ("research", True)
    assert claim.hints.gang is not None
    assert claim.hints.gang.name == "train"
    assert claim.containers[0].ask.select.uuids == ("GPU-1",)
    assert claim.notes == (
        "schedulerName: volcano is volcano's own, whose place is taken: written as default-scheduler",
    )
