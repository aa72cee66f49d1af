"""Node agents without nodes: they report which version of a ledger they have seen and who uses a
slot, for any number.

One watch of all ledgers and one of all managed pods stand for one of each node's own. What an agent
writes is what the real one writes, and as often: its node's status, when its ledger has changed or
a pod of it was bound or is gone.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from gpupool.base.errors import ApiServerRejection, ServiceUnavailable
from gpupool.kubernetes.client.api import KubeApi
from gpupool.kubernetes.client.informer import watch_objects
from gpupool.kubernetes.client.write_throttle import WriteThrottle
from gpupool.kubernetes.ledger import ledger
from gpupool.kubernetes.resources import names
from gpupool.kubernetes.resources.gpu_node import EntryState, read_entries

WRITERS = 4
Object = dict[str, Any]


class Agents:
    """`await run()` until it is cancelled; `writes` counts what they cost the API server."""

    def __init__(self, api: KubeApi) -> None:
        self._api = api
        self._ledgers: dict[str, Object] = {}
        self._bound: defaultdict[str, set[str]] = defaultdict(set)
        """By node the pods that run there."""
        self._at: dict[str, str] = {}
        self._due: asyncio.Queue[str] = asyncio.Queue()
        self._queued: set[str] = set()
        self._paces: defaultdict[str, WriteThrottle] = defaultdict(
            lambda: WriteThrottle(time.monotonic)
        )
        self.writes = 0

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            pods = {"labelSelector": f"{names.MANAGED}=true"}
            tasks.create_task(
                watch_objects(self._api, ledger.NODES, self._note_ledger, lambda: None)
            )
            tasks.create_task(
                watch_objects(self._api, "/api/v1/pods", self._note_pod, lambda: None, query=pods)
            )
            for _ in range(WRITERS):
                tasks.create_task(self._write_on())

    async def all_told(self) -> bool:
        """Whether every report says what is known."""
        return not self._queued and not any(
            _differs(node, self._bound[name]) for name, node in self._ledgers.items()
        )

    def held(self) -> int:
        """Entries in all ledgers."""
        return sum(len(read_entries(node["spec"])) for node in self._ledgers.values())

    def _note_ledger(self, found: Object, gone: bool) -> None:
        name = found["metadata"]["name"]
        if gone:
            self._ledgers.pop(name, None)
        else:
            self._ledgers[name] = found
            self._look(name)

    def _note_pod(self, found: Object, gone: bool) -> None:
        uid, node = found["metadata"]["uid"], found["spec"].get("nodeName", "")
        if gone:
            node = self._at.pop(uid, "")
            self._bound[node].discard(uid)
        elif node and uid not in self._at:
            self._at[uid] = node
            self._bound[node].add(uid)
        else:
            return
        self._look(node)

    def _look(self, name: str) -> None:
        if (
            name not in self._queued
            and name in self._ledgers
            and _differs(self._ledgers[name], self._bound[name])
        ):
            self._queued.add(name)
            asyncio.get_running_loop().call_later(
                self._paces[name].seconds_to_wait(), self._due.put_nowait, name
            )

    async def _write_on(self) -> None:
        while True:
            name = await self._due.get()
            self._queued.discard(name)
            if name in self._ledgers and (
                wanted := _differs(self._ledgers[name], self._bound[name])
            ):
                self.writes += 1
                try:
                    await self._api.patch(f"{ledger.NODES}/{name}/status", {"status": wanted})
                    self._paces[name].note_write()
                except ServiceUnavailable:
                    self._look(name)
                except ApiServerRejection as refusal:
                    if not refusal.is_not_found:
                        raise


def _differs(node: Object, bound: set[str]) -> Object | None:
    """What the node's agent has to report; None where that stands there already."""
    used = [
        {
            "uid": one.uid,
            "container": one.container,
            "generation": one.generation,
            "slot": f"s{n:04d}",
        }
        for n, one in enumerate(read_entries(node["spec"]))
        if one.uid in bound and one.state is not EntryState.DRAINING
    ]
    status, seen = node.get("status") or {}, node["metadata"]["generation"]
    if status.get("observedGeneration") == seen and _uses(status.get("slots") or ()) == _uses(used):
        return None
    return {"observedGeneration": seen, "slots": used}


def _uses(slots: Iterable[Object]) -> set[tuple[str, str, int]]:
    return {(one["uid"], one["container"], one["generation"]) for one in slots}
