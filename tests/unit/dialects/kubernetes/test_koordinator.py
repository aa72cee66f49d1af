"""Koordinator: docs/proposals/scheduling 20220629 and 20230803, whose numbers these pods have."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.dialects.pods import claim_of, pod, said

GPU, CORE, MEMORY, RATIO, SHARED = (
    f"koordinator.sh/{name}"
    for name in ("gpu", "gpu-core", "gpu-memory", "gpu-memory-ratio", "gpu.shared")
)


@pytest.mark.parametrize(
    ("limits", "meaning"),
    [
        ({GPU: "50"}, "0.50 GPU (50 % compute) + its part of the memory, fixed"),
        ({GPU: "200"}, "2 × [1.00 GPU (100 % compute) + its part of the memory], fixed"),
        ({CORE: "50", RATIO: "60"}, "0.50 GPU (50 % compute) + 60 % of the memory, fixed"),
        ({CORE: "60", MEMORY: "4Gi"}, "0.60 GPU (60 % compute) + 4096 MiB, fixed"),
        ({CORE: 100, MEMORY: "4Gi", SHARED: 2}, "2 × [0.50 GPU (50 % compute) + 2048 MiB], fixed"),
        ({CORE: 200, RATIO: 200}, "2 × [1.00 GPU (100 % compute) + its part of the memory], fixed"),
        ({RATIO: 30}, "1.00 GPU (best effort) + 30 % of the memory, best-effort"),
    ],
)
def test_percentages_and_bytes_are_over_all_cards(limits: dict[str, Any], meaning: str) -> None:
    assert said(pod(limits)) == meaning


@pytest.mark.parametrize(
    ("limits", "refusal"),
    [
        ({CORE: 50}, "GP-1041: koordinator.sh/gpu-core: 50 without memory"),
        (
            {MEMORY: "4Gi", RATIO: 50},
            "GP-1042: koordinator.sh/gpu-memory: 4Gi and koordinator.sh/gpu-memory-ratio: 50",
        ),
        ({GPU: 50, MEMORY: "4Gi"}, "GP-1042: koordinator.sh/gpu: 50 is core and memory at once"),
        (
            {CORE: 50, RATIO: 200},
            "GP-1042: koordinator.sh/gpu-core: 50 and koordinator.sh/gpu-memory-ratio: 200 mean",
        ),
        ({GPU: 150}, "GP-1041: koordinator.sh/gpu: 150: above 100 only whole cards"),
        (
            {CORE: 50, MEMORY: 8},
            "GP-1041: koordinator.sh/gpu-memory: 8 is in bytes and holds no CUDA context",
        ),
        (
            {CORE: 99, RATIO: 100, SHARED: 2},
            "GP-1041: koordinator.sh/gpu-core: 99 does not divide evenly over 2 cards",
        ),
    ],
)
def test_what_koordinator_refuses_is_refused(limits: dict[str, Any], refusal: str) -> None:
    assert said(pod(limits)).startswith(refusal)


def test_its_gangs_and_quotas_are_ours() -> None:
    gang = {
        "gang.scheduling.koordinator.sh/name": "train",
        "gang.scheduling.koordinator.sh/min-available": "4",
        "gang.scheduling.koordinator.sh/total-number": "8",
    }
    hints = claim_of(pod({GPU: 50}, gang, {"quota.scheduling.koordinator.sh/name": "nlp"})).hints
    assert hints.queue == "nlp"
    assert hints.gang is not None
    assert (hints.gang.name, hints.gang.minimum, hints.gang.size) == ("train", 4, 8)
