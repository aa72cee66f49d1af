"""The normal form back in a pod: typed words, admitted totals, and the patch between."""

from __future__ import annotations

import copy
import json
from typing import Any

from gpupool.dialects.kubernetes import native
from gpupool.dialects.manifests.writing import admission_patch, write_admitted, write_typed
from tests.unit.dialects.pods import claim_of, pod

HAMI = {"nvidia.com/gpu": 2, "nvidia.com/gpumem": 8192, "nvidia.com/gpucores": 30, "cpu": "4"}


def patched(value: Any, patch: list[dict[str, Any]]) -> Any:
    """RFC 6902, as an API server applies it."""
    value = copy.deepcopy(value)
    for change in patch:
        *steps, last = [
            part.replace("~1", "/").replace("~0", "~") for part in change["path"].split("/")[1:]
        ]
        at = value
        for step in steps:
            at = at[int(step) if isinstance(at, list) else step]
        if change["op"] == "remove":
            del at[last]
        else:
            at[int(last) if isinstance(at, list) else last] = change["value"]
    return value


def test_typed_words_are_per_card_and_foreign_ones_are_gone() -> None:
    given = pod(
        HAMI,
        {"nvidia.com/use-gputype": "A100-40G", "note": "kept"},
        {"app": "x"},
        schedulerName="hami-scheduler",
    )
    new = write_typed(given, claim_of(given))
    assert new["spec"]["containers"][0]["resources"]["limits"] == {
        "cpu": "4",
        "gpupool.dev/gpus": "2",
        "gpupool.dev/gpu-milli": "300",
        "gpupool.dev/memory": "8Gi",
    }
    assert new["metadata"]["annotations"] == {
        "note": "kept",
        "gpupool.dev/sharing": "burst",
        "gpupool.dev/model": "A100-40G",
    }
    assert new["metadata"]["labels"] == {"app": "x"}
    assert new["spec"]["schedulerName"] == "default-scheduler"


def test_what_is_given_is_not_changed() -> None:
    given = pod(HAMI)
    before = copy.deepcopy(given)
    claim = claim_of(given)
    write_typed(given, claim)
    write_admitted(given, claim)
    assert given == before


def test_containers_that_differ_have_annotations_of_their_own() -> None:
    given = pod(HAMI)
    given["spec"]["containers"].append(
        {"name": "b", "resources": {"limits": {"gpupool.dev/gpu-milli": 100}}}
    )
    new = write_typed(given, claim_of(given))
    assert new["metadata"]["annotations"] == {"main.gpupool.dev/sharing": "burst"}


def test_admitted_resources_are_a_slot_and_exact_totals() -> None:
    given = pod(HAMI)
    new = write_admitted(given, claim_of(given))
    assert new["spec"]["containers"][0]["resources"]["limits"] == {
        "cpu": "4",
        "gpupool.dev/slot": "1",
        "gpupool.dev/gpu-milli": "600",
        "gpupool.dev/memory": "16Gi",
    }
    words = json.loads(new["metadata"]["annotations"][native.TYPED])
    assert words == {
        "containers": {"main": {key: value for key, value in HAMI.items() if key != "cpu"}}
    }


def test_best_effort_holds_no_compute() -> None:
    given = pod({"nvidia.com/gpu": 1, "nvidia.com/gpumem": 3000})
    limits = write_admitted(given, claim_of(given))["spec"]["containers"][0]["resources"]["limits"]
    assert limits == {"gpupool.dev/slot": "1", "gpupool.dev/memory": "3000Mi"}


def test_the_patch_makes_the_admitted_pod() -> None:
    given = pod(
        HAMI,
        {"nvidia.com/use-gputype": "A100"},
        {"kai.scheduler/queue": "q"},
        {"CUDA_TASK_PRIORITY": "0"},
    )
    claim = claim_of(given)
    patch = admission_patch(given, claim)
    assert patched(given, patch) == write_admitted(given, claim)
    assert {change["op"] for change in patch} <= {"add", "remove", "replace"}


def test_a_pod_that_asks_for_nothing_is_not_touched() -> None:
    given = pod({"cpu": "1"})
    assert admission_patch(given, claim_of(given)) == []
    assert write_typed(given, claim_of(given)) == given


def test_named_sharing_stays_named_and_unnamed_stays_unnamed() -> None:
    share = {"gpupool.dev/gpu-milli": 300}
    unnamed = pod(share)
    named = pod(share, {"gpupool.dev/sharing": "fixed"})
    for given, answer in ((unnamed, False), (named, None)):
        claim = claim_of(given)
        assert claim.containers[0].ask.names_sharing is answer
        assert claim_of(write_typed(given, claim)) == claim
        admitted = claim_of(write_admitted(given, claim)).containers[0].ask
        assert admitted.names_sharing is answer
    assert "annotations" not in write_typed(unnamed, claim_of(unnamed)).get("metadata", {})


def test_whole_card_says_nothing_of_sharing() -> None:
    given = pod({"gpupool.dev/gpus": 1}, {"gpupool.dev/sharing": "fixed"})
    assert "annotations" not in write_typed(given, claim_of(given))["metadata"]
