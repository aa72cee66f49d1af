"""HAMi: Project-HAMi/HAMi examples/nvidia/*.yaml, whose names and numbers these pods have."""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.base.errors import BadManifest
from gpupool.dialects.facts import read_facts
from gpupool.model.claim import SharingKind, TopologyConstraint
from tests.unit.dialects.pods import ask_of, claim_of, pod, said

GPU, MEM, PART, CORES = (
    "nvidia.com/gpu",
    "nvidia.com/gpumem",
    "nvidia.com/gpumem-percentage",
    "nvidia.com/gpucores",
)


@pytest.mark.parametrize(
    ("example", "limits", "meaning"),
    [
        (
            "default_use",
            {GPU: 1, MEM: 3000, CORES: 30},
            "0.30 GPU (30 % compute) + 3000 MiB, burst",
        ),
        (
            "default_use_legacy",
            {GPU: 2},
            "2 × [1.00 GPU (100 % compute) + its part of the memory], fixed",
        ),
        ("example", {GPU: 1, MEM: 3000}, "1.00 GPU (best effort) + 3000 MiB, best-effort"),
        ("mig_example", {"nvidia.com/mig-3g.20gb": 1}, "partition 3g.20gb, fixed"),
        (
            "use_exclusive_card",
            {GPU: 2, PART: 100, CORES: 100},
            "2 × [1.00 GPU (100 % compute) + its part of the memory], fixed",
        ),
        (
            "use_memory_fraction",
            {GPU: 2, PART: 50, CORES: 30},
            "2 × [0.30 GPU (30 % compute) + 50 % of the memory], burst",
        ),
        (
            "use_sharing_card",
            {GPU: 1, PART: 40, CORES: 60},
            "0.60 GPU (60 % compute) + 40 % of the memory, burst",
        ),
        (
            "vllm_cross_vgpu",
            {GPU: 2, PART: 30, CORES: 30},
            "2 × [0.30 GPU (30 % compute) + its part of the memory], burst",
        ),
    ],
)
def test_the_vendors_examples_mean_what_they_mean_there(
    example: str, limits: dict[str, Any], meaning: str
) -> None:
    assert said(pod(limits)) == meaning, example


@pytest.mark.parametrize(
    ("limits", "meaning"),
    [
        ({MEM: 3000}, "1.00 GPU (best effort) + 3000 MiB, best-effort"),
        ({CORES: 30}, "0.30 GPU (30 % compute) + 100 % of the memory, burst"),
        ({GPU: 1, CORES: 0}, "1.00 GPU (100 % compute) + its part of the memory, fixed"),
        ({GPU: 1, CORES: 100, MEM: 3000}, "1.00 GPU (100 % compute) + 3000 MiB, fixed"),
        ({GPU: 1, PART: 100}, "1.00 GPU (100 % compute) + its part of the memory, fixed"),
        ({GPU: 1, PART: 0, CORES: 30}, "0.30 GPU (30 % compute) + 100 % of the memory, burst"),
        ({GPU: 1, MEM: 0, PART: 50}, "1.00 GPU (best effort) + 50 % of the memory, best-effort"),
    ],
)
def test_what_is_left_out_is_filled_in_as_hami_does(limits: dict[str, Any], meaning: str) -> None:
    assert said(pod(limits)) == meaning


