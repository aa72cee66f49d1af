"""OrionX: virtaitech/orion's Kubernetes page (one vGPU of 4096 MB) and the environment of its later
examples."""

from __future__ import annotations

import pytest

from tests.unit.dialects.pods import ask_of, pod, said

GPU = {"virtaitech.com/gpu": 1}


@pytest.mark.parametrize(
    ("count", "env", "meaning"),
    [
        (1, {"ORION_GMEM": "4096"}, "1.00 GPU (best effort) + 4096 MiB, best-effort"),
        (
            1,
            {
                "ORION_VGPU": "1",
                "ORION_GMEM": "4096",
                "ORION_RATIO": "100",
                "ORION_CROSS_NODE": "0",
            },
            "1.00 GPU (100 % compute) + 4096 MiB, fixed",
        ),
        (
            2,
            {"ORION_GMEM": "7800", "ORION_RATIO": "50"},
            "2 × [0.50 GPU (50 % compute) + 7800 MiB], fixed",
        ),
        (1, {}, "1.00 GPU (100 % compute) + its part of the memory, fixed"),
        (
            1,
            {"ORION_RATIO": "100", "ORION_CROSS_NODE": "1"},
            "1.00 GPU (100 % compute) + its part of the memory, fixed",
        ),
    ],
)
def test_the_size_is_in_the_environment(count: int, env: dict[str, str], meaning: str) -> None:
    assert (
        said(pod({"virtaitech.com/gpu": count}, env=env, schedulerName="orion-scheduler"))
        == meaning
    )


@pytest.mark.parametrize(
    ("count", "env", "refusal"),
    [
        (
            2,
            {"ORION_RATIO": "100", "ORION_CROSS_NODE": "1"},
            "GP-2016: ORION_CROSS_NODE: 1: the cards of one container",
        ),
        (
            1,
            {"ORION_GMEM": "4096", "ORION_RATIO": "50", "ORION_CROSS_NODE": "1"},
            "GP-1041: ORION_CROSS_NODE: 1 needs",
        ),
        (1, {"ORION_VGPU": "2"}, "GP-1042: ORION_VGPU: 2, but virtaitech.com/gpu: 1"),
        (1, {"ORION_RATIO": "50"}, "GP-1041: ORION_RATIO: 50 without ORION_GMEM"),
        (1, {"ORION_GMEM": "8"}, "GP-1041: ORION_GMEM: 8 is 8 MiB, which holds no CUDA context"),
    ],
)
def test_what_it_cannot_mean_is_refused(count: int, env: dict[str, str], refusal: str) -> None:
    assert said(pod({"virtaitech.com/gpu": count}, env=env)).startswith(refusal)


def test_reserving_late_is_noted() -> None:
    assert (
        "held from start to end"
        in ask_of(pod(GPU, env={"ORION_GMEM": "4096", "ORION_RESERVED": "0"})).notes[0]
    )
