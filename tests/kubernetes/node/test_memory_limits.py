"""A container whose program avoids the fence meets the memory limit of its card's driver."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gpupool.base.units import GIB, MIB
from gpupool.kubernetes.ledger import ledger
from gpupool.mechanisms.driver.driver_files import find_simulated_libraries, find_templates
from gpupool.probes.document import FORMAT
from gpupool.probes.document_writer import write_machine
from gpupool.probes.simulated import parse_sim
from tests.kubernetes.node.conftest import CARDS
from tests.support.cluster.api import Api, Object
from tests.support.cluster.images import Image
from tests.support.cluster.node import NAME, RealNode
from tests.support.cluster.pods import has_ended
from tests.support.cluster_pool import ClusterPool, NodeParts, fresh
from tests.support.kube_builders import asking, pod
from tests.support.programs_in_images import PLACE, image_of

pytestmark = [
    pytest.mark.root,
    pytest.mark.usefixtures("cards_come_back", "limiting_driver"),
    pytest.mark.skipif(
        find_templates() is None or find_simulated_libraries() is None,
        reason="gpupool-native is installed without its fence",
    ),
    pytest.mark.skipif(
        Path("/sys/fs/cgroup/cgroup.controllers").exists(),
        reason="here containers have cgroup namespaces, which the simulated driver does not know",
    ),
]

NODE = f"{ledger.NODES}/{NAME}"
PROGRAM = Path(__file__).with_name("takes_memory.c")
SHARE = GIB
STEP_MIB = 64
#: More than the share: the program ends at the limit, not at the end of its words.
MOST = 64
RELEASE = "615.71.09"
OWN = "/own/libcuda.so.1"


@pytest.fixture(scope="module")
def limiting_driver(
    pool: ClusterPool, parts: NodeParts, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """The node's simulated cards have a driver with limits by cgroup."""
    (machine,) = parse_sim(f"{CARDS}xL40S")
    place = tmp_path_factory.mktemp("machine") / "machine.json"
    newer = [replace(card, driver_version=RELEASE) for card in machine.devices]
    entry = write_machine(replace(machine, name="limited", devices=tuple(newer)))
    place.write_text(json.dumps({"format": FORMAT, "machines": [entry]}))
    before = read_cards(pool.admin)
    parts.restart_agent(str(place))
    pool.until(lambda: read_cards(pool.admin) != before, "cards of the other driver")
    yield
    parts.restart_agent(f"{CARDS}xL40S")
    pool.until(lambda: read_cards(pool.admin) == before, "the cards of before")


def read_cards(admin: Api) -> list[str]:
    return [card["uuid"] for card in admin.get(NODE)["status"]["cards"]]


@pytest.fixture(scope="module")
def image(real_node: RealNode, tmp_path_factory: pytest.TempPathFactory) -> Image:
    """The program, and a copy of the driver's library that is the tenant's own."""
    made = image_of(PROGRAM, tmp_path_factory.mktemp("program"))
    libraries = find_simulated_libraries()
    assert libraries is not None
    made = replace(
        made,
        name="gpupool.test/own-driver:1",
        files={**made.files, OWN: libraries / "libcuda.so.1"},
    )
    real_node.containerd.load(made)
    return made


def begin(
    admin: Api,
    pods_path: str,
    name: str,
    image: Image,
    *words: str,
    own: bool,
    restarts: str = "Never",
) -> None:
    spec = {"restartPolicy": restarts, "terminationGracePeriodSeconds": 0}
    made = fresh(pod(name, {"main": asking(1, 200, SHARE)}, spec=spec))
    made["metadata"]["namespace"] = pods_path.split("/")[4]
    container = made["spec"]["containers"][0]
    container |= {"image": image.name, "command": [PLACE, str(STEP_MIB), str(MOST), *words]}
    if own:
        container["env"] = [{"name": "LD_LIBRARY_PATH", "value": str(Path(OWN).parent)}]
    admin.create(pods_path, made)


def read_taken(admin: Api, pods_path: str, name: str, words: str = "") -> int:
    """Return the MiB that the program had when it was refused."""
    admin.until(f"{pods_path}/{name}", has_ended)
    log = admin.text(f"{pods_path}/{name}/log")
    found = re.search(r"(\d+) MiB, then 2\n", log)
    assert found is not None, f"{log}\n{words}"
    return int(found.group(1))


def read_limits(parts: NodeParts) -> list[str]:
    """Return the limits that the simulated driver has, a line each."""
    place = parts.place / "state" / "simgpu" / NAME / "machine.limits"
    return place.read_text().splitlines()[1:]


def read_slot(admin: Api, uid: str) -> Object | None:
    return next((one for one in admin.get(NODE)["status"]["slots"] if one["uid"] == uid), None)


def test_program_with_its_own_driver_library_ends_at_the_limit(
    admin: Api, pods_path: str, image: Image, parts: NodeParts
) -> None:
    begin(admin, pods_path, "own", image, own=True)
    begin(admin, pods_path, "fenced", image, own=False)
    taken = read_taken(admin, pods_path, "own", parts.log())
    assert 0 < taken * MIB <= SHARE, parts.log()
    # The limit is the share and one context: what obeys the fence meets the fence's limit first.
    assert read_taken(admin, pods_path, "fenced") <= taken


def test_node_reports_that_the_driver_holds_the_memory(
    pool: ClusterPool, admin: Api, pods_path: str, image: Image, parts: NodeParts
) -> None:
    begin(admin, pods_path, "stays", image, "stay", own=False)
    found = admin.until(f"{pods_path}/stays", lambda one: one["status"].get("phase") == "Running")
    uid = found["metadata"]["uid"]

    def is_hard() -> bool:
        slot = read_slot(admin, uid)
        return slot is not None and slot.get("memoryLevel") == "hard"

    pool.until(is_hard, f"memory that the driver holds\n{parts.log()}")
    limits = parts.place / "state" / "simgpu" / NAME / "machine.limits"
    assert len(limits.read_text().splitlines()) == 2, (
        "a first line, and one of the container's card"
    )
    admin.delete(f"{pods_path}/stays?gracePeriodSeconds=0")
    pool.until(lambda: read_slot(admin, uid) is None, "nothing of the container on record")
    assert read_limits(parts) == []


def test_container_that_starts_again_is_limited_again(
    admin: Api, pods_path: str, image: Image, parts: NodeParts
) -> None:
    begin(admin, pods_path, "again", image, own=True, restarts="Always")

    def is_over(found: Object) -> bool:
        statuses = found["status"].get("containerStatuses") or [{}]
        return bool(
            statuses[0].get("restartCount", 0) >= 1 and "running" not in statuses[0]["state"]
        )

    admin.until(f"{pods_path}/again", is_over)
    log = admin.text(f"{pods_path}/again/log")
    assert re.search(r"MiB, then 2\n", log), f"{log}\n{parts.log()}"
    assert len(read_limits(parts)) <= 1, "the cgroup of the first container has no limit any more"
