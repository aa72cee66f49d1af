"""The normal form as the scheduler reads it."""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.base.errors import FactMissing
from gpupool.dialects.shapes import Shaped, shape_of
from gpupool.model.claim import Shape, Sharing, Within
from tests.unit.dialects.pods import claim_of, pod

GIB = 1 << 30
HALF = {"nvidia.com/gpu": 1, "nvidia.com/gpumem-percentage": 50, "nvidia.com/gpucores": 30}


def shaped(given: dict[str, Any], card_memory: int | None = None) -> Shaped:
    claim = claim_of(given)
    return shape_of(claim.containers[0], claim.hints, card_memory)


def test_a_share_is_a_shape() -> None:
    given = pod(
        {"gpupool.dev/gpus": 2, "gpupool.dev/gpu-milli": 300, "gpupool.dev/memory": "8Gi"},
        {"gpupool.dev/topology": "nvlink", "gpupool.dev/model": "H100,H200"},
    )
    assert shaped(given).shape == Shape(300, 8 * GIB, 2, "H100|H200", within=Within("nvlink"))


def test_a_gangs_nearness_is_not_the_cards() -> None:
    given = pod({"nvidia.com/gpu": 8}, {"gpupool.dev/topology": "rack"}, {"gpupool.dev/gang": "g"})
    assert shaped(given).shape.within == Within()


def test_another_part_of_the_memory_needs_the_cards_size() -> None:
    with pytest.raises(FactMissing) as missing:
        shaped(pod(HALF))
    assert missing.value.details["fact"] == "card_memory"
    assert shaped(pod(HALF), 80 * GIB).shape.memory_bytes == 40 * GIB


def test_a_selected_model_tells_the_size_and_the_smallest_of_several_counts() -> None:
    one = shaped(pod(HALF, {"nvidia.com/use-gputype": "A100-40G"}))
    assert (one.shape.memory_bytes, one.left_out) == (20 * GIB, ())
    two = shaped(pod(HALF, {"nvidia.com/use-gputype": "A100"}))
    assert two.shape.memory_bytes == 20 * GIB
    assert two.left_out == ("parts of the memory are counted on the smallest of these models: 40960 MiB",)


def test_the_same_part_needs_no_size_and_neither_does_best_effort() -> None:
    same = HALF | {"nvidia.com/gpucores": 50}
    assert shaped(pod(same)).shape == Shape(500, None, sharing=Sharing.BURST)
    memory_alone = {"nvidia.com/gpu": 1, "nvidia.com/gpumem-percentage": 50}
    found = shaped(pod(memory_alone)).shape
    assert (found.gpu_milli, found.held_milli, found.memory_on(80 * GIB)) == (500, 0, 40 * GIB)


def test_a_partition_keeps_its_profile() -> None:
    assert shaped(pod({"nvidia.com/mig-1g.10gb": 2})).shape == Shape(1000, None, 2, profile="1g.10gb")


def test_what_a_claim_does_not_say_is_told() -> None:
    limits = {"tencent.com/vcuda-core": 30, "tencent.com/vcuda-memory": 30}
    capped = shaped(pod(limits, {"tencent.com/vcuda-core-limit": "50", "nvidia.com/use-gpuuuid": "GPU-1"}))
    assert capped.left_out == (
        "a cap of 50 %: a burst share may use all that is idle",
        "single cards by UUID: a claim chooses by model and label",
    )
    assert shaped(pod({"hygon.com/dcunum": 1})).left_out == ("cards of hygon: select them by model",)
