"""A pod is read as its resources say, and nobody gains by changing an annotation."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from gpupool.base.units import GIB
from gpupool.kubernetes import names
from gpupool.kubernetes.pods import read_pod, requests
from gpupool.model.claim import Sharing
from tests.support.kube_builders import asking, pod


def test_a_share_is_read_per_card_and_totals_are_over_its_cards() -> None:
    read = read_pod(pod(containers={"main": asking(2, 300, 8 * GIB, sharing="burst")}, model="L40S"))
    (ask,) = read.asks
    assert (ask.container, ask.shape.count, ask.shape.gpu_milli) == ("main", 2, 300)
    assert (ask.shape.memory_bytes, ask.shape.model, ask.shape.sharing) == (8 * GIB, "L40S", Sharing.BURST)
    assert read.waits
    assert not read.problem


def test_whole_cards_need_no_memory() -> None:
    (ask,) = read_pod(pod(containers={"main": asking(1, 1000, None)})).asks
    assert ask.shape.whole
    assert ask.shape.memory_bytes is None


@pytest.mark.parametrize(
    "claim",
    [
        {"containers": {"main": asking(1, 300, 80 * GIB)}},
        {"containers": {"main": asking(1, 1000, 8 * GIB)}},
        {"containers": {"main": asking(3, 100, 8 * GIB)}},
        {"containers": {"main": {"gpuMilli": "x"}}},
        {"containers": {"other": asking()}},
        {"containers": []},
        {},
        [],
        7,
    ],
)
def test_a_claim_that_its_tenant_changed_asks_nothing_and_says_why(claim: Any) -> None:
    changed = copy.deepcopy(pod())
    changed["metadata"]["annotations"][names.CLAIM] = json.dumps(claim)
    read = read_pod(changed)
    assert (read.asks, read.waits) == ((), False)
    assert names.CLAIM in read.problem


def test_a_claim_that_is_no_json_or_not_there() -> None:
    changed = pod()
    changed["metadata"]["annotations"][names.CLAIM] = "{"
    assert "is not what admission wrote" in read_pod(changed).problem
    del changed["metadata"]["annotations"][names.CLAIM]
    assert "is missing" in read_pod(changed).problem


def test_where_a_pod_stands() -> None:
    gone = pod()
    gone["metadata"]["deletionTimestamp"] = "2026-11-22T00:01:00Z"
    assert not read_pod(gone).waits
    assert not read_pod(pod(spec={"schedulingGates": []})).waits
    done = {**pod(), "status": {"phase": "Succeeded"}}
    assert read_pod(done).ended
    assert read_pod(pod(spec={"nodeName": "n7"})).node == "n7"


def test_a_gang_has_a_size_and_a_minimum() -> None:
    notes = {names.GANG: "train", names.GANG_SIZE: "8", names.GANG_MINIMUM: "4"}
    read = read_pod(pod(annotations=notes))
    assert (read.gang, read.gang_size, read.gang_minimum) == ("default/train", 8, 4)
    assert "more than" in read_pod(pod(annotations={**notes, names.GANG_MINIMUM: "9"})).problem
    assert "not a number" in read_pod(pod(annotations={**notes, names.GANG_SIZE: "many"})).problem


def container(cpu: str, memory: str, **more: Any) -> dict[str, Any]:
    return {"name": "c", "resources": {"requests": {"cpu": cpu, "memory": memory}}, **more}


def test_processors_and_memory_are_counted_as_the_scheduler_counts_them() -> None:
    apps = [container("1", "1Gi"), container("500m", "1Gi")]
    assert requests({"containers": apps}) == (1500, 2 * GIB)
    heavy_start = [container("4", "512Mi")]
    assert requests({"containers": apps, "initContainers": heavy_start}) == (4000, 2 * GIB)
    sidecar = container("2", "1Gi", restartPolicy="Always")
    assert requests({"containers": apps, "initContainers": [sidecar]}) == (3500, 3 * GIB)
    assert requests({"containers": apps, "initContainers": [sidecar, *heavy_start]}) == (6000, 3 * GIB)
    assert requests({"containers": apps, "overhead": {"cpu": "100m"}}) == (1600, 2 * GIB)


def test_a_limit_alone_is_a_request() -> None:
    assert requests({"containers": [{"resources": {"limits": {"cpu": "2"}}}]}) == (2000, 0)
