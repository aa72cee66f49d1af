"""A node gets no more volumes than its driver attaches there, each counted once."""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.kubernetes.cache import plan_conflicts
from gpupool.kubernetes.cache.cluster import ClusterCache
from gpupool.kubernetes.resources.gpu_node import GpuNode
from gpupool.kubernetes.resources.node import NodeFacts
from gpupool.kubernetes.resources.pod import read_pod
from gpupool.scheduling.engine.cycle import cycle
from tests.support.kube_builders import gpu_node, node, pod

DRIVER, OTHER = "disk.example.com", "files.example.com"


@pytest.fixture
def pool() -> ClusterCache:
    """Two nodes: n0 takes two volumes of the driver, n1 as many as there are."""
    made = ClusterCache()
    for name in ("n0", "n1"):
        made.note_host(name, NodeFacts.from_json(node(name)))
        made.note_ledger(name, GpuNode.from_json(gpu_node(name)))
    volumes = made.predicates.volumes
    for kind, driver in (("disk", DRIVER), ("files", OTHER)):
        late = {"volumeBindingMode": "WaitForFirstConsumer", "provisioner": driver}
        volumes.note_class({"metadata": {"name": kind}, **late}, False)
    volumes.attaching.note_node(csi_node("n0", {DRIVER: 2}), False)
    volumes.attaching.note_node(csi_node("n1", {DRIVER: None}), False)
    volumes.mark_listed()
    return made


def csi_node(name: str, counts: dict[str, int | None]) -> dict[str, Any]:
    drivers = [
        {
            "name": driver,
            "nodeID": name,
            **({} if count is None else {"allocatable": {"count": count}}),
        }
        for driver, count in counts.items()
    ]
    return {"metadata": {"name": name}, "spec": {"drivers": drivers}}


def attachment(volume: str, name: str = "n0", driver: str = DRIVER) -> dict[str, Any]:
    spec = {"attacher": driver, "nodeName": name, "source": {"persistentVolumeName": volume}}
    return {"metadata": {"name": f"csi-{volume}-{name}"}, "spec": spec}


def claim(pool: ClusterCache, name: str, volume: str = "", kind: str = "disk") -> None:
    """One whose volume is there, or is made when its pod is placed."""
    notes = {"pv.kubernetes.io/bind-completed": "yes"} if volume else {}
    meta = {"name": name, "namespace": "default", "annotations": notes}
    spec = {"storageClassName": kind, "volumeName": volume}
    pool.predicates.volumes.note_claim({"metadata": meta, "spec": spec}, False)
    if volume:
        made = {
            "metadata": {"name": volume},
            "spec": {"csi": {"driver": DRIVER, "volumeHandle": f"id-{volume}"}},
        }
        pool.predicates.volumes.note_volume(made, False)


def asks(name: str, *claims: str, at: str = "n0", bound: bool = False) -> dict[str, Any]:
    """A pod that goes to that node alone."""
    volumes = [{"name": one, "persistentVolumeClaim": {"claimName": one}} for one in claims]
    spec: dict[str, Any] = {"volumes": volumes}
    if bound:
        spec |= {"nodeName": at, "schedulingGates": []}
    else:
        field = {"key": "metadata.name", "operator": "In", "values": [at]}
        required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
        spec["affinity"] = {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}
        }
    return pod(name, spec=spec)


def note(pool: ClusterCache, *pods: dict[str, Any]) -> None:
    for each in pods:
        pool.note_pod(each["metadata"]["uid"], read_pod(each))


def placed(pool: ClusterCache) -> list[str]:
    plan = cycle(pool.take_snapshot(), 0)
    return sorted(
        one.job.partition("/")[0]
        for one in plan_conflicts.fitting_placements(plan.placements, pool)
    )


def why(pool: ClusterCache) -> tuple[str, bool]:
    (uid,) = pool.queue.pod_uids()
    return plan_conflicts.explain_rule(pool.predicates.rule_of(pool.pods[uid]), pool)


