"""A node gets no more volumes than its driver attaches there, each counted once."""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.kubernetes import fitting
from gpupool.kubernetes.hosts import Host
from gpupool.kubernetes.objects import GpuNode
from gpupool.kubernetes.pods import read_pod
from gpupool.kubernetes.pool import Pool
from gpupool.scheduling.cycle import cycle
from tests.support.kube_builders import gpu_node, node, pod

DRIVER, OTHER = "disk.example.com", "files.example.com"


@pytest.fixture
def pool() -> Pool:
    """Two nodes: n0 takes two volumes of the driver, n1 as many as there are."""
    made = Pool()
    for name in ("n0", "n1"):
        made.note_host(name, Host.from_json(node(name)))
        made.note_ledger(name, GpuNode.from_json(gpu_node(name)))
    volumes = made.rules.volumes
    for kind, driver in (("disk", DRIVER), ("files", OTHER)):
        late = {"volumeBindingMode": "WaitForFirstConsumer", "provisioner": driver}
        volumes.note_class({"metadata": {"name": kind}, **late}, False)
    volumes.attaching.note_node(csi_node("n0", {DRIVER: 2}), False)
    volumes.attaching.note_node(csi_node("n1", {DRIVER: None}), False)
    volumes.listed()
    return made


def csi_node(name: str, counts: dict[str, int | None]) -> dict[str, Any]:
    drivers = [
        {"name": driver, "nodeID": name, **({} if count is None else {"allocatable": {"count": count}})}
        for driver, count in counts.items()
    ]
    return {"metadata": {"name": name}, "spec": {"drivers": drivers}}


def attachment(volume: str, name: str = "n0", driver: str = DRIVER) -> dict[str, Any]:
    spec = {"attacher": driver, "nodeName": name, "source": {"persistentVolumeName": volume}}
    return {"metadata": {"name": f"csi-{volume}-{name}"}, "spec": spec}


def claim(pool: Pool, name: str, volume: str = "", kind: str = "disk") -> None:
    """One whose volume is there, or is made when its pod is placed."""
    notes = {"pv.kubernetes.io/bind-completed": "yes"} if volume else {}
    meta = {"name": name, "namespace": "default", "annotations": notes}
    spec = {"storageClassName": kind, "volumeName": volume}
    pool.rules.volumes.note_claim({"metadata": meta, "spec": spec}, False)
    if volume:
        made = {"metadata": {"name": volume}, "spec": {"csi": {"driver": DRIVER, "volumeHandle": f"id-{volume}"}}}
        pool.rules.volumes.note_volume(made, False)


def asks(name: str, *claims: str, at: str = "n0", bound: bool = False) -> dict[str, Any]:
    """A pod that goes to that node alone."""
    volumes = [{"name": one, "persistentVolumeClaim": {"claimName": one}} for one in claims]
    spec: dict[str, Any] = {"volumes": volumes}
    if bound:
        spec |= {"nodeName": at, "schedulingGates": []}
    else:
        field = {"key": "metadata.name", "operator": "In", "values": [at]}
        required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
        spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    return pod(name, spec=spec)


def note(pool: Pool, *pods: dict[str, Any]) -> None:
    for each in pods:
        pool.note_pod(each["metadata"]["uid"], read_pod(each))


def placed(pool: Pool) -> list[str]:
    plan = cycle(pool.snapshot(), 0)
    return sorted(one.job.partition("/")[0] for one in fitting.kept(plan.placements, pool))


def why(pool: Pool) -> tuple[str, bool]:
    (uid,) = pool.queue.uids()
    return fitting.why_nowhere(pool.rules.of(pool.pods[uid]), pool)


def test_a_node_that_has_as_many_as_it_may_takes_no_pod_with_one_more(pool: Pool) -> None:
    for name in ("a", "b"):
        pool.rules.volumes.attaching.note(attachment(name), False)
    claim(pool, "new")
    note(pool, asks("p", "new"))
    assert placed(pool) == []
    said, helps = why(pool)
    assert (f"1 too many volumes of {DRIVER}: 2 can be attached there" in said, helps) == (True, True)
    pool.rules.volumes.attaching.note(attachment("a"), True)
    assert placed(pool) == ["uid-p"]


def test_a_node_without_a_limit_takes_it(pool: Pool) -> None:
    for name in ("a", "b"):
        pool.rules.volumes.attaching.note(attachment(name, "n1"), False)
    claim(pool, "new")
    note(pool, asks("p", "new", at="n1"))
    assert placed(pool) == ["uid-p"]


def test_what_is_there_already_takes_no_further_place_and_is_counted_once(pool: Pool) -> None:
    claim(pool, "shared", "v")
    claim(pool, "mine", "w")
    note(pool, asks("runs", "shared", bound=True))
    for name in ("v", "w"):
        pool.rules.volumes.attaching.note(attachment(name), False)
    note(pool, asks("p", "shared", "mine"))
    assert placed(pool) == ["uid-p"]


def test_what_our_pods_use_counts_before_it_is_attached(pool: Pool) -> None:
    for name in ("a", "b", "c"):
        claim(pool, name)
    note(pool, asks("runs", "a", bound=True), asks("p", "b", "c"))
    assert placed(pool) == []
    note(pool, asks("q", "b"))
    assert placed(pool) == ["uid-q"]


def test_pods_of_one_plan_are_counted_together_and_are_alike_to_the_scheduler(pool: Pool) -> None:
    for name in ("a", "b", "c"):
        claim(pool, name)
    note(pool, *(asks(f"p-{name}", name) for name in ("a", "b", "c")))
    assert len({pool.rules.of(one) for one in pool.pods.values()}) == 1
    assert placed(pool) == ["uid-p-a", "uid-p-b"]


def test_a_driver_that_nobody_limits_is_not_looked_at(pool: Pool) -> None:
    for number in range(3):
        claim(pool, f"f{number}", kind="files")
    note(pool, asks("p", "f0", "f1", "f2"))
    assert placed(pool) == ["uid-p"]
    version = pool.rules.version
    pool.rules.volumes.attaching.note(attachment("f0", driver=OTHER), False)
    assert pool.rules.version == version


@pytest.mark.parametrize("fill", [True, False])
def test_what_changes_while_nobody_asks_counts_for_the_next_who_does(pool: Pool, fill: bool) -> None:
    """The same rule as before, on nodes of which nothing else was noted."""

    def tell(gone: bool) -> None:
        for name in ("a", "b"):
            pool.rules.volumes.attaching.note(attachment(name), gone)

    if not fill:
        tell(False)
    claim(pool, "new")
    note(pool, asks("p", "new"))
    assert bool(placed(pool)) is fill
    pool.note_pod("uid-p", None)
    pool.snapshot()
    tell(not fill)
    pool.snapshot()
    note(pool, asks("q", "new"))
    assert bool(cycle(pool.snapshot(), 0).placements) is not fill
