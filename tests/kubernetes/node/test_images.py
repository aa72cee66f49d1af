"""Images in which a share cannot be fenced are refused before their program runs, and everybody is
told why."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any

import pytest

from gpupool.base.errors import ImageRejection
from gpupool.base.units import GIB
from gpupool.mechanisms.driver.driver_files import find_simulated_libraries, find_templates
from tests.support.cluster.api import Api, Object
from tests.support.cluster.cluster import Cluster
from tests.support.cluster.images import SHELL, Image
from tests.support.cluster.node import RealNode
from tests.support.cluster.pods import has_ended
from tests.support.cluster_pool import fresh
from tests.support.kube_builders import asking, pod
from tests.support.kube_people import People

pytestmark = [
    pytest.mark.root,
    pytest.mark.usefixtures("cards_come_back"),
    pytest.mark.skipif(
        find_templates() is None or find_simulated_libraries() is None,
        reason="gpupool-native is installed without its fence",
    ),
]

WHERE = "use an image with glibc (Debian, Ubuntu, UBI), or ask for a whole card"
MUSL = f"the image has musl and no glibc, and the fence of a share is built for glibc; {WHERE}"
OLD = "the image has glibc 2.12, and the fence of a share needs 2."


@pytest.fixture(scope="module")
def musl(real_node: RealNode, tmp_path_factory: pytest.TempPathFactory) -> Image:
    """As Alpine's is laid out; its program is static, so that it runs where it may."""
    loader = tmp_path_factory.mktemp("musl") / "loader"
    loader.write_bytes(b"\x7fELF")
    loader.chmod(0o755)
    made = Image("gpupool.test/musl:1", files={f"/lib/ld-musl-{platform.machine()}.so.1": loader})
    real_node.containerd.load(made)
    return made


@pytest.fixture(scope="module")
def old(real_node: RealNode, tmp_path_factory: pytest.TempPathFactory) -> Image:
    """As Red Hat lays its images out, with a C library of 2010 by its names."""
    library = tmp_path_factory.mktemp("old") / "libc.so.6"
    library.write_bytes(Path("/proc/self/exe").read_bytes()[:64] + b"\0GLIBC_2.2.5\0GLIBC_2.12\0")
    made = Image("gpupool.test/old:1", files={"/usr/lib64/libc.so.6": library})
    real_node.containerd.load(made)
    return made


def create(
    admin: Api, pods_path: str, name: str, image: Image, claim: dict[str, Any], again: str = "Never"
) -> None:
    spec = {"restartPolicy": again, "terminationGracePeriodSeconds": 0}
    made = fresh(pod(name, {"main": claim}, spec=spec))
    made["metadata"]["namespace"] = pods_path.split("/")[4]
    made["spec"]["containers"][0] |= {"image": image.name, "command": ["/bin/echo", "it ran"]}
    admin.create(pods_path, made)


def last_start(found: Object) -> Object:
    """What the kubelet says of a start that failed; {} as long as none has."""
    (status,) = found["status"].get("containerStatuses") or ({},)
    return (
        (status.get("state") or {}).get("terminated")
        or (status.get("lastState") or {}).get("terminated")
        or {}
    )


def test_a_share_in_an_image_with_musl_is_refused_with_the_reason(
    cluster: Cluster, admin: Api, pods_path: str, musl: Image
) -> None:
    create(admin, pods_path, "musl", musl, asking(1, 200, GIB), again="Always")
    found = admin.until(f"{pods_path}/musl", lambda one: bool(last_start(one)))
    assert f"{ImageRejection.code}: {MUSL}" in last_start(found)["message"]
    assert "it ran" not in admin.text(f"{pods_path}/musl/log")
    events = admin.get(
        f"{pods_path.removesuffix('/pods')}/events?fieldSelector=involvedObject.name=musl"
    )["items"]
    assert any(MUSL in one["message"] for one in events)
    why = People(cluster.kubeconfig).ok("why", f"{found['metadata']['namespace']}/musl")
    assert f"{ImageRejection.code}: {MUSL}" in why


def test_a_share_in_an_image_with_an_old_glibc_is_refused_with_the_numbers(
    admin: Api, pods_path: str, old: Image
) -> None:
    create(admin, pods_path, "old", old, asking(1, 200, GIB))
    found = admin.until(f"{pods_path}/old", has_ended)
    assert found["status"]["phase"] == "Failed"
    assert OLD in last_start(found)["message"]


def test_what_is_not_fenced_or_cannot_load_a_driver_runs(
    admin: Api, pods_path: str, musl: Image
) -> None:
    create(admin, pods_path, "whole", musl, asking(1, 1000, None))
    create(admin, pods_path, "static", SHELL, asking(1, 200, GIB))
    for name in ("whole", "static"):
        assert admin.until(f"{pods_path}/{name}", has_ended)["status"]["phase"] == "Succeeded", name
        assert admin.text(f"{pods_path}/{name}/log") == "it ran\n"
