"""Other makers: Project-HAMi/HAMi
examples/{mlu,hygon,mthreads,metax,kunlun,ascend,iluvatar,enflame,...}."""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.model.claim import TopologyConstraint
from tests.unit.dialects.pods import ask_of, claim_of, pod, said


@pytest.mark.parametrize(
    ("maker", "limits", "meaning"),
    [
        (
            "amd",
            {"amd.com/gpu": 2},
            "2 × [1.00 GPU (100 % compute) + its part of the memory], fixed",
        ),
        (
            "cambricon",
            {
                "cambricon.com/vmlu": "1",
                "cambricon.com/mlu370.smlu.vmemory": "20",
                "cambricon.com/mlu370.smlu.vcore": "10",
            },
            "0.10 GPU (10 % compute) + 5120 MiB, fixed",
        ),
        (
            "cambricon",
            {"cambricon.com/vmlu": "1"},
            "1.00 GPU (100 % compute) + its part of the memory, fixed",
        ),
        (
            "hygon",
            {"hygon.com/dcunum": 1, "hygon.com/dcucores": 60, "hygon.com/dcumem": 2000},
            "0.60 GPU (60 % compute) + 2000 MiB, fixed",
        ),
        (
            "mthreads",
            {"mthreads.com/vgpu": 1, "mthreads.com/sgpu-memory": 32, "mthreads.com/sgpu-core": 8},
            "0.50 GPU (50 % compute) + 16384 MiB, fixed",
        ),
        (
            "metax",
            {"metax-tech.com/sgpu": 1, "metax-tech.com/vcore": 60, "metax-tech.com/vmemory": 4},
            "0.60 GPU (60 % compute) + 4096 MiB, fixed",
        ),
        (
            "metax",
            {
                "metax-tech.com/sgpu": 1,
                "metax-tech.com/vcore": 60,
                "metax-tech.com/vmemory": "2048Mi",
            },
            "0.60 GPU (60 % compute) + 2048 MiB, fixed",
        ),
        (
            "kunlunxin",
            {"kunlunxin.com/vxpu": 1, "kunlunxin.com/vxpu-memory": 24576},
            "1.00 GPU (best effort) + 24576 MiB, best-effort",
        ),
        (
            "ascend",
            {"huawei.com/Ascend910B3-memory": 2000, "huawei.com/Ascend910B3": 1},
            "1.00 GPU (best effort) + 2000 MiB, best-effort",
        ),
        (
            "iluvatar",
            {
                "iluvatar.ai/MR-V100-vgpu": 1,
                "iluvatar.ai/MR-V100.vCore": 50,
                "iluvatar.ai/MR-V100.vMem": 64,
            },
            "0.50 GPU (50 % compute) + 16384 MiB, fixed",
        ),
        (
            "enflame",
            {"enflame.com/gcu-memory": 20480, "enflame.com/gcu-core": 40},
            "0.40 GPU (40 % compute) + 20480 MiB, fixed",
        ),
        (
            "ascend",
            {
                "huawei.com/Ascend310P": 1,
                "huawei.com/Ascend310P-memory": 4096,
                "huawei.com/Ascend310P-core": 90,
            },
            "0.90 GPU (90 % compute) + 4096 MiB, fixed",
        ),
        (
            "intel",
            {"gpu.intel.com/xe": 1},
            "1.00 GPU (100 % compute) + its part of the memory, fixed",
        ),
        (
            "habana",
            {"habana.ai/gaudi": 8},
            "8 × [1.00 GPU (100 % compute) + its part of the memory], fixed",
        ),
        (
            "google",
            {"google.com/tpu": 4},
            "4 × [1.00 GPU (100 % compute) + its part of the memory], fixed",
        ),
        (
            "vastai",
            {"vastaitech.com/va": 1},
            "1.00 GPU (100 % compute) + its part of the memory, fixed",
        ),
        (
            "biren",
            {"birentech.com/gpu": 1},
            "1.00 GPU (100 % compute) + its part of the memory, fixed",
        ),
    ],
)
def test_every_makers_example_is_understood(
    maker: str, limits: dict[str, Any], meaning: str
) -> None:
    assert said(pod(limits)) == meaning
    assert ask_of(pod(limits)).vendor == maker


def test_their_cards_are_chosen_by_type_and_name() -> None:
    types = {
        "hygon.com/use-dcutype": "DCU-K100_AI",
        "hygon.com/nouse-gpuuuid": "DCU-TPXS320016070601",
    }
    select = ask_of(pod({"hygon.com/dcunum": 1}, types)).select
    assert (select.models, select.not_uuids) == (("DCU-K100_AI",), ("DCU-TPXS320016070601",))
    named = {"metax-tech.com/use-gpuuuid": "GPU-36beae85"}
    assert ask_of(pod({"metax-tech.com/sgpu": 1}, named)).select.uuids == ("GPU-36beae85",)


def test_metaxs_policy_class_and_topology() -> None:
    share = {"metax-tech.com/sgpu": 1, "metax-tech.com/vcore": 60, "metax-tech.com/vmemory": 4}
    prefix = "metax-tech.com/sgpu-"
    claim = claim_of(
        pod(
            share,
            {
                f"{prefix}qos-policy": "burst-share",
                f"{prefix}app-class": "offline",
                f"{prefix}topology-aware": "true",
            },
        )
    )
    ask = claim.containers[0].ask
    assert (ask.sharing, ask.urgency, claim.hints.within) == (
        "burst",
        "low",
        TopologyConstraint(preferred="nvlink"),
    )
    assert said(pod(share, {f"{prefix}qos-policy": "fair"})).startswith(
        "GP-1041: metax-tech.com/sgpu-qos-policy: fair"
    )


def test_a_slice_of_unknown_size_is_refused() -> None:
    assert said(pod({"enflame.com/drs-gcu": 3})).startswith(
        "GP-1041: enflame.com/drs-gcu: 3: how large such a slice is"
    )


def test_the_name_of_a_chip_is_a_choice_of_its_model() -> None:
    assert ask_of(pod({"huawei.com/Ascend910B3": 1})).select.models == ("ASCEND910B3",)


@pytest.mark.parametrize(
    ("word", "why"),
    [
        ("huawei.com/npu-core", "these are cores of an NPU, and no cards"),
        ("aws.amazon.com/neuroncore", "how many cores a device has depends on its model"),
        ("gpu.intel.com/millicores", "a part of an Intel card is not fenced here"),
    ],
)
def test_parts_of_cards_are_refused_by_name(word: str, why: str) -> None:
    assert said(pod({word: 8})) == f"GP-1041: {word}: 8: {why}"