@pytest.mark.parametrize(
    ("limits", "refusal"),
    [
        (
            {GPU: 1, MEM: 8},
            "GP-1041: nvidia.com/gpumem: 8 is 8 MiB, which holds no CUDA context; did you mean 8192?",
        ),
        (
            {GPU: 1, MEM: "8Gi"},
            "GP-1041: nvidia.com/gpumem: 8Gi is 8388608 GiB, more than any card has",
        ),
        (
            {GPU: 1, MEM: 3000, PART: 50},
            "GP-1041: nvidia.com/gpumem: 3000 and nvidia.com/gpumem-percentage: 50: memory can",
        ),
        (
            {GPU: 1, PART: 101},
            "GP-1041: nvidia.com/gpumem-percentage: 101: this is a percentage from 0 to 100",
        ),
        (
            {GPU: 1, CORES: 150},
            "GP-1041: nvidia.com/gpucores: 150: this is a percentage from 0 to 100",
        ),
        (
            {GPU: 1, MEM: 3000, "nvidia.com/priority": 2},
            "GP-1041: nvidia.com/priority: 2: this is a whole number from 0 to 1",
        ),
        ({GPU: "1.5", MEM: 3000}, "GP-1041: nvidia.com/gpu: 1.5: this is a whole number"),
    ],
)
def test_numbers_of_another_unit_are_refused_with_what_was_meant(
    limits: dict[str, Any], refusal: str
) -> None:
    assert said(pod(limits)).startswith(refusal)


def test_the_memory_factor_of_the_node_counts_and_a_missing_one_is_a_guess() -> None:
    limits = {GPU: 1, MEM: 300, CORES: 30}
    assert ask_of(pod(limits), {"hami_memory_factor": 10}).memory_bytes == 3000 << 20
    assert (
        "the node's memory factor is not known: 1, its default, so 300 MiB"
        in ask_of(pod(limits)).guesses
    )


@pytest.mark.parametrize(
    ("policy", "sharing"),
    [
        ("force", SharingKind.FIXED),
        ("default", SharingKind.BURST),
        ("disable", SharingKind.BEST_EFFORT),
    ],
)
def test_the_core_policy_is_the_containers_or_the_nodes(policy: str, sharing: SharingKind) -> None:
    limits = {GPU: 1, MEM: 3000, CORES: 30}
    assert ask_of(pod(limits), {"hami_core_policy": policy}).sharing is sharing
    assert ask_of(pod(limits, env={"GPU_CORE_UTILIZATION_POLICY": policy})).sharing is sharing


def test_priority_0_is_high_on_the_card() -> None:
    assert ask_of(pod({GPU: 1, MEM: 3000, "nvidia.com/priority": 0})).urgency == "high"
    assert ask_of(pod({GPU: 1, MEM: 3000, "nvidia.com/priority": 1})).urgency == "low"


def test_cards_are_chosen_by_type_and_uuid_and_refused_ones_win() -> None:
    types = {"nvidia.com/use-gputype": "A100,V100", "nvidia.com/nouse-gputype": "V100"}
    assert ask_of(pod({GPU: 2}, types)).select.models == ("A100-40G", "A100-80G")
    assert ask_of(pod({GPU: 2}, {"nvidia.com/nouse-gputype": "1080,2080"})).select.not_models == (
        "1080",
        "RTX-2080Ti",
    )
    uuids = {"nvidia.com/use-gpuuuid": "GPU-1,GPU-2", "nvidia.com/nouse-gpuuuid": "GPU-2"}
    assert ask_of(pod({GPU: 1}, uuids)).select.uuids == ("GPU-1",)
    nothing = {"nvidia.com/use-gpuuuid": "GPU-1", "nvidia.com/nouse-gpuuuid": "GPU-1"}
    assert said(pod({GPU: 1}, nothing)).startswith(
        "GP-1042: every card that is wanted is refused as well"
    )


MIG = {"nvidia.com/vgpu-mode": "mig"}
A100_40, A100_80 = (
    ["1g.5gb", "2g.10gb", "3g.20gb", "7g.40gb"],
    ["1g.10gb", "2g.20gb", "3g.40gb", "7g.79gb"],
)


