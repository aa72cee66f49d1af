"""Our own words, as the issue writes them."""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.base.errors import NotExpressible
from gpupool.model.claim import SharingKind, TopologyConstraint
from gpupool.model.isolation.claim_needs import ClaimGoal, ClaimNeeds, IsolationKind
from tests.unit.dialects.pods import ask_of, claim_of, pod, said

D = "gpupool.dev"


@pytest.mark.parametrize(
    ("limits", "meaning"),
    [
        (
            {f"{D}/gpus": 2, f"{D}/gpu-milli": 300, f"{D}/memory": "8Gi"},
            "2 × [0.30 GPU (30 % compute) + 8192 MiB], fixed",
        ),
        ({f"{D}/gpus": "2"}, "2 × [1.00 GPU (100 % compute) + its part of the memory], fixed"),
        ({f"{D}/gpu-milli": 300}, "0.30 GPU (30 % compute) + its part of the memory, fixed"),
        (
            {f"{D}/gpu-milli": 300, f"{D}/memory-milli": 500},
            "0.30 GPU (30 % compute) + 50 % of the memory, fixed",
        ),
        ({f"{D}/gpu-milli": 1000}, "1.00 GPU (100 % compute) + its part of the memory, fixed"),
    ],
)
def test_resources_are_per_card(limits: dict[str, Any], meaning: str) -> None:
    assert said(pod(limits)) == meaning


@pytest.mark.parametrize(
    ("limits", "refusal"),
    [
        (
            {f"{D}/gpu-milli": 1500},
            "GP-1041: gpupool.dev/gpu-milli: 1500: this is thousandths of a card from 1 to 1000",
        ),
        (
            {f"{D}/gpus": "0.5"},
            "GP-1041: gpupool.dev/gpus: 0.5: this is a whole number from 1 to 100000",
        ),
        ({f"{D}/memory": "8Gi"}, "GP-1041: gpupool.dev/memory: 8Gi without a share of the compute"),
        (
            {f"{D}/gpu-milli": 300, f"{D}/memory": "8"},
            "GP-1041: gpupool.dev/memory: 8 is 1 MiB: a share has from 64 MiB",
        ),
        (
            {f"{D}/gpu-milli": 1, f"{D}/memory": "8Gi", f"{D}/memory-milli": 3},
            "GP-1041: gpupool.dev/memory: 8Gi and gpupool.dev/memory-milli: 3",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_numbers(
    limits: dict[str, Any], refusal: str
) -> None:
    assert said(pod(limits)).startswith(refusal)


@pytest.mark.parametrize("sharing", ["best-effort", "offline"])
def test_a_share_without_a_promise_may_ask_for_memory_alone(sharing: str) -> None:
    ask = ask_of(pod({f"{D}/memory": "8Gi"}, {f"{D}/sharing": sharing}))
    assert (ask.gpu_milli, ask.memory_bytes, ask.sharing, ask.held_milli) == (
        None,
        8 << 30,
        SharingKind(sharing),
        0,
    )


def test_annotations_are_the_pods_or_one_containers() -> None:
    given = pod(
        {f"{D}/gpu-milli": 300},
        {f"{D}/sharing": "burst", f"main.{D}/model": "H200,H100", f"{D}/profile": ""},
    )
    del given["metadata"]["annotations"][f"{D}/profile"]
    ask = ask_of(given)
    assert (ask.sharing, ask.select.models) == (SharingKind.BURST, ("H200", "H100"))
    assert ask_of(pod({f"{D}/gpus": 1}, {f"main.{D}/profile": "1g.10gb"})).profile == "1g.10gb"


def test_queue_gang_and_topology_are_the_pods() -> None:
    given = pod(
        {f"{D}/gpus": 1},
        {
            f"{D}/topology": "block;rack,preferred",
            f"{D}/gang-min": "4",
            f"{D}/gang-size": "8",
            f"{D}/preemptible": "true",
        },
        {f"{D}/queue": "research", f"{D}/gang": "train"},
        priorityClassName="high",
    )
    hints = claim_of(given).hints
    assert hints.queue == "research"
    assert hints.within == TopologyConstraint("block", "rack")
    assert hints.gang is not None
    assert (hints.gang.name, hints.gang.minimum, hints.gang.size) == ("train", 4, 8)
    assert (hints.preemptible, hints.priority) == (True, "high")


def test_a_foreign_ask_may_be_refined_in_our_words() -> None:
    given = pod(
        {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 3000, "nvidia.com/gpucores": 30},
        {f"{D}/sharing": "fixed"},
    )
    assert ask_of(given).sharing is SharingKind.FIXED


def test_needs_are_the_pods() -> None:
    given = pod({f"{D}/gpus": 1}, {f"{D}/isolation": "hard", f"{D}/goal": "density"})
    assert claim_of(given).hints.needs == ClaimNeeds(IsolationKind.HARD, ClaimGoal.DENSITY)
    every = pod({f"{D}/gpus": 1}, {f"{D}/host": "container"})
    assert claim_of(every).hints.needs is None


@pytest.mark.parametrize("key", ["isolation", "goal", "host"])
def test_a_need_that_does_not_exist_is_refused(key: str) -> None:
    assert said(pod({f"{D}/gpus": 1}, {f"{D}/{key}": "perfect"})).startswith(
        f"GP-1041: {D}/{key}: perfect"
    )


def test_a_pod_cannot_be_an_mps_client() -> None:
    shared = pod({f"{D}/gpu-milli": 300}, annotations={f"{D}/sharing": "mps"})
    with pytest.raises(NotExpressible, match="a container has a /dev/shm of its own"):
        claim_of(shared)
