"""Which container gets which id: not known when ids are handed out, known before each container
starts."""

import itertools
import json
from collections.abc import Callable, Iterator, Sequence

import pytest

from tests.support.cluster.api import Api, Object
from tests.support.cluster.node import NAME, RealNode
from tests.support.cluster.pods import has_ended, pod
from tests.support.device_plugin import DevicePlugin, NotYet

pytestmark = pytest.mark.root

RESOURCE = "gpupool.test/slot"
KIND = "gpupool.test/slot"
SLOTS = ("s0", "s1", "s2", "s3")


class CdiFolder:
    """CDI names that are fresh for every allocation, and the files behind them."""

    def __init__(self, node: RealNode) -> None:
        self._folder = node.cdi
        self._numbers = itertools.count(1)
        self.last: dict[str, str] = {}

    def name(self, device: str) -> str:
        self.last[device] = f"{device}-{next(self._numbers)}"
        return f"{KIND}={self.last[device]}"

    def write(self, device: str, environment: Sequence[str]) -> None:
        """Renamed inside the folder: the runtime notices nothing else, and takes no device without
        an edit."""
        entry = {"name": self.last[device], "containerEdits": {"env": [*environment]}}
        content = json.dumps({"cdiVersion": "0.6.0", "kind": KIND, "devices": [entry]})
        new = self._folder / f"{self.last[device]}.new"
        new.write_text(content)
        new.rename(self._folder / f"{self.last[device]}.json")


@pytest.fixture
def cdi(real_node: RealNode) -> CdiFolder:
    return CdiFolder(real_node)


@pytest.fixture
def plugin(real_node: RealNode, cdi: CdiFolder, admin: Api) -> Iterator[DevicePlugin]:
    """Serving, and its ids counted by the node."""
    made = DevicePlugin(RESOURCE, SLOTS, real_node.kubelet_root, cdi.name)
    with made.serving():
        admin.until(f"/api/v1/nodes/{NAME}", _has_slots(len(SLOTS)))
        yield made
    admin.until(f"/api/v1/nodes/{NAME}", _has_slots(0))


def _has_slots(count: int) -> Callable[[Object], bool]:
    return lambda node: node["status"]["allocatable"].get(RESOURCE) == str(count)


def test_the_pod_is_unknown_at_allocate_and_known_before_it_starts(
    admin: Api, pods_path: str, plugin: DevicePlugin, cdi: CdiFolder
) -> None:
    plugin.before_start = lambda ids: cdi.write(ids[0], ["CARD=7"])
    admin.create(
        pods_path, pod("p", command=["/bin/sh", "-c", "echo card $CARD"], limits={RESOURCE: "1"})
    )
    found = admin.until(f"{pods_path}/p", has_ended)
    assert found["status"]["phase"] == "Succeeded"
    assert admin.text(f"{pods_path}/p/log") == "card 7\n"
    allocate, start = plugin.seen
    namespace = found["metadata"]["namespace"]
    assert (allocate.call, allocate.pods) == ("Allocate", ())
    assert (start.call, start.pods) == ("PreStartContainer", (f"{namespace}/p/main",))
    assert allocate.ids == start.ids


def test_a_refused_start_waits_with_its_words_and_is_asked_again(
    admin: Api, pods_path: str, plugin: DevicePlugin, cdi: CdiFolder
) -> None:
    def refuse(ids: Sequence[str]) -> None:
        raise NotYet("no card is placed for it yet")

    plugin.before_start = refuse
    admin.create(pods_path, pod("p", limits={RESOURCE: "1"}))
    waiting = admin.until(
        f"{pods_path}/p", lambda p: "no card is placed for it yet" in json.dumps(p["status"])
    )
    assert (
        waiting["status"]["containerStatuses"][0]["state"]["waiting"]["reason"]
        == "CreateContainerConfigError"
    )
    plugin.before_start = lambda ids: cdi.write(ids[0], ["A=1"])
    assert admin.until(f"{pods_path}/p", has_ended)["status"]["phase"] == "Succeeded"
    assert [seen.call for seen in plugin.seen].count("Allocate") == 1


def test_pods_at_once_have_ids_of_their_own(
    admin: Api, pods_path: str, plugin: DevicePlugin, cdi: CdiFolder
) -> None:
    plugin.before_start = lambda ids: cdi.write(ids[0], [f"SLOT={ids[0]}"])
    names = [f"p{number}" for number in range(len(SLOTS))]
    command = ["/bin/sh", "-c", "echo $SLOT; sleep 600"]
    for name in names:
        admin.create(pods_path, pod(name, command=command, limits={RESOURCE: "1"}))
    for name in names:
        admin.until(f"{pods_path}/{name}", lambda p: p["status"].get("phase") == "Running")
    given = {name: admin.text(f"{pods_path}/{name}/log").strip() for name in names}
    assert sorted(given.values()) == sorted(SLOTS)
    started = {
        seen.pods[0].split("/")[1]: seen.ids[0]
        for seen in plugin.seen
        if seen.call == "PreStartContainer"
    }
    assert started == given
    for name in names:
        admin.delete(f"{pods_path}/{name}")
        admin.until_gone(f"{pods_path}/{name}")


def test_two_containers_of_a_pod_are_told_apart(
    admin: Api, pods_path: str, plugin: DevicePlugin, cdi: CdiFolder
) -> None:
    plugin.before_start = lambda ids: cdi.write(ids[0], ["A=1"])
    wanted = pod("p", limits={RESOURCE: "1"})
    wanted["spec"]["containers"].append({**wanted["spec"]["containers"][0], "name": "second"})
    namespace = admin.create(pods_path, wanted)["metadata"]["namespace"]
    admin.until(f"{pods_path}/p", has_ended)
    holders = {seen.pods: seen.ids for seen in plugin.seen if seen.call == "PreStartContainer"}
    assert sorted(holders) == [(f"{namespace}/p/main",), (f"{namespace}/p/second",)]
    assert len(set(holders.values())) == 2