@pytest.mark.parametrize(("profiles", "slice_"), [(A100_40, "2g.10gb"), (A100_80[::-1], "1g.10gb")])
def test_a_slice_made_to_measure_is_the_smallest_that_holds_the_memory(
    profiles: list[str], slice_: str
) -> None:
    """The vendor's `dynamic_mig_example`, with what its comment says of both cards."""
    facts = {"hami_mig_profiles": profiles}
    assert said(pod({GPU: 2, MEM: 8000}, MIG), facts) == f"2 × [partition {slice_}], fixed"
    assert said(pod({GPU: 2, MEM: 8000}, {"nvidia.com/vgpu-mode": "hami-core"}), facts).startswith(
        "2 × [1.00 GPU"
    )


@pytest.mark.parametrize(
    ("limits", "facts", "code", "why"),
    [
        ({GPU: 2, MEM: 8000}, None, "GP-1044", "which slice is to be cut is not said"),
        ({GPU: 1, MEM: 50000}, {"hami_mig_profiles": A100_40}, "GP-2016", "holds 50000 MiB"),
        (
            {GPU: 2},
            {"hami_mig_profiles": A100_40},
            "GP-2016",
            "something else than an amount of memory",
        ),
        ({GPU: 1, PART: 40}, {"hami_mig_profiles": A100_40}, "GP-2016", "something else"),
        (
            {GPU: 1, MEM: 8000, CORES: 30},
            {"hami_mig_profiles": A100_40},
            "GP-2016",
            "something else",
        ),
    ],
)
def test_a_slice_that_nothing_names_is_refused(
    limits: dict[str, Any], facts: dict[str, Any] | None, code: str, why: str
) -> None:
    told = said(pod(limits, MIG), facts)
    assert (told.startswith(code), why in told) == (True, True), told


@pytest.mark.parametrize("profiles", [[], ["2g"], ["2g.10gb", "0g.1gb"], "all"])
def test_slices_of_a_card_are_named_as_the_driver_names_them(profiles: object) -> None:
    with pytest.raises(BadManifest, match="hami_mig_profiles"):
        read_facts({"hami_mig_profiles": profiles})


def test_placement_words_are_nearness_or_noted() -> None:
    numa = claim_of(pod({GPU: 2}, {"nvidia.com/numa-bind": "true"}))
    assert numa.hints.within == TopologyConstraint(required="numa")
    near = claim_of(pod({GPU: 2}, {"hami.io/gpu-scheduler-policy": "topology-aware"}))
    assert near.hints.within == TopologyConstraint(preferred="nvlink")
    spread = claim_of(
        pod(
            {GPU: 1},
            {"hami.io/node-scheduler-policy": "spread", "hami.io/gpu-scheduler-policy": "binpack"},
        )
    )
    assert len(spread.notes) == 2


def test_a_pod_that_hami_is_told_to_ignore_is_left_alone() -> None:
    claim = claim_of(pod({GPU: 1, MEM: 3000}, labels={"hami.io/webhook": "ignore"}))
    assert claim.containers == ()
    assert claim.notes == ("hami.io/webhook: ignore: the pod is left alone",)


def test_limits_set_by_hand_count_where_no_resource_says_them() -> None:
    env = {"CUDA_DEVICE_MEMORY_LIMIT_0": "4g", "CUDA_DEVICE_SM_LIMIT": "50"}
    assert said(pod({GPU: 1}, env=env)) == "0.50 GPU (50 % compute) + 4096 MiB, burst"
    assert (
        said(pod({GPU: 1, MEM: 3000, CORES: 30}, env=env))
        == "0.30 GPU (30 % compute) + 3000 MiB, burst"
    )


@pytest.mark.parametrize("switch", ["CUDA_OVERSUBSCRIBE", "CUDA_DISABLE_CONTROL"])
def test_a_fence_is_not_opened_from_inside(switch: str) -> None:
    assert said(pod({GPU: 1, MEM: 3000}, env={switch: "true"})).startswith(
        f"GP-2016: {switch}: true"
    )
    assert said(pod({GPU: 1, MEM: 3000}, env={switch: "false"})).startswith("1.00 GPU")
