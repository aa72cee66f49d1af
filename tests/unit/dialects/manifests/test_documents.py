"""Whole manifests: every pod understood, gangs from their objects, and written anew."""

from __future__ import annotations

import pytest

from gpupool.base.errors import ForeignValue
from gpupool.dialects.contract import GangHint
from gpupool.dialects.manifests.documents import rewrite_document, understand_document
from tests.unit.dialects.manifests.test_workloads import PLAIN, POD, of


def test_volcanos_job_is_a_gang_with_a_queue() -> None:
    spec = {
        "minAvailable": 3,
        "queue": "research",
        "tasks": [
            {"name": "ps", "replicas": 1, "template": POD},
            {"name": "worker", "replicas": 4, "template": POD},
        ],
    }
    found = understand_document(of("Job", spec, "batch.volcano.sh/v1alpha1"))
    assert [one.claim.hints.gang for one in found] == [GangHint("x", 3, 5)] * 2
    assert [one.claim.hints.queue for one in found] == ["research"] * 2
    assert [one.template.role for one in found] == ["ps", "worker"]


@pytest.mark.parametrize(("least", "minimum"), [(None, 2), (3, 2), (2, 1), (1, 1)])
def test_a_task_that_asks_for_no_card_is_no_member_of_the_gang(
    least: int | None, minimum: int
) -> None:
    tasks = [
        {"name": "ps", "replicas": 1, "template": PLAIN},
        {"name": "worker", "replicas": 2, "template": POD},
    ]
    spec = {"tasks": tasks} | ({} if least is None else {"minAvailable": least})
    ps, worker = understand_document(of("Job", spec, "batch.volcano.sh/v1alpha1"))
    assert (ps.claim.containers, ps.claim.hints.gang) == ((), None)
    assert worker.claim.hints.gang == GangHint("x", minimum, 2)


def test_one_asking_pod_among_others_is_no_gang() -> None:
    tasks = [
        {"name": "ps", "replicas": 2, "template": PLAIN},
        {"name": "worker", "replicas": 1, "template": POD},
    ]
    found = understand_document(of("Job", {"tasks": tasks}, "batch.volcano.sh/v1alpha1"))
    assert [one.claim.hints.gang for one in found] == [None, None]


def test_a_launcher_is_no_member_of_the_gang() -> None:
    roles = {
        "Launcher": {"replicas": 1, "template": POD},
        "Worker": {"replicas": 4, "template": POD},
    }
    launcher, worker = understand_document(of("MPIJob", {"mpiReplicaSpecs": roles}))
    assert (launcher.claim.hints.gang, worker.claim.hints.gang) == (None, GangHint("x", 4, 4))


def test_errors_lead_to_the_place_in_the_document() -> None:
    bad = {
        "spec": {"containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpumem": 8}}}]}
    }
    with pytest.raises(ForeignValue) as refused:
        understand_document(of("Deployment", {"template": bad}))
    assert refused.value.details["path"] == (
        *("spec", "template", "spec", "containers", 0, "resources", "limits"),
        "nvidia.com/gpumem",
    )


def test_a_document_is_written_anew_around_its_pods() -> None:
    document = {
        "kind": "List",
        "items": [of("Service", {"a": 1}), of("Deployment", {"replicas": 2, "template": POD})],
    }
    new = rewrite_document(document, understand_document(document))
    assert new["items"][0] == document["items"][0]
    limits = new["items"][1]["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]
    assert limits == {"gpupool.dev/gpus": "1"}
    assert new["items"][1]["spec"]["replicas"] == 2
    assert document["items"][1]["spec"]["template"] is POD
