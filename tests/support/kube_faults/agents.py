"""What kubelets and agents do on nodes that are objects alone, over restarts of the API server;
they can be stopped.

A container holds its cards from when its pod is bound and stands in the ledger until a while after
its entry drains. Who holds cards that the ledger does not know any more is what must never be: that
is written down.
"""

from __future__ import annotations

import random
import threading
from typing import Any

from gpupool.kubernetes.ledger import ledger
from gpupool.kubernetes.resources.gpu_node import GpuNode
from tests.support.cluster.api import Api, NotAnsweredError, RefusedError
from tests.support.cluster_pool import POLL_SECONDS, SimulatedAgents

LINGERS = 0.3
"""How likely a container of a pod that is over is still there at the next look."""
Key = tuple[str, str]


class Agents(SimulatedAgents):
    """Of every node in `names`. `broken` grows where something was that must never be."""

    def __init__(self, api: Api, seed: int) -> None:
        super().__init__(api)
        self._chance = random.Random(seed)
        self._held: dict[str, dict[Key, int]] = {}
        """By node, what runs there, with the generation of its entry."""
        self._dead = threading.Event()
        self.broken: list[str] = []
        self.looks = 0

    def kill(self) -> None:
        """All agents and kubelets are away; what runs goes on."""
        self._dead.set()

    def revive(self) -> None:
        self._dead.clear()

    def forget(self, node: str) -> None:
        """The machine is gone with all that ran there."""
        self._held.pop(node, None)

    def _run(self) -> None:
        while not self._ended.wait(POLL_SECONDS):
            if self._dead.is_set():
                continue
            try:
                self._look()
            except NotAnsweredError:
                continue
            except RefusedError as refusal:
                if refusal.status not in (404, 409, 429, 500, 503, 504):
                    self.broken.append(f"an agent is refused: {refusal}")

    def _look(self) -> None:
        pods = {pod["metadata"]["uid"]: pod for pod in self._pods()}
        for read in self._api.get(ledger.NODES)["items"]:
            if read["metadata"]["name"] in self.names:
                self._act(read, pods)
        for pod in pods.values():
            if pod["metadata"].get("deletionTimestamp") and pod["spec"].get("nodeName"):
                self._end(pod)
        self.looks += 1

    def _act(self, read: dict[str, Any], pods: dict[str, dict[str, Any]]) -> None:
        node = GpuNode.from_json(read)
        held = self._held.setdefault(node.name, {})
        if more := ledger.overcommitted_cards(node):
            self.broken.append(
                f"version {node.version} of {node.name} holds more than there is of {', '.join(more)}"
            )
        entries = {entry.key: entry for entry in node.entries}
        self.broken += [
            f"{key} runs on {node.name} and stands in no ledger"
            for key in held.keys() - entries.keys()
        ]
        for key in [key for key in held if key not in entries]:
            del held[key]
        for key, entry in entries.items():
            over = entry.state == "draining"
            bound = pods.get(entry.uid, {"spec": {}})["spec"].get("nodeName") == node.name
            if not over and bound:
                held[key] = entry.generation
            elif over and key in held and self._chance.random() > LINGERS:
                del held[key]
        used = [
            {"uid": uid, "container": container, "generation": generation, "slot": f"s{number:04d}"}
            for number, ((uid, container), generation) in enumerate(sorted(held.items()))
        ]
        self._say(read, used)

    def _say(self, read: dict[str, Any], used: list[dict[str, Any]]) -> None:
        seen, known = read["metadata"]["generation"], read.get("status", {})
        told = [
            {name: value for name, value in one.items() if name != "released"}
            for one in known.get("slots", [])
        ]
        if known.get("observedGeneration") != seen or told != used:
            patch = {"status": {"observedGeneration": seen, "slots": used}}
            self._api.merge(f"{ledger.NODES}/{read['metadata']['name']}/status", patch)

    def _end(self, pod: dict[str, Any]) -> None:
        """The kubelet's last word about a pod that was asked to leave."""
        meta = pod["metadata"]
        self._api.delete(
            f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}?gracePeriodSeconds=0"
        )
