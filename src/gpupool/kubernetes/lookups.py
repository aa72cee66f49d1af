"""What is watched only while somebody who waits asks for it: volumes and their claims, and all bound pods.

Most clusters' askers of cards need neither. Claims, volumes and classes are small, so they are watched from the first
pod on that has a claim. All bound pods may be many: they are forgotten when nobody has asked for a while.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from functools import partial

from gpupool.kubernetes.api import KubeApi
from gpupool.kubernetes.pool import Pool
from gpupool.kubernetes.watch import keep

FORGET_SECONDS = 600.0
_STORAGE = "/apis/storage.k8s.io/v1"
_BOUND = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"


class Lookups:
    """`wake` is called when an answer may be another one; `run` never returns."""

    def __init__(self, api: KubeApi, pool: Pool, wake: Callable[[], None]) -> None:
        self._api, self._pool, self._wake = api, pool, wake
        self._volumes, self._around = asyncio.Event(), asyncio.Event()
        self._asked = 0.0

    def note(self) -> None:
        """After a round: what those who wait ask for."""
        pool = self._pool
        waiting = [pool.pods[uid] for uid in (*pool.held_up, *pool.queue.uids())]
        if any(pod.needs.claims for pod in waiting):
            self._volumes.set()
        if pool.rules.asks_around(waiting):
            self._asked = time.monotonic()
            self._around.set()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._keep_volumes())
            tasks.create_task(self._keep_around())

    async def _keep_volumes(self) -> None:
        await self._volumes.wait()
        volumes = self._pool.rules.volumes
        await self._all(
            volumes.listed,
            ("/api/v1/persistentvolumeclaims", volumes.note_claim, {}),
            ("/api/v1/persistentvolumes", volumes.note_volume, {}),
            (f"{_STORAGE}/storageclasses", volumes.note_class, {}),
            (f"{_STORAGE}/csinodes", volumes.attaching.note_node, {}),
            (f"{_STORAGE}/volumeattachments", volumes.attaching.note, {}),
        )

    async def _keep_around(self) -> None:
        around = self._pool.rules.around
        while True:
            await self._around.wait()
            watching = asyncio.ensure_future(
                self._all(
                    around.listed,
                    ("/api/v1/pods", around.note, {"fieldSelector": _BOUND}),
                    ("/api/v1/namespaces", around.note_space, {}),
                )
            )
            try:
                while (left := self._asked + FORGET_SECONDS - time.monotonic()) > 0:
                    await asyncio.wait({watching}, timeout=left)
                    if watching.done():
                        watching.result()
            finally:
                watching.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await watching
            self._around.clear()
            around.forget()

    async def _all(self, listed: Callable[[], None], *watches: tuple[str, Callable[..., None], dict[str, str]]) -> None:
        """Watch these; `listed` once each of them has been listed whole."""
        missing = {path for path, _, _ in watches}

        def synced(path: str) -> None:
            if path in missing:
                missing.discard(path)
                if not missing:
                    listed()
            self._wake()

        async with asyncio.TaskGroup() as tasks:
            for path, note, query in watches:
                tasks.create_task(keep(self._api, path, self._waking(note), partial(synced, path), query=query))

    def _waking(self, note: Callable[..., None]) -> Callable[..., None]:
        """The same, and a round is due where that changed an answer."""

        def noted(*what: object) -> None:
            version = self._pool.rules.version
            note(*what)
            if self._pool.rules.version != version:
                self._wake()

        return noted