def test_a_node_that_has_as_many_as_it_may_takes_no_pod_with_one_more(pool: ClusterCache) -> None:
    for name in ("a", "b"):
        pool.predicates.volumes.attaching.note_attachment(attachment(name), False)
    claim(pool, "new")
    note(pool, asks("p", "new"))
    assert placed(pool) == []
    said, helps = why(pool)
    assert (f"1 too many volumes of {DRIVER}: 2 can be attached there" in said, helps) == (
        True,
        True,
    )
    pool.predicates.volumes.attaching.note_attachment(attachment("a"), True)
    assert placed(pool) == ["uid-p"]


def test_an_attachment_may_be_gone_by_its_name_alone(pool: ClusterCache) -> None:
    """So a list tells of what was deleted while no watch was there."""
    for name in ("a", "b"):
        pool.predicates.volumes.attaching.note_attachment(attachment(name), False)
    claim(pool, "new")
    note(pool, asks("p", "new"))
    assert placed(pool) == []
    gone = {"metadata": {"name": attachment("a")["metadata"]["name"], "uid": "uid-a"}}
    for _ in range(2):
        pool.predicates.volumes.attaching.note_attachment(gone, True)
    assert placed(pool) == ["uid-p"]


def test_a_node_without_a_limit_takes_it(pool: ClusterCache) -> None:
    for name in ("a", "b"):
        pool.predicates.volumes.attaching.note_attachment(attachment(name, "n1"), False)
    claim(pool, "new")
    note(pool, asks("p", "new", at="n1"))
    assert placed(pool) == ["uid-p"]


def test_what_is_there_already_takes_no_further_place_and_is_counted_once(
    pool: ClusterCache,
) -> None:
    claim(pool, "shared", "v")
    claim(pool, "mine", "w")
    note(pool, asks("runs", "shared", bound=True))
    for name in ("v", "w"):
        pool.predicates.volumes.attaching.note_attachment(attachment(name), False)
    note(pool, asks("p", "shared", "mine"))
    assert placed(pool) == ["uid-p"]


def test_what_our_pods_use_counts_before_it_is_attached(pool: ClusterCache) -> None:
    for name in ("a", "b", "c"):
        claim(pool, name)
    note(pool, asks("runs", "a", bound=True), asks("p", "b", "c"))
    assert placed(pool) == []
    note(pool, asks("q", "b"))
    assert placed(pool) == ["uid-q"]


def test_pods_of_one_plan_are_counted_together_and_are_alike_to_the_scheduler(
    pool: ClusterCache,
) -> None:
    for name in ("a", "b", "c"):
        claim(pool, name)
    note(pool, *(asks(f"p-{name}", name) for name in ("a", "b", "c")))
    assert len({pool.predicates.rule_of(one) for one in pool.pods.values()}) == 1
    assert placed(pool) == ["uid-p-a", "uid-p-b"]


def test_a_driver_that_nobody_limits_is_not_looked_at(pool: ClusterCache) -> None:
    for number in range(3):
        claim(pool, f"f{number}", kind="files")
    note(pool, asks("p", "f0", "f1", "f2"))
    assert placed(pool) == ["uid-p"]
    version = pool.predicates.version
    pool.predicates.volumes.attaching.note_attachment(attachment("f0", driver=OTHER), False)
    assert pool.predicates.version == version


@pytest.mark.parametrize("fill", [True, False])
def test_what_changes_while_nobody_asks_counts_for_the_next_who_does(
    pool: ClusterCache, fill: bool
) -> None:
    """The same rule as before, on nodes of which nothing else was noted."""

    def tell(gone: bool) -> None:
        for name in ("a", "b"):
            pool.predicates.volumes.attaching.note_attachment(attachment(name), gone)

    if not fill:
        tell(False)
    claim(pool, "new")
    note(pool, asks("p", "new"))
    assert bool(placed(pool)) is fill
    pool.note_pod("uid-p", None)
    pool.take_snapshot()
    tell(not fill)
    pool.take_snapshot()
    note(pool, asks("q", "new"))
    assert bool(cycle(pool.take_snapshot(), 0).placements) is not fill
