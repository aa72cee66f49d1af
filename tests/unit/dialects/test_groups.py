"""Queues, gangs and nearness of Kubernetes, Kueue, coscheduling and LeaderWorkerSet."""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.model.claim import TopologyConstraint
from tests.unit.dialects.pods import claim_of, pod, said

ONE = {"nvidia.com/gpu": 1}


@pytest.mark.parametrize(
    ("labels", "annotations", "spec", "gang"),
    [
        (
            {"kueue.x-k8s.io/pod-group-name": "g"},
            {"kueue.x-k8s.io/pod-group-total-count": "4"},
            {},
            ("g", 4, 4),
        ),
        (
            {
                "pod-group.scheduling.sigs.k8s.io/name": "g",
                "pod-group.scheduling.sigs.k8s.io/min-available": "3",
            },
            {},
            {},
            ("g", 3, None),
        ),
        ({"scheduling.x-k8s.io/pod-group": "g"}, {}, {}, ("g", None, None)),
        ({}, {}, {"schedulingGroup": {"podGroupName": "g"}}, ("g", None, None)),
    ],
)
def test_every_way_to_name_a_group_is_one(
    labels: dict[str, str],
    annotations: dict[str, str],
    spec: dict[str, Any],
    gang: tuple[str, int | None, int | None],
) -> None:
    hint = claim_of(pod(ONE, annotations, labels, **spec)).hints.gang
    assert hint is not None
    assert (hint.name, hint.minimum, hint.size) == gang


def test_kueues_queue_and_topology() -> None:
    near = {"kueue.x-k8s.io/podset-required-topology": "cloud.provider.com/topology-rack"}
    hints = claim_of(pod(ONE, near, {"kueue.x-k8s.io/queue-name": "team-queue"})).hints
    assert (hints.queue, hints.within) == ("team-queue", TopologyConstraint(required="rack"))


def test_two_queues_contradict_and_twice_the_same_does_not() -> None:
    two = {"kueue.x-k8s.io/queue-name": "a", "kai.scheduler/queue": "b"}
    assert (
        said(pod(ONE, labels=two))
        == "GP-1042: two words for the pod's queue: b (kai) and a (groups)"
    )
    same = {"kueue.x-k8s.io/queue-name": "a", "kai.scheduler/queue": "a"}
    assert claim_of(pod(ONE, labels=same)).hints.queue == "a"


def test_a_pod_that_asks_for_no_card_has_no_claim() -> None:
    assert claim_of(pod(labels={"kueue.x-k8s.io/queue-name": "a"})).containers == ()
