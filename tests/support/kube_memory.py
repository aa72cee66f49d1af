"""An API server in memory for one controller: lists, watches, patches of ledgers and releases, in
the order of a test.

Every write is told to the watches before its answer, as a real one mostly does. It refuses nothing.
"""

from __future__ import annotations

import asyncio
import copy
from collections import defaultdict
from collections.abc import AsyncIterator
from typing import Any

from gpupool.kubernetes.client.api import KubeApi

Object = dict[str, Any]


class MemoryApi(KubeApi):
    """Objects by path; `writes` are what was asked for, in order: seconds of the loop, method and
    path."""

    def __init__(self) -> None:
        self.requests = 0
        self.objects: dict[str, Object] = {}
        self.writes: list[tuple[float, str, str]] = []
        self._version = 1
        self._watches: defaultdict[str, list[asyncio.Queue[tuple[str, Object]]]] = defaultdict(list)

    def put(self, path: str, made: Object) -> Object:
        """As somebody else writes it; `path` names the object."""
        self._version += 1
        made["metadata"] |= {
            "resourceVersion": str(self._version),
            "uid": made["metadata"].get("uid", path),
        }
        kind = "MODIFIED" if path in self.objects else "ADDED"
        self.objects[path] = made
        for watch in self._watches[_collection(path)]:
            watch.put_nowait((kind, copy.deepcopy(made)))
        return copy.deepcopy(made)

    async def list_objects(self, path: str, **_: str) -> tuple[list[Object], str]:
        found = [
            copy.deepcopy(one) for key, one in self.objects.items() if _collection(key) == path
        ]
        return found, str(self._version)

    async def watch_changes(
        self, path: str, version: str, **_: str
    ) -> AsyncIterator[tuple[str, Object]]:
        watch: asyncio.Queue[tuple[str, Object]] = asyncio.Queue()
        self._watches[path].append(watch)
        while True:
            yield await watch.get()

    async def request(self, method: str, path: str, body: Any = None, **_: Any) -> Object:
        if method == "GET":
            return copy.deepcopy(self.objects[path])
        self.writes.append((asyncio.get_running_loop().time(), method, path))
        of_status, path = path.endswith("/status"), path.removesuffix("/status")
        if path not in self.objects:
            return {"metadata": {}}
        made = copy.deepcopy(self.objects[path])
        if isinstance(body, list):
            _apply(made, body)
            if not of_status:
                made["metadata"]["generation"] += 1
        else:
            _merge(made, body)
        answer = self.put(path, made)
        for _turn in range(10):  # the watch is read before the answer is
            await asyncio.sleep(0)
        return answer


def _apply(made: Object, operations: list[Object]) -> None:
    for one in operations:
        if one["op"] == "add":
            *way, last = one["path"].strip("/").split("/")
            place = made
            for step in way:
                place = place[step]
            place[last] = one["value"]


def _merge(made: Object, patch: Object) -> None:
    """RFC 7386."""
    for key, value in patch.items():
        if value is None:
            made.pop(key, None)
        elif isinstance(value, dict):
            _merge(made.setdefault(key, {}), value)
        else:
            made[key] = value


def _collection(path: str) -> str:
    """Where an object is listed; namespaced ones by all namespaces together."""
    parts = path.rpartition("/")[0].split("/namespaces/")
    return parts[0] if len(parts) == 1 else f"{parts[0]}/{parts[1].partition('/')[2]}"
