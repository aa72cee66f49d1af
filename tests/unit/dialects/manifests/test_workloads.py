"""Pods inside other objects: where they are, how many, which start together."""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.base.errors import BadManifest
from gpupool.dialects.manifests.workloads import list_templates

POD: dict[str, Any] = {
    "spec": {"containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}
}
PLAIN: dict[str, Any] = {"spec": {"containers": [{"name": "c"}]}}


def of(kind: str, spec: Any, api: str = "v1") -> dict[str, Any]:
    return {"apiVersion": api, "kind": kind, "metadata": {"name": "x"}, "spec": spec}


WORKERS = {"groupName": "w", "replicas": 2, "template": POD}
CASES: list[tuple[dict[str, Any], list[tuple[str | None, int | None]]]] = [
    ({"kind": "Pod", "metadata": {"name": "x"}, **POD}, [(None, 1)]),
    (of("Deployment", {"replicas": 3, "template": POD}), [(None, 3)]),
    (of("StatefulSet", {"template": POD}), [(None, 1)]),
    (of("ReplicaSet", {"replicas": 0, "template": POD}), [(None, 0)]),
    (of("DaemonSet", {"template": POD}), [("daemon", None)]),
    (of("Job", {"parallelism": 4, "template": POD}), [(None, 4)]),
    (of("CronJob", {"jobTemplate": {"spec": {"template": POD}}}), [(None, 1)]),
    (
        of("LeaderWorkerSet", {"leaderWorkerTemplate": {"size": 4, "leaderTemplate": POD, "workerTemplate": POD}}),
        [("leader", 1), ("worker", 1)],
    ),
    (
        of("MPIJob", {"mpiReplicaSpecs": {"Launcher": {"template": POD}, "Worker": {"replicas": 2, "template": POD}}}),
        [("Launcher", 1), ("Worker", 2)],
    ),
    (
        of("RayJob", {"rayClusterSpec": {"headGroupSpec": {"template": POD}, "workerGroupSpecs": [WORKERS]}}),
        [("head", 1), ("w", 2)],
    ),
    (
        of("RayCluster", {"headGroupSpec": {"template": POD}, "workerGroupSpecs": [{"replicas": 2, "template": POD}]}),
        [("head", 1), ("0", 2)],
    ),
    (
        of("JobSet", {"replicatedJobs": [{"name": "w", "replicas": 2, "template": {"spec": {"template": POD}}}]}),
        [("w", 2)],
    ),
    (of("Rollout", {"replicas": 2, "template": POD}), [(None, 2)]),
    (of("Service", {"ports": []}), []),
    (of("ConfigMap", None), []),
]  # fmt: skip


@pytest.mark.parametrize(("document", "expected"), CASES, ids=[case[0]["kind"] for case in CASES])
def test_every_pod_of_an_object_is_found(
    document: dict[str, Any], expected: list[tuple[str | None, int | None]]
) -> None:
    assert [(one.role, one.replicas) for one in list_templates(document)] == expected


def test_a_list_is_looked_into_and_paths_lead_to_the_template() -> None:
    document = {"kind": "List", "items": [of("Service", {}), of("Deployment", {"template": POD})]}
    (one,) = list_templates(document)
    assert one.path == ("items", 1, "spec", "template")


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({}, "the document has no kind"),
        ("text", "the pod should be a mapping, and is str"),
        (of("Deployment", {"replicas": "many", "template": POD}), "'many' is no number of pods"),
        (of("Deployment", {"replicas": -1, "template": POD}), "-1 is no number of pods"),
        (of("Deployment", {"template": []}), "spec.template should be a mapping"),
        (of("RayCluster", {"workerGroupSpecs": 3}), "spec.workerGroupSpecs should be a list"),
    ],
)
def test_what_is_no_manifest_is_refused(document: Any, message: str) -> None:
    with pytest.raises(BadManifest, match=message):
        list_templates(document)
