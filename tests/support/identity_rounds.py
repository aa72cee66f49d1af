"""Who got which cards: pods at once on the real node, each of which writes down what it sees, and
what the ledger gave.

A container writes its share into its termination message, which the kubelet keeps in the pod's
status: what it saw is known also where its log was lost with a containerd that was killed.
"""

from __future__ import annotations

import random
import re
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from gpupool.kubernetes.resources import names
from tests.support.cluster.api import Api, Object
from tests.support.cluster.cluster import Cluster
from tests.support.cluster.images import SHELL
from tests.support.cluster_pool import ClusterPool, NodeParts, fresh
from tests.support.kube_builders import asking, pod

SHARE = "/run/gpupool/share/share.json"
SIZES = (20, 30, 40, 50, 60)
SIDE = 20
NUMBER = "gpupool.test/number"
"""Label of a pod: by it is known what it asked for."""
LIMIT_SECONDS = 900.0
LOOK_SECONDS = 0.5
SEES = re.compile(r'"(uuid|gpu_milli)": "?([^",\n]+)')


@dataclass
class Seen:
    """What containers saw. `wrong`: in words, each that saw another card, or another size, than the
    ledger gave it."""

    rounds: int = 1
    pods: int = 0
    containers: int = 0
    unheard: int = 0
    """Containers of pods that did not succeed and that left no word: they were killed before, or
    never ran."""
    wrong: list[str] = field(default_factory=list)
    killed: Counter[str] = field(default_factory=Counter)

    def add(self, other: Seen) -> None:
        self.rounds += other.rounds
        self.pods, self.containers = self.pods + other.pods, self.containers + other.containers
        self.unheard += other.unheard
        self.wrong += other.wrong
        self.killed += other.killed


def claims_of(number: int) -> dict[str, dict[str, Any]]:
    """Mixed shares; every third pod has two containers with cards, every fourth a second card."""
    cards = 2 if number % 4 == 0 else 1
    side = {"side": asking(1, SIDE, 128 << 20)} if number % 3 == 0 else {}
    return {"main": asking(cards, SIZES[number % 5], 256 << 20), **side}


def writing(name: str, number: int, restarts: str = "Never") -> Object:
    """A pod of which every container writes down what it sees, and ends."""
    spec = {"restartPolicy": restarts, "terminationGracePeriodSeconds": 0}
    made = fresh(pod(name, claims_of(number), spec=spec))
    for container in made["spec"]["containers"]:
        script = f"grep -E 'uuid|gpu_milli' {SHARE} > /dev/termination-log"
        container |= {"image": SHELL.name, "command": ["/bin/sh", "-c", script]}
    return made


def round_of_pods(pool: ClusterPool, pods_path: str, turn: int, count: int = 64) -> Seen:
    """Pods at once, bare ones; all have to succeed. They are gone afterwards, and their cards are
    free."""
    made = {f"p-{turn}-{n}": n for n in range(count)}
    for name, number in made.items():
        pool.admin.create(pods_path, _in(pods_path, writing(name, number)))
    ended = _until(pool, lambda: _ended(pool.admin, pods_path, count), f"{count} pods ended")
    assert {found["status"]["phase"] for found in ended} == {"Succeeded"}, [
        _state(one) for one in ended
    ]
    pool.clear(pods_path, LIMIT_SECONDS)
    return looked_at(ended)


def round_of_jobs(
    pool: ClusterPool, pods_path: str, turn: int, disturbing: Disturbing, count: int = 64
) -> Seen:
    """The same by Jobs, which make a pod anew that the kubelet gave up, while parts of the node are
    killed.

    Their containers are restarted: of a pod that says Never, and whose sandbox is gone while a
    container is created and not started, a kubelet makes no other sandbox and tells no end (1.36.3,
    kuberuntime_manager's computePodActions).
    """
    jobs = pods_path.removesuffix("/pods").replace("/api/v1", "/apis/batch/v1") + "/jobs"
    with disturbing.now() as killed:
        for number in range(count):
            pool.admin.create(jobs, _job(f"j-{turn}-{number}", number))
        _until(pool, lambda: _complete(pool.admin, jobs, count), f"{count} jobs complete")
    pods = pool.admin.get(pods_path)["items"]
    pool.admin.delete(f"{jobs}?propagationPolicy=Background")
    pool.clear(pods_path, LIMIT_SECONDS)
    seen = looked_at(pods)
    seen.killed += killed
    return seen


