"""NVIDIA's plugin: NVIDIA/k8s-device-plugin README (whole cards, gpu.shared, MIG names), GKE's node
labels."""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.model.claim import SharingKind
from tests.unit.dialects.pods import ask_of, claim_of, pod, said

MPS = {"replicas": 10, "replicas_by": "mps"}


@pytest.mark.parametrize(
    ("limits", "facts", "meaning"),
    [
        ({"nvidia.com/gpu": 1}, {}, "1.00 GPU (100 % compute) + its part of the memory, fixed"),
        (
            {"nvidia.com/gpu": "8"},
            {},
            "8 × [1.00 GPU (100 % compute) + its part of the memory], fixed",
        ),
        ({"nvidia.com/mig-3g.20gb": 1}, {}, "partition 3g.20gb, fixed"),
        ({"nvidia.com/mig-1g.10gb": 2}, {}, "2 × [partition 1g.10gb], fixed"),
        ({"nvidia.com/mig-1g.5gb.me": 1}, {}, "partition 1g.5gb+me, fixed"),
        (
            {"nvidia.com/gpu.shared": 1},
            MPS,
            "0.10 GPU (10 % compute) + its part of the memory, fixed",
        ),
        (
            {"nvidia.com/gpu.shared": 1},
            {"replicas": 3},
            "0.333 GPU (33.3 % compute) + its part of the memory, burst",
        ),
        ({"nvidia.com/gpu": 1}, MPS, "0.10 GPU (10 % compute) + its part of the memory, fixed"),
        ({"nvidia.com/gpu": 2}, {"mig_profile": "1g.10gb"}, "2 × [partition 1g.10gb], fixed"),
        ({"nvidia.com/gpu": 0.5}, {}, "0.50 GPU (50 % compute) + its part of the memory, burst"),
    ],
)
def test_a_manifest_means_what_it_means_there(
    limits: dict[str, Any], facts: dict[str, Any], meaning: str
) -> None:
    assert said(pod(limits), facts) == meaning


@pytest.mark.parametrize(
    ("limits", "refusal"),
    [
        (
            {"nvidia.com/gpu.shared": 2},
            "GP-2016: nvidia.com/gpu.shared: 2: a replica is a ticket to a card; 2 may be to",
        ),
        (
            {"nvidia.com/gpu.shared": 1},
            "GP-1044: nvidia.com/gpu.shared: 1: how large a part this is depends",
        ),
        (
            {"nvidia.com/mig-1g.5gb.shared": 1},
            "GP-2016: nvidia.com/mig-1g.5gb.shared: 1: a replica of a MIG slice",
        ),
        (
            {"nvidia.com/gpu": 1, "nvidia.com/mig-1g.5gb": 1},
            "GP-2016: container main asks for nvidia.com/mig-1g.5gb: 1 and",
        ),
        ({"nvidia.com/gpu": "many"}, "GP-1041: nvidia.com/gpu: 'many' is no quantity"),
        ({"nvidia.com/gpu": -1}, "GP-1041: nvidia.com/gpu: -1: this is a whole number from 1"),
        (
            {"nvidia.com/gpu": 1.5},
            "GP-1041: nvidia.com/gpu: 1.5: a part of one card is above 0 and at most 1",
        ),
        ({"nvidia.com/gpu": True}, "GP-1041: nvidia.com/gpu: True is no quantity"),
    ],
)
def test_what_it_cannot_mean_is_refused_aloud(limits: dict[str, Any], refusal: str) -> None:
    assert said(pod(limits)).startswith(refusal)


def test_a_zero_asks_for_nothing() -> None:
    assert claim_of(pod({"nvidia.com/gpu": 0})).containers == ()


def test_gkes_selectors_say_what_the_replicas_are() -> None:
    selector = {
        "cloud.google.com/gke-gpu-sharing-strategy": "mps",
        "cloud.google.com/gke-max-shared-clients-per-gpu": "4",
        "cloud.google.com/gke-accelerator": "nvidia-tesla-t4",
    }
    ask = ask_of(pod({"nvidia.com/gpu": 1}, nodeSelector=selector))
    assert (ask.gpu_milli, ask.sharing, ask.select.models) == (250, SharingKind.FIXED, ("T4",))
    slices = {"cloud.google.com/gke-gpu-partition-size": "1g.5gb"}
    assert ask_of(pod({"nvidia.com/gpu": 1}, nodeSelector=slices)).profile == "1g.5gb"


def test_cards_are_selected_by_uuid_and_never_by_index() -> None:
    named = ask_of(pod({"nvidia.com/gpu": 1}, env={"NVIDIA_VISIBLE_DEVICES": "GPU-03f6,GPU-9b45"}))
    assert named.select.uuids == ("GPU-03f6", "GPU-9b45")
    indexed = ask_of(pod({"nvidia.com/gpu": 1}, env={"CUDA_VISIBLE_DEVICES": "0,1"}))
    assert indexed.select.uuids == ()
    assert indexed.notes == (
        "CUDA_VISIBLE_DEVICES: 0,1 is ignored: an index is another card on each node",
    )


def test_all_cards_without_asking_for_one_is_noted() -> None:
    claim = claim_of(pod(env={"NVIDIA_VISIBLE_DEVICES": "all"}))
    assert claim.containers == ()
    assert "opens every card of a node" in claim.notes[0]


def test_mps_limits_make_a_replica_smaller_and_never_larger() -> None:
    env = {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "5", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=8G"}
    assert (
        said(pod({"nvidia.com/gpu.shared": 1}, env=env), MPS)
        == "0.05 GPU (5 % compute) + 8192 MiB, fixed"
    )
    wide = {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "90"}
    assert ask_of(pod({"nvidia.com/gpu.shared": 1}, env=wide), MPS).gpu_milli == 100
