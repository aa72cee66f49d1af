"""A pod is read as its resources say, and nobody gains by changing an annotation."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from gpupool.base.units import GIB
from gpupool.dialects.manifests.normal import read_admitted
from gpupool.kubernetes.resources import names
from gpupool.kubernetes.resources import pod as pods
from gpupool.kubernetes.resources.pod import read_pod
from gpupool.model.claim import SharingKind
from tests.support.kube_builders import asking, gang, limits_of, pod

BOUND = {"nodeName": "node-1", "schedulingGates": []}


def test_a_share_is_read_per_card_and_totals_are_over_its_cards() -> None:
    read = read_pod(
        pod(
            containers={
                "main": asking(2, 300, 8 * GIB, sharing="burst", select={"models": ["L40S"]})
            }
        )
    )
    (ask,) = read.asks
    assert (ask.container, ask.shape.count, ask.shape.gpu_milli) == ("main", 2, 300)
    assert (ask.shape.memory_bytes, ask.shape.model, ask.shape.sharing) == (
        8 * GIB,
        "L40S",
        SharingKind.BURST,
    )
    assert read.is_waiting
    assert not read.problem


def test_whole_cards_need_no_memory() -> None:
    (ask,) = read_pod(pod(containers={"main": asking(1, 1000, None)})).asks
    assert ask.shape.is_whole
    assert ask.shape.memory_bytes is None


def claims(**words: Any) -> dict[str, Any]:
    return {"containers": [{"container": "main", "kind": "app", **asking(), **words}]}


@pytest.mark.parametrize(
    "claim",
    [
        claims(memory_bytes=80 * GIB),
        claims(gpu_milli=1000),
        claims(count=3, gpu_milli=100),
        claims(gpu_milli="x"),
        claims(container="other"),
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
    assert (read.asks, read.is_waiting) == ((), False)
    assert read.problem.startswith("GP-")


def test_a_claim_that_is_no_json_or_not_there() -> None:
    changed = pod()
    changed["metadata"]["annotations"][names.CLAIM] = "{"
    assert "cannot be read" in read_pod(changed).problem
    del changed["metadata"]["annotations"][names.CLAIM]
    assert "did not go through admission" in read_pod(changed).problem


def test_where_a_pod_stands() -> None:
    gone = pod()
    gone["metadata"]["deletionTimestamp"] = "2026-11-22T00:01:00Z"
    assert not read_pod(gone).is_waiting
    assert not read_pod(pod(spec={"schedulingGates": []})).is_waiting
    done = {**pod(), "status": {"phase": "Succeeded"}}
    assert read_pod(done).ended
    assert read_pod(pod(spec={"nodeName": "n7"})).node == "n7"


def test_a_gang_has_a_size_and_a_minimum() -> None:
    read = read_pod(pod(gang=gang(8, 4)))
    assert (read.gang, read.gang_size, read.gang_minimum) == ("default/train", 8, 4)
    assert read_pod(pod(gang=gang(8))).gang_minimum == 8
    assert read_pod(pod(gang={"name": "train", "minimum": 3})).gang_size == 3


def test_who_has_an_owner_may_be_preempted_unless_he_says_no() -> None:
    owned = pod()
    owned["metadata"]["ownerReferences"] = [{"kind": "Job", "uid": "set", "controller": True}]
    assert read_pod(owned).preemptible
    assert not read_pod(pod()).preemptible
    assert read_pod(pod(preemptible=True)).preemptible


@pytest.mark.parametrize(
    ("reason", "message", "its"),
    [
        ("Unschedulable", "0/3 nodes are available: 1 Insufficient cpu.", True),
        ("SchedulerError", "running PreBind plugin: timed out", True),
        ("Unschedulable", "GP-2003: needs a whole card; all 8 cards are in use", False),
        ("SchedulingGated", "Scheduling is blocked due to non-empty scheduling gates", False),
    ],
)
def test_the_schedulers_word_is_told_from_ours(reason: str, message: str, its: bool) -> None:
    condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
    assert read_pod({**pod(), "status": {"conditions": [condition]}}).refusal == (
        message if its else ""
    )


def test_what_pods_of_a_kind_ask_is_read_once_for_all_of_them_and_all_states_of_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reads = []
    monkeypatch.setattr(pods, "read_admitted", lambda pod: reads.append(pod) or read_admitted(pod))
    size = 3001 << 20  # that no other test asks for
    written = [
        pod(f"worker-{n}", {"main": asking(1, 300, size)}, spec=spec)
        for n in range(9)
        for spec in ({}, BOUND)
    ]
    found = [read_pod(one) for one in written]
    assert len(reads) == 1
    assert {one.asks[0].shape.memory_bytes for one in found} == {size}


def written_by_hand(claim: Any, limits: dict[str, str]) -> dict[str, Any]:
    """A pod in the normal form that no admission has written."""
    made = copy.deepcopy(pod())
    made["metadata"]["annotations"][names.CLAIM] = json.dumps(claim)
    made["spec"]["containers"][0]["resources"] = {"limits": limits}
    return made


@pytest.mark.parametrize(
    ("claim", "limits"),
    [
        ({"containers": []}, {}),
        ({"containers": [], "pod": {"gang": gang(2)}}, {}),
        (claims(select={"models": [["L40S"]]}), limits_of(1, 300, 8 * GIB)),
        (claims(select={"labels": [["zone"]]}), limits_of(1, 300, 8 * GIB)),
        (claims(select={"models": ["\ud800"]}), limits_of(1, 300, 8 * GIB)),
        (claims(select={"\ud800": ["x"]}), limits_of(1, 300, 8 * GIB)),
        ({**claims(), "pod": {"gang": gang(10_001)}}, limits_of(1, 300, 8 * GIB)),
        (
            {**claims(), "pod": {"gang": {"name": "g", "minimum": 10_001}}},
            limits_of(1, 300, 8 * GIB),
        ),
        ({**claims(), "pod": {"gang": gang(2, name="\ud800")}}, limits_of(1, 300, 8 * GIB)),
        ({**claims(), "pod": {"gang": gang(2, name="g" * 100_000)}}, limits_of(1, 300, 8 * GIB)),
        (claims(sharing="mps"), limits_of(1, 300, 8 * GIB)),
        (claims(memory_milli=10**30), limits_of(1, 300, 8 * GIB)),
        (claims(cap_milli=10**30), limits_of(1, 300, 8 * GIB)),
        (claims(gpu_milli=10**18), limits_of(1, 10**18, 8 * GIB)),
        (claims(count=10**9), limits_of(10**9, 300, 8 * GIB)),
        (claims(memory_bytes=2**63 - 1), limits_of(1, 300, 2**63 - 1)),
        (
            claims(gpu_milli=10**30, memory_bytes=None, sharing="best-effort"),
            {names.SLOT: "1"},
        ),
    ],
    ids=[
        "no container",
        "no container of a gang",
        "model in a list",
        "label without value",
        "model without characters",
        "filter without characters",
        "gang of too many",
        "minimum of too many",
        "gang without characters",
        "gang with a long name",
        "sharing that no container can have",
        "more memory than a card",
        "higher cap than a card",
        "more compute than a card",
        "more cards than any node",
        "more bytes than any card",
        "more compute without a promise",
    ],
)
def test_a_claim_written_by_hand_that_nothing_can_serve_is_a_problem_of_its_pod(
    claim: Any, limits: dict[str, str]
) -> None:
    """Labels and annotations of a new pod are its tenant's: one who writes the normal form by hand
    passes the webhook by."""
    read = read_pod(written_by_hand(claim, limits))
    assert (read.asks, read.is_waiting) == ((), False)
    assert read.problem.startswith("GP-")
    assert read.problem.encode(), "an event about it is named after these bytes"
