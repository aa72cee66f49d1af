"""What a pod asks beside its cards is counted as kube-scheduler counts it, with sidecars and what
runs before."""

from __future__ import annotations

from typing import Any

from gpupool.base.units import GIB
from gpupool.kubernetes.resources.pod import read_pod
from gpupool.kubernetes.resources.pod_constraints import sum_resources
from gpupool.kubernetes.resources.pod_requests import read_requests
from tests.support.kube_builders import pod


def container(cpu: str, memory: str, **more: Any) -> dict[str, Any]:
    return {"name": "c", "resources": {"requests": {"cpu": cpu, "memory": memory}}, **more}


def test_processors_and_memory_are_counted_as_the_scheduler_counts_them() -> None:
    apps = [container("1", "1Gi"), container("500m", "1Gi")]
    assert read_requests({"containers": apps}) == (1500, 2 * GIB)
    heavy_start = [container("4", "512Mi")]
    assert read_requests({"containers": apps, "initContainers": heavy_start}) == (4000, 2 * GIB)
    sidecar = container("2", "1Gi", restartPolicy="Always")
    assert read_requests({"containers": apps, "initContainers": [sidecar]}) == (3500, 3 * GIB)
    assert read_requests({"containers": apps, "initContainers": [sidecar, *heavy_start]}) == (
        6000,
        3 * GIB,
    )
    assert read_requests({"containers": apps, "overhead": {"cpu": "100m"}}) == (1600, 2 * GIB)


def test_a_limit_alone_is_a_request() -> None:
    assert read_requests({"containers": [{"resources": {"limits": {"cpu": "2"}}}]}) == (2000, 0)


def test_pods_that_differ_in_a_sidecar_alone_are_not_of_one_kind() -> None:
    """What is remembered of a kind knows whether a container runs beside the others or before
    them."""

    def asks(**more: str) -> tuple[int, int]:
        read = read_pod(pod(spec={"initContainers": [container("2", "1Gi", **more)]}))
        return read.cpu_milli, read.host_bytes

    assert asks() == asks(restartPolicy="Always")
    made = pod()
    made["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "1"}

    def beside(**more: str) -> int:
        return read_pod(
            {**made, "spec": {**made["spec"], "initContainers": [container("2", "1Gi", **more)]}}
        ).cpu_milli

    assert (beside(), beside(restartPolicy="Always")) == (2000, 3000)


def test_requests_of_the_whole_pod_replace_the_sum_of_its_containers() -> None:
    """KEP-2837; kube-scheduler counts those, and the overhead on top."""
    spec = {
        "containers": [container("1", "1Gi"), container("1", "1Gi")],
        "resources": {"requests": {"cpu": "8", "hugepages-2Mi": "4Mi"}},
        "overhead": {"cpu": "100m"},
    }
    assert read_requests(spec) == (8100, 2 * GIB)
    assert sum_resources(spec) == (("hugepages-2Mi", 4 << 20),)
    whole = read_pod(pod(spec={"resources": {"requests": {"cpu": "8", "memory": "32Gi"}}}))
    assert (whole.cpu_milli, whole.host_bytes) == (8000, 32 * GIB)
    assert read_pod(pod()).cpu_milli == 0