def looked_at(pods: list[Object]) -> Seen:
    """What their containers saw, compared with what the controller wrote when it let them go."""
    seen = Seen(pods=len(pods))
    for one in pods:
        given = _given(one)
        for name, claim in claims_of(int(one["metadata"]["labels"][NUMBER])).items():
            found = SEES.findall(_told(one, name))
            if not found and one["status"]["phase"] != "Succeeded":
                seen.unheard += 1
                continue
            seen.containers += 1
            cards = sorted(value for key, value in found if key == "uuid")
            sizes = [int(value) for key, value in found if key == "gpu_milli"]
            if cards != given.get(name) or sizes != [claim["gpu_milli"]] * claim["count"]:
                seen.wrong.append(
                    f"{one['metadata']['name']}/{name} saw {cards} {sizes}, was given {given.get(name)}"
                )
    return seen


PARTS = ("kubelet", "containerd", "agent", "plugin")
KILLS = 8
"""In one round: more, and what is measured is how long a Job waits before it makes another pod."""


class Disturbing:
    """Kills kubelet, containerd, agent and plugin at random, by handles of our own, and starts them
    again."""

    def __init__(self, cluster: Cluster, parts: NodeParts, seed: int) -> None:
        self._cluster, self._parts, self._random = cluster, parts, random.Random(seed)
        self._ended = threading.Event()

    @contextmanager
    def now(self) -> Iterator[Counter[str]]:
        """Goes on as long as the block; what was killed how often."""
        killed = Counter[str]()
        self._ended.clear()
        with ThreadPoolExecutor(1) as thread:
            going = thread.submit(self.run, killed)
            try:
                yield killed
            finally:
                self._ended.set()
                going.result()

    def run(self, killed: Counter[str]) -> None:
        """So many kills, or until it is ended; everything runs again then."""
        for _ in range(KILLS):
            victims = self._random.sample(PARTS, self._random.choice((1, 1, 2)))
            if self._ended.wait(self._random.uniform(0.5, 6)):
                break
            for one in victims:
                self._kill(one)
                killed[one] += 1
            self._ended.wait(self._random.uniform(0, 2))
            self._random.shuffle(victims)
            for one in victims:
                self._start(one)
        self._cluster.add_real_node(lambda _: None)

    def _kill(self, what: str) -> None:
        if what in ("kubelet", "containerd"):
            self._cluster.processes.kill(what)
        else:
            _end(self._parts.agent if what == "agent" else self._parts.plugin)

    def _start(self, what: str) -> None:
        if what == "agent":
            self._parts.start_agent()
        elif what == "plugin":
            self._parts.start_plugin()
        else:
            self._cluster.add_real_node(lambda _: None)


def _in(pods_path: str, made: Object) -> Object:
    number = made["metadata"]["name"].rsplit("-", 1)[1]
    labels = {**made["metadata"]["labels"], NUMBER: number}
    return {
        **made,
        "metadata": {**made["metadata"], "namespace": pods_path.split("/")[4], "labels": labels},
    }


def _job(name: str, number: int) -> Object:
    made = writing(name, number, "OnFailure")
    meta = {
        "annotations": made["metadata"]["annotations"],
        "labels": {**made["metadata"]["labels"], NUMBER: str(number)},
    }
    template = {"metadata": meta, "spec": made["spec"]}
    return {"metadata": {"name": name}, "spec": {"backoffLimit": 1000, "template": template}}


def _ended(admin: Api, pods_path: str, count: int) -> list[Object]:
    items: list[Object] = admin.get(pods_path)["items"]
    ended = [one for one in items if one["status"].get("phase") in ("Succeeded", "Failed")]
    return ended if len(ended) == count else []


def _complete(admin: Api, jobs: str, count: int) -> bool:
    items: list[Object] = admin.get(jobs)["items"]
    return sum(int(one["status"].get("succeeded", 0)) for one in items) == count


def _given(found: Object) -> dict[str, list[str]]:
    """By container the cards that the controller noted on the pod when it let it go."""
    said = found["metadata"]["annotations"].get(names.PLACED, ": ").split(": ", 1)[1]
    parts = (part.split(": ", 1) for part in said.split("; ") if part)
    return {name: sorted(re.findall(r"GPU-[0-9a-f-]+", cards)) for name, cards in parts}


def _told(found: Object, container: str) -> str:
    """What it wrote when it ran last, and before; or what the kubelet wrote in its place."""
    for one in found["status"].get("containerStatuses", ()):
        if one["name"] == container:
            ends = [
                one.get(when, {}).get("terminated", {}).get("message", "")
                for when in ("state", "lastState")
            ]
            return next((words for words in ends if SEES.search(words)), "")
    return ""


def _state(found: Object) -> str:
    return f"{found['metadata']['name']}: {found['status'].get('phase')} {found['status'].get('reason', '')}"


def _until(pool: ClusterPool, condition: Callable[[], Any], what: str) -> Any:
    return pool.until(condition, what, LIMIT_SECONDS, LOOK_SECONDS)


def _end(process: subprocess.Popen[bytes] | None) -> None:
    assert process is not None
    process.kill()
    process.wait()
