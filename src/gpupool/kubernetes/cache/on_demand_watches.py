"""Watches volumes and bound pods, but only while a waiting pod needs them.

Most pods that request GPUs need neither. Claims, volumes and classes are small, so they are watched
from the first pod with a claim on. All bound pods may be many: they are forgotten after ten minutes
without a pod that needs them.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from functools import partial

from gpupool.kubernetes.cache.cluster import ClusterCache
from gpupool.kubernetes.client.api import KubeApi
from gpupool.kubernetes.client.informer import watch_objects

#: Seconds without a pod that needs the other pods, after which these are forgotten.
FORGET_SECONDS = 600.0
_STORAGE = "/apis/storage.k8s.io/v1"
#: Pods that use their node: bound and not over, as kube-scheduler counts them.
_BOUND = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"


class OnDemandWatches:
    """The watches of one leader. `wake` requests a reconciliation."""

    def __init__(self, api: KubeApi, cluster: ClusterCache, wake: Callable[[], None]) -> None:
        self._api = api
        self._cluster = cluster
        self._wake = wake
        self._volumes = asyncio.Event()
        self._around = asyncio.Event()
        self._asked = 0.0

    def note_waiting_pods(self) -> None:
        """Start the watches that waiting pods need; called after each reconciliation."""
        cluster = self._cluster
        waiting = [cluster.pods[uid] for uid in (*cluster.unplaceable, *cluster.queue.pod_uids())]
        if any(pod.needs.claims for pod in waiting):
            self._volumes.set()
        if cluster.predicates.depend_on_pods(waiting):
            self._asked = time.monotonic()
            self._around.set()

    async def run(self) -> None:
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._keep_volumes())
            tasks.create_task(self._keep_around())

    async def _keep_volumes(self) -> None:
        await self._volumes.wait()
        volumes = self._cluster.predicates.volumes
        await self._watch_kinds(
            volumes.mark_listed,
            ("/api/v1/persistentvolumeclaims", volumes.note_claim, {}),
            ("/api/v1/persistentvolumes", volumes.note_volume, {}),
            (f"{_STORAGE}/storageclasses", volumes.note_class, {}),
            (f"{_STORAGE}/csinodes", volumes.attaching.note_node, {}),
            (f"{_STORAGE}/volumeattachments", volumes.attaching.note_attachment, {}),
        )

    async def _keep_around(self) -> None:
        around = self._cluster.predicates.around
        while True:
            await self._around.wait()
            watching = asyncio.ensure_future(
                self._watch_kinds(
                    around.mark_listed,
                    ("/api/v1/pods", around.note_pod, {"fieldSelector": _BOUND}),
                    ("/api/v1/namespaces", around.note_namespace, {}),
                )
            )
            try:
                while (left := self._asked + FORGET_SECONDS - time.monotonic()) > 0:
                    await asyncio.wait({watching}, timeout=left)
                    # A watch never ends by itself: what ended it is raised here.
                    if watching.done():
                        watching.result()
            finally:
                watching.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await watching
            self._around.clear()
            around.forget_pods()

    async def _watch_kinds(
        self, listed: Callable[[], None], *watches: tuple[str, Callable[..., None], dict[str, str]]
    ) -> None:
        """Watch these kinds; call `listed` once each of them has been listed."""
        missing = {path for path, _, _ in watches}

        def note_listed(path: str) -> None:
            # Answers from a part of the lists would be wrong: a claim may name a volume or a class
            # of a list that is still missing.
            if path in missing:
                missing.discard(path)
                if not missing:
                    listed()
            self._wake()

        async with asyncio.TaskGroup() as tasks:
            for path, note, query in watches:
                tasks.create_task(
                    watch_objects(
                        self._api,
                        path,
                        self._wake_after(note),
                        partial(note_listed, path),
                        query=query,
                    )
                )

    def _wake_after(self, note: Callable[..., None]) -> Callable[..., None]:
        """Return a handler that also requests a reconciliation where `note` changed an answer."""

        def note_and_wake(*what: object) -> None:
            version = self._cluster.predicates.version
            note(*what)
            if self._cluster.predicates.version != version:
                self._wake()

        return note_and_wake
