"""vgpu-manager: its README's resources and annotations."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.dialects.pods import ask_of, claim_of, pod, said

KEY = "nvidia.com/vgpu-"


@pytest.mark.parametrize(
    ("limits", "meaning"),
    [
        (
            {f"{KEY}number": 1, f"{KEY}cores": 10, f"{KEY}memory": 1024},
            "0.10 GPU (10 % compute) + 1024 MiB, fixed",
        ),
        ({f"{KEY}number": 2}, "2 × [1.00 GPU (100 % compute) + its part of the memory], fixed"),
        (
            {f"{KEY}number": 2, f"{KEY}memory": 10000},
            "2 × [1.00 GPU (best effort) + 10000 MiB], best-effort",
        ),
    ],
)
def test_its_resources_are_parts_of_distinct_cards(limits: dict[str, Any], meaning: str) -> None:
    assert said(pod(limits)) == meaning


def test_its_annotations_choose_cards_and_sharing() -> None:
    notes = {
        "nvidia.com/include-gpu-uuid": "GPU-1",
        "nvidia.com/exclude-gpu-type": "T4",
        "nvidia.com/vgpu-compute-policy": "balance",
        "nvidia.com/device-topology-mode": "link",
    }
    given = pod(
        {f"{KEY}number": 1, f"{KEY}cores": 10, f"{KEY}memory": 1024},
        notes,
        schedulerName="vgpu-scheduler",
    )
    ask, claim = ask_of(given), claim_of(given)
    assert (ask.select.uuids, ask.select.not_models, ask.sharing) == (("GPU-1",), ("T4",), "burst")
    assert claim.hints.within is not None
    assert not claim.guesses
    assert not any("core policy" in text for text in ask.guesses)


def test_tensor_fusions_tflops_are_refused_by_name() -> None:
    given = pod(
        {}, {"tensor-fusion.ai/tflops-request": "10", "tensor-fusion.ai/vram-request": "4Gi"}
    )
    assert said(given).startswith(
        "GP-2016: tensor-fusion.ai/tflops-request: 10: a share is a part of a card here"
    )
