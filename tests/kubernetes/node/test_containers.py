"""Programs in containers compute within their share, whoever they run as, and find their driver in
any image."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gpupool.base.units import GIB, MIB
from gpupool.mechanisms.driver.driver_files import find_simulated_libraries, find_templates
from gpupool.mechanisms.driver.installed_driver import CUDA, NVML
from tests.support.cluster.api import Api
from tests.support.cluster.images import SHELL, Image
from tests.support.cluster.node import RealNode
from tests.support.cluster.pods import has_ended
from tests.support.cluster_pool import fresh
from tests.support.kube_builders import asking, pod
from tests.support.programs_in_images import PLACE, image_of

pytestmark = [
    pytest.mark.root,
    pytest.mark.usefixtures("cards_come_back"),
    pytest.mark.skipif(
        find_templates() is None or find_simulated_libraries() is None,
        reason="gpupool-native is installed without its fence",
    ),
]

TAKES = Path(__file__).parent / "takes_memory.c"
OUT_OF_MEMORY = 2
SAID = re.compile(r"uid (\d+): (\d+) cards, (\d+) MiB, then (\d+)")


@pytest.fixture(scope="module")
def image(real_node: RealNode, tmp_path_factory: pytest.TempPathFactory) -> Image:
    made = image_of(TAKES, tmp_path_factory.mktemp("program"))
    real_node.containerd.load(made)
    return made


@pytest.fixture(scope="module")
def image_of_a_user(real_node: RealNode, tmp_path_factory: pytest.TempPathFactory) -> Image:
    made = image_of(TAKES, tmp_path_factory.mktemp("program"), user="4321:4321")
    real_node.containerd.load(made)
    return made


def create(
    admin: Api,
    pods_path: str,
    name: str,
    image: Image,
    words: list[str],
    claim: dict[str, Any],
    **spec: Any,
) -> None:
    more = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, **spec}
    made = fresh(pod(name, {"main": claim}, spec=more))
    made["metadata"]["namespace"] = pods_path.split("/")[4]
    made["spec"]["containers"][0] |= {"image": image.name, "command": words}
    admin.create(pods_path, made)


def said(admin: Api, pods_path: str, name: str) -> tuple[int, int, int, int]:
    """(uid, cards, MiB taken, what the driver said then)."""
    admin.until(f"{pods_path}/{name}", has_ended)
    text = admin.text(f"{pods_path}/{name}/log")
    found = SAID.search(text)
    assert found, text
    uid, cards, taken, last = (int(one) for one in found.groups())
    return uid, cards, taken, last


def test_a_share_holds_whoever_its_program_runs_as(
    admin: Api, pods_path: str, image: Image, image_of_a_user: Image
) -> None:
    words, claim = [PLACE, "64", "100"], asking(1, 200, GIB)
    create(admin, pods_path, "root", image, words, claim)
    create(
        admin,
        pods_path,
        "told",
        image,
        words,
        claim,
        securityContext={"runAsUser": 1234, "fsGroup": 2000},
    )
    create(admin, pods_path, "image", image_of_a_user, words, claim)
    for name, uid in (("root", 0), ("told", 1234), ("image", 4321)):
        found, cards, taken, last = said(admin, pods_path, name)
        assert (found, cards, last) == (uid, 1, OUT_OF_MEMORY), name
        assert GIB // 2 < taken * MIB < GIB, name


def test_a_whole_card_is_native(admin: Api, pods_path: str, image: Image) -> None:
    create(admin, pods_path, "whole", image, [PLACE, "1024", "100"], asking(1, 1000, None))
    _, cards, taken, last = said(admin, pods_path, "whole")
    assert (cards, last) == (1, OUT_OF_MEMORY)
    assert 40 * GIB < taken * MIB <= 48 * GIB


WRITES = """
cd /run/gpupool
for one in share/limits share/new usage/new /usr/lib64/libcuda.so.1 /usr/lib/*-linux-gnu/libcuda.so.1; do
    if (echo x >> $one) 2>/dev/null; then echo "wrote $one"; fi
done
(echo -n "" >> usage/region) 2>/dev/null && echo "wrote region"
grep -o ' /run/gpupool[^ ]* r[ow],' /proc/self/mountinfo | grep -v simgpu
ls /usr/lib64/libcuda.so.1 /usr/lib64/libnvidia-ml.so.1 /usr/lib/*-linux-gnu/libcuda.so.1
"""


@pytest.mark.parametrize("security", [{}, {"runAsUser": 1234}], ids=["root", "another"])
def test_nothing_of_a_share_can_be_written_but_its_usage_page(
    admin: Api, pods_path: str, security: Mapping[str, int]
) -> None:
    words = ["/bin/sh", "-c", WRITES]
    create(
        admin,
        pods_path,
        "writer",
        SHELL,
        words,
        asking(1, 200, GIB),
        securityContext=dict(security),
    )
    admin.until(f"{pods_path}/writer", has_ended)
    lines = admin.text(f"{pods_path}/writer/log").splitlines()
    assert [one for one in lines if one.startswith("wrote")] == ["wrote region"]
    assert sorted(one.strip() for one in lines if one.startswith(" ")) == [
        "/run/gpupool/share ro,",
        "/run/gpupool/usage ro,",
        "/run/gpupool/usage/region rw,",
    ]
    assert [one.rsplit("/", 1)[1] for one in lines if one.startswith("/usr/lib64/")] == [CUDA, NVML]
    assert sum(one.endswith(f"-linux-gnu/{CUDA}") for one in lines) == 1
