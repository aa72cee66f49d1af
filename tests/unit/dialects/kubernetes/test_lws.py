"""Pods of a LeaderWorkerSet: each group is a gang of its own, by the index on the pod or in the
leader's name."""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.dialects.contract import GangHint
from tests.unit.dialects.pods import claim_of, pod

D = "leaderworkerset.sigs.k8s.io"
GANG = {"gpupool.dev/gang": "llama"}
SIZE = {f"{D}/size": "4"}


def hint(labels: dict[str, str], annotations: dict[str, str], name: str = "p") -> GangHint | None:
    made: dict[str, Any] = pod({"gpupool.dev/gpus": 1}, annotations, labels)
    made["metadata"]["name"] = name
    return claim_of(made).hints.gang


def test_a_worker_is_of_its_group_and_the_set_says_how_many_they_are() -> None:
    worker = {**GANG, f"{D}/name": "llama", f"{D}/group-index": "1", f"{D}/worker-index": "2"}
    assert hint(worker, SIZE) == GangHint("llama-1", None, 4)


def test_a_leader_whose_index_is_not_written_yet_has_it_in_its_name() -> None:
    leader = {**GANG, f"{D}/name": "llama", f"{D}/worker-index": "0"}
    assert hint(leader, SIZE, "llama-1") == GangHint("llama-1", None, 4)
    assert hint(leader, SIZE, "llama") == GangHint("llama")


def test_what_the_pod_says_itself_goes_before() -> None:
    worker = {**GANG, f"{D}/name": "llama", f"{D}/group-index": "0"}
    assert hint(worker, {**SIZE, "gpupool.dev/gang-size": "3"}) == GangHint("llama-0", None, 3)
    assert hint(worker, {**SIZE, "gpupool.dev/gang-min": "2"}) == GangHint("llama-0", 2)


@pytest.mark.parametrize("labels", [{f"{D}/name": "llama", f"{D}/group-index": "0"}, {}])
def test_without_our_label_it_is_no_gang(labels: dict[str, str]) -> None:
    assert hint(labels, SIZE) is None
