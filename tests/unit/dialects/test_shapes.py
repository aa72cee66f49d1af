"""The normal form as the scheduler reads it."""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.base.errors import FactMissing
from gpupool.dialects.batch.script import JobClaim, submit_line
from gpupool.dialects.shapes import TranslatedShape, translate_shape
from gpupool.model.claim import CardSelector, Shape, SharingKind, TopologyConstraint
from tests.unit.dialects.pods import claim_of, pod

GIB = 1 << 30
OF_NVIDIA = CardSelector("nvidia")
HALF = {"nvidia.com/gpu": 1, "nvidia.com/gpumem-percentage": 50, "nvidia.com/gpucores": 30}


def shaped(given: dict[str, Any], card_memory: int | None = None) -> TranslatedShape:
    claim = claim_of(given)
    return translate_shape(claim.containers[0], claim.hints, card_memory)


def test_a_share_is_a_shape() -> None:
    given = pod(
        {"gpupool.dev/gpus": 2, "gpupool.dev/gpu-milli": 300, "gpupool.dev/memory": "8Gi"},
        {"gpupool.dev/topology": "nvlink", "gpupool.dev/model": "H100,H200"},
    )
    assert shaped(given).shape == Shape(
        300, 8 * GIB, 2, "H100|H200", within=TopologyConstraint("nvlink"), selector=OF_NVIDIA
    )


def test_a_gangs_nearness_is_not_the_cards() -> None:
    given = pod({"nvidia.com/gpu": 8}, {"gpupool.dev/topology": "rack"}, {"gpupool.dev/gang": "g"})
    assert shaped(given).shape.within == TopologyConstraint()


def test_another_part_of_the_memory_is_resolved_on_the_card_that_is_chosen() -> None:
    found = shaped(pod(HALF)).shape
    assert (found.memory_bytes, found.memory_milli) == (None, 500)
    assert [found.memory_on(size * GIB) for size in (24, 80)] == [12 * GIB, 40 * GIB]
    assert str(found) == "0.30 GPU (30 % compute) + 50 % of the memory"
    assert shaped(pod(HALF), 80 * GIB).shape.memory_bytes == 40 * GIB


def submitted(given: dict[str, Any], card_memory: int | None = None) -> tuple[str, tuple[str, ...]]:
    return submit_line(JobClaim(claim_of(given).containers[0].ask), ("true",), card_memory)


def test_a_submit_line_needs_the_cards_size_for_a_part_of_the_memory() -> None:
    with pytest.raises(FactMissing) as missing:
        submitted(pod(HALF))
    assert missing.value.details["fact"] == "card_memory"
    assert "--memory 40960MiB" in submitted(pod(HALF), 80 * GIB)[0]


def test_a_selected_model_tells_a_submit_line_the_size_and_the_smallest_of_several_counts() -> None:
    line, left_out = submitted(pod(HALF, {"nvidia.com/use-gputype": "A100-40G"}))
    assert ("--memory 20480MiB" in line, left_out) == (True, ())
    line, left_out = submitted(pod(HALF, {"nvidia.com/use-gputype": "A100"}))
    assert "--memory 20480MiB" in line
    assert left_out == (
        "parts of the memory are counted on the smallest of these models: 40960 MiB",
    )


def test_the_same_part_needs_no_size_and_neither_does_best_effort() -> None:
    same = HALF | {"nvidia.com/gpucores": 50}
    assert shaped(pod(same)).shape == Shape(
        500, None, sharing=SharingKind.BURST, selector=OF_NVIDIA
    )
    memory_alone = {"nvidia.com/gpu": 1, "nvidia.com/gpumem-percentage": 50}
    found = shaped(pod(memory_alone)).shape
    assert (found.gpu_milli, found.held_milli, found.memory_on(80 * GIB)) == (500, 0, 40 * GIB)


def test_a_partition_keeps_its_profile() -> None:
    assert shaped(pod({"nvidia.com/mig-1g.10gb": 2})).shape == Shape(
        1000, None, 2, profile="1g.10gb", selector=OF_NVIDIA
    )


def test_what_a_claim_does_not_say_is_told() -> None:
    limits = {"tencent.com/vcuda-core": 30, "tencent.com/vcuda-memory": 30}
    capped = pod(limits, {"tencent.com/vcuda-core-limit": "50", "nvidia.com/use-gpuuuid": "GPU-1"})
    cap = "a cap of 50 %: a burst share may use all that is idle"
    assert shaped(capped).left_out == (cap,)
    assert submitted(capped)[1] == (cap, "single cards by UUID: a job chooses by model and label")
    assert submitted(pod({"hygon.com/dcunum": 1}))[1] == ("cards of hygon: select them by model",)


@pytest.mark.parametrize(
    ("given", "vendor"),
    [
        (pod({"nvidia.com/gpu": 1}), "nvidia"),
        (pod({"amd.com/gpu": 1}), "amd"),
        (pod({"huawei.com/Ascend910B3": 1}), "ascend"),
        (pod({"gpupool.dev/gpus": 1}), "nvidia"),
        (pod({"gpupool.dev/gpus": 1}, {"gpupool.dev/vendor": "AMD"}), "amd"),
        (pod({"gpupool.dev/gpus": 1}, {"gpupool.dev/model": "mi300x"}), "amd"),
        (pod({"gpupool.dev/gpus": 1}, {"gpupool.dev/model": "mi300x,H100"}), "nvidia"),
        (pod({"gpupool.dev/gpus": 1}, {"main.gpupool.dev/model": "MI210"}), "amd"),
    ],
)
def test_a_claim_is_to_the_cards_of_one_vendor(given: dict[str, Any], vendor: str) -> None:
    assert shaped(given).shape.selector.vendor == vendor


def test_cards_that_are_named_or_excluded_are_in_the_shape() -> None:
    notes = {
        "nvidia.com/use-gpuuuid": "GPU-1,GPU-2",
        "nvidia.com/nouse-gpuuuid": "GPU-2",
        "nvidia.com/nouse-gputype": "T4",
    }
    assert shaped(pod({"nvidia.com/gpu": 1}, notes)).shape.selector == CardSelector(
        "nvidia", ("T4",), ("GPU-1",)
    )
    refused = shaped(pod({"nvidia.com/gpu": 1}, {"nvidia.com/nouse-gpuuuid": "GPU-2"})).shape
    assert refused.selector == CardSelector("nvidia", not_uuids=("GPU-2",))


def test_shape_says_whether_sharing_was_named() -> None:
    share = {"gpupool.dev/gpu-milli": 300}
    assert not shaped(pod(share)).shape.names_sharing
    assert shaped(pod(share, {"gpupool.dev/sharing": "fixed"})).shape.names_sharing
    assert shaped(pod({"gpupool.dev/gpus": 1})).shape.names_sharing
