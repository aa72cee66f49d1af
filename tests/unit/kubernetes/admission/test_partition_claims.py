"""A pod that names a MIG profile gets the profile's full name and size on admission."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gpupool.base.errors import PodRejection, RequestRejection
from gpupool.dialects.contract import ContainerAsk, ContainerClaim, PodClaim
from gpupool.kubernetes.admission.decide import ClusterFacts, decide_admission
from gpupool.kubernetes.admission.partition_claims import resolve_claim
from gpupool.kubernetes.cache.cluster import ClusterCache
from gpupool.kubernetes.resources import names
from gpupool.kubernetes.resources.pod import Pod, read_pod
from gpupool.scheduling import CardTable
from gpupool.scheduling.engine.cycle import cycle
from tests.support.cluster_caches import note_mig_node, note_node
from tests.support.kube_builders import CREATED

GIB = 1 << 30


def build_cards(*models: str) -> CardTable:
    pool = ClusterCache()
    note_node(pool, "plain")
    for number, model in enumerate(models):
        note_mig_node(pool, f"mig-{number}", 2, model)
    return pool.take_snapshot().cards


def ask_for(limits: dict[str, str], **annotations: str) -> dict[str, Any]:
    notes = {f"gpupool.dev/{key}": value for key, value in annotations.items()}
    return {
        "metadata": {"name": "a", "annotations": notes},
        "spec": {"containers": [{"name": "main", "resources": {"limits": limits}}]},
    }


def read_stored(stored: dict[str, Any]) -> Pod:
    meta = {"uid": "u", "namespace": "team", "resourceVersion": "1", "creationTimestamp": CREATED}
    return read_pod({**stored, "metadata": {**stored["metadata"], **meta}})


@pytest.mark.parametrize(
    "asked",
    [
        ask_for({"nvidia.com/mig-1g.18gb": "2"}),
        ask_for({"gpupool.dev/gpus": "2"}, profile="1g.18gb"),
        ask_for({"gpupool.dev/gpus": "2"}, profile="1g"),
    ],
)
def test_a_profile_is_counted_by_its_compute_and_memory(asked: dict[str, Any]) -> None:
    facts = ClusterFacts(build_cards("H200"))
    stored = decide_admission(asked, "team", facts).pod
    limits = stored["spec"]["containers"][0]["resources"]["limits"]
    assert limits == {names.SLOT: "1", names.GPU_MILLI: "284", names.MEMORY: "32Gi"}
    (ask,) = read_stored(stored).asks
    assert (ask.shape.profile, ask.shape.gpu_milli, ask.shape.count) == ("1g.18gb", 142, 2)
    assert ask.shape.memory_bytes is None, "each card says how much memory a partition has"
    assert decide_admission(stored, "team", facts).pod == stored


def test_a_profile_that_was_edited_afterwards_makes_no_claim() -> None:
    """`1g.35gb` has the same compute as `1g.18gb`, and twice its memory."""
    asked = ask_for({"nvidia.com/mig-1g.18gb": "1"})
    stored = decide_admission(asked, "team", ClusterFacts(build_cards("H200"))).pod
    notes = stored["metadata"]["annotations"]
    claim = json.loads(notes[names.CLAIM])
    claim["containers"][0] |= {"profile": "1g.35gb", "memory_bytes": 32 * GIB + (256 << 20)}
    notes[names.CLAIM] = json.dumps(claim)
    read = read_stored(stored)
    assert read.asks == ()
    assert PodRejection.code in read.problem


def write_by_hand(memory_bytes: int | None) -> dict[str, Any]:
    """A pod in the normal form that counts so much memory for a partition of 16 GiB."""
    facts = ClusterFacts(build_cards("H200"))
    stored = decide_admission(ask_for({"nvidia.com/mig-1g.18gb": "1"}), "team", facts).pod
    notes = stored["metadata"]["annotations"]
    claim = json.loads(notes[names.CLAIM])
    limits = stored["spec"]["containers"][0]["resources"]["limits"]
    if memory_bytes is None:
        del claim["containers"][0]["memory_bytes"], limits[names.MEMORY]
    else:
        claim["containers"][0]["memory_bytes"] = memory_bytes
        limits[names.MEMORY] = str(memory_bytes)
    notes[names.CLAIM] = json.dumps(claim)
    return stored


@pytest.mark.parametrize("memory_bytes", [None, 1, 16 * GIB - 1])
def test_a_partition_that_counts_too_little_memory_is_refused(memory_bytes: int | None) -> None:
    facts = ClusterFacts(build_cards("H200"))
    with pytest.raises(PodRejection, match=r"1g\.18gb has 142 milli and 16384 MiB"):
        decide_admission(write_by_hand(memory_bytes), "team", facts)
    enough = write_by_hand(16 * GIB)
    assert decide_admission(enough, "team", facts).pod == enough


@pytest.mark.parametrize("memory_bytes", [None, 1, 16 * GIB - 1])
def test_a_pod_past_the_webhook_gets_no_more_memory_than_it_counts(
    memory_bytes: int | None,
) -> None:
    pool = ClusterCache()
    note_mig_node(pool, "mig")
    for uid, size in (("less", memory_bytes), ("same", 16 * GIB)):
        made = write_by_hand(size)
        made["metadata"] |= {
            "name": uid,
            "uid": uid,
            "namespace": "team",
            "resourceVersion": "1",
            "creationTimestamp": CREATED,
        }
        pool.note_pod(uid, read_pod(made))
    plan = cycle(pool.take_snapshot(), 0)
    assert [one.job for one in plan.placements] == ["same/main"]
    (rejection,) = plan.rejections.values()
    assert rejection.sentence.startswith("a partition 1g.18gb has at least 16384 MiB")


def test_a_profile_of_several_boards_is_counted_by_the_largest() -> None:
    for models in (("H100", "A100-80G"), ("A100-80G", "H100")):
        facts = ClusterFacts(build_cards(*models))
        stored = decide_admission(ask_for({"nvidia.com/mig-1g.10gb": "1"}), "team", facts).pod
        limits = stored["spec"]["containers"][0]["resources"]["limits"]
        assert limits[names.MEMORY] == "9984Mi"


def test_media_engines_are_a_profile_of_their_own() -> None:
    asked = ask_for({"nvidia.com/mig-1g.18gb.me": "1"})
    stored = decide_admission(asked, "team", ClusterFacts(build_cards("H200"))).pod
    assert read_stored(stored).asks[0].shape.profile == "1g.18gb+me"


def test_a_profile_that_no_card_publishes_is_refused_with_those_that_are() -> None:
    asked = ask_for({"nvidia.com/mig-1g.10gb": "1"})
    with pytest.raises(RequestRejection, match=r"in MIG mode has a profile 1g\.10gb") as caught:
        decide_admission(asked, "team", ClusterFacts(build_cards("H200")))
    assert caught.value.hint.startswith("known: 1g.18gb, ")
    with pytest.raises(RequestRejection) as caught:
        decide_admission(asked, "team", ClusterFacts(build_cards()))
    assert caught.value.hint == "no node has a card in MIG mode"
    with pytest.raises(RequestRejection, match="still being read"):
        decide_admission(asked, "team", ClusterFacts())


def test_a_short_name_of_several_boards_needs_a_model() -> None:
    asked = ask_for({"gpupool.dev/gpus": "1"}, profile="2g")
    facts = ClusterFacts(build_cards("H200", "A30"))
    with pytest.raises(RequestRejection, match=r"2g means 2g.35gb \(285 milli\), 2g.12gb \(500"):
        decide_admission(asked, "team", facts)
    asked["metadata"]["annotations"]["gpupool.dev/model"] = "A30"
    stored = decide_admission(asked, "team", facts).pod
    assert read_stored(stored).asks[0].shape.profile == "2g.12gb"


def test_a_claim_without_a_profile_stays_as_it_is() -> None:
    claim = PodClaim((ContainerClaim("main", "app", ContainerAsk(1, 300).complete()),))
    assert resolve_claim(claim, None) is claim
