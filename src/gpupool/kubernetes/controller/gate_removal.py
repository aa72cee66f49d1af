"""Releases pods that have all their cards in a ledger and still have the scheduling gate.

Releases run beside the reconciliations, a few at a time: the next plan is made and written while
pods of the last one are released. A release names the version that was read. If the pod has changed
meanwhile, its next version is tried. A pod whose entry another controller may have withdrawn is not
released.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Protocol

from gpupool.base.errors import ApiServerRejection, GpupoolError
from gpupool.base.silence import mark_busy
from gpupool.base.supervision import watched_task
from gpupool.kubernetes.cache.cluster import ClusterCache
from gpupool.kubernetes.client.api import ROUND_SECONDS, KubeApi, create_backoff
from gpupool.kubernetes.controller import plan_entries, release_patch
from gpupool.kubernetes.reporting.events import EventWriter
from gpupool.kubernetes.resources import direct_binding, names
from gpupool.kubernetes.resources.gpu_node import EntryState
from gpupool.kubernetes.resources.pod import Pod

#: Releases in flight at the same time. 8 are enough on an idle machine of two cores; answers of a
#: busy one take longer, and more are needed.
IN_FLIGHT = 16
#: Queued releases at which the next plan begins: they go on while its ledgers are written.
AHEAD = 48
#: Seconds that a reconciliation waits for releases; it has other duties as well.
PATIENCE_SECONDS = 0.5
#: Seconds until a release that an admission webhook refused is tried again: no event says when the
#: webhook would allow it.
AGAIN_SECONDS = 10.0

log = logging.getLogger(__name__)


class ReleaseCounter(Protocol):
    releases: int


class GateRemoval:
    """The releases of one leader."""

    def __init__(
        self,
        api: KubeApi,
        cluster: ClusterCache,
        counts: ReleaseCounter,
        events: EventWriter,
        note: Callable[[Pod], None],
        refused: Callable[[Pod, GpupoolError], None],
        wake: Callable[[], None],
        confirm: Callable[[str], Awaitable[bool]],
        forgets: Callable[[], bool] = lambda: False,
    ) -> None:
        """Connect the releases to the controller.

        Args:
            note: takes the pod as it is after its release.
            refused: takes a pod whose release was refused, and the error.
            wake: requests a reconciliation.
            confirm: writes a node's ledger as it is; False if another write came between.
            forgets: whether the record of field managers is cleared.
        """
        self._confirm = confirm
        self._forgets = forgets
        self._api = api
        self._cluster = cluster
        self._counts = counts
        self._events = events
        self._note = note
        self._refused = refused
        self._wake = wake
        #: Gated pods as the server has them: a release names their version and keeps the terms of
        #: their affinity.
        self._raw: dict[str, dict[str, Any]] = {}
        self._under_way: set[str] = set()
        self._ended = asyncio.Event()
        #: By pod the version that is known not to be its newest.
        self._changed: dict[str, str] = {}
        self._due: asyncio.Queue[str] = asyncio.Queue()
        #: By pod whose release was refused, when it is tried again.
        self._again: dict[str, float] = {}

    def note_gated_pod(self, uid: str, found: dict[str, Any] | None) -> None:
        """Keep the gated pod as the API server has it; None: it is not to be released any more."""
        if found is None:
            self._raw.pop(uid, None)
            self._changed.pop(uid, None)
            self._again.pop(uid, None)
        else:
            self._raw[uid] = found

    def enqueue_ready_pods(self) -> None:
        """Queue every pod that has all its cards; called after ledgers were written."""
        for uid in sorted(self._cluster.awaiting_release - self._under_way):
            if uid in self._raw and self._is_releasable(uid):
                self._under_way.add(uid)
                self._due.put_nowait(uid)

    def next_look(self) -> float | None:
        """Seconds until a refused release is tried again; None if none was refused."""
        return min(self._again.values()) - time.monotonic() if self._again else None

    def _is_releasable(self, uid: str) -> bool:
        if self._again.get(uid, 0) > time.monotonic():
            return False
        pod = self._cluster.pods[uid]
        together = not pod.gang or self._cluster.members.has_begun(pod)
        known = self._changed.get(uid) != pod.version
        entries = self._cluster.entries_of(uid)
        drains = any(entry.state is EntryState.DRAINING for entry in entries)
        whole = len(entries) == len(pod.asks) and not drains
        return pod.gated and not pod.deleting and together and known and whole

    async def wait_until_few(self) -> None:
        """Wait until few releases are in flight, half a second at most.

        Changes that are noted meanwhile are planned together.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_SECONDS):
                while len(self._under_way) > AHEAD:
                    self._ended.clear()
                    await self._ended.wait()

    async def run(self) -> None:
        """Release queued pods until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(IN_FLIGHT):
                tasks.create_task(watched_task("releases", self._release_queued))

    async def _release_queued(self) -> None:
        backoff = create_backoff()
        while True:
            uid = await self._due.get()
            try:
                # The pod may have changed while it was queued: another controller released it, its
                # seat was given up, or it was deleted.
                if (
                    uid in self._raw
                    and uid in self._cluster.awaiting_release
                    and self._is_releasable(uid)
                ):
                    with mark_busy(ROUND_SECONDS):
                        await self._release_pod(uid)
                backoff.reset()
            except GpupoolError as error:
                log.warning("a release is tried again: %s", error)
                await asyncio.sleep(backoff.pause())
                self._wake()
            finally:
                # Also after a cancelled or failed release: a pod that stayed in here would never be
                # queued again, and `wait_until_few` would wait for it in every pass.
                self._under_way.discard(uid)
                self._ended.set()

    async def _is_entry_certain(self, pod: Pod, node: str) -> bool:
        """Whether the pod's entries exist whatever another controller has in flight."""
        # A seat may be withdrawn by a write that this controller has not heard of
        # (`entry_withdrawal`). The ledger is then written once more: that write is either in the
        # answer, or it is refused because its generation is outdated.
        if pod.withdrawn_at <= self._cluster.ledgers[node].version:
            return True
        if await self._confirm(node) and self._cluster.pods.get(pod.uid) is pod:
            return (
                pod.uid in self._cluster.awaiting_release
                and self._cluster.ledger_node_of(pod.uid) == node
                and self._is_releasable(pod.uid)
            )
        self._wake()
        return False

    async def _release_pod(self, uid: str) -> None:
        raw = self._raw[uid]
        pod = self._cluster.pods[uid]
        node = self._cluster.ledger_node_of(uid)
        if not await self._is_entry_certain(pod, node):
            return
        told = plan_entries.placement_annotation(node, self._cluster.entries_of(uid))
        try:
            now = await self._send_release(pod, raw, node, told)
        except ApiServerRejection as error:
            if error.is_conflict or error.is_not_found:
                self._changed[uid] = pod.version
                self._wake()  # what it has become may be known already
                return
            log.warning(
                "%s/%s has its cards and is not released: %s", pod.namespace, pod.name, error
            )
            self._again[uid] = time.monotonic() + AGAIN_SECONDS
            self._refused(pod, error)
            self._wake()  # the loop computes its next deadline anew, with this pod's
            return
        self._again.pop(uid, None)
        self._counts.releases += 1
        # kube-scheduler writes an event for the pods that it binds; a direct pod would have none.
        if pod.direct:
            self._events.report_pod(pod, "Placed", told[names.PLACED])
        known = self._cluster.pods.get(uid)
        # With another version the watch has already reported the release, and perhaps later
        # changes that this answer would undo.
        if known is not None and known.version == pod.version:
            self._note(now)

    async def _send_release(
        self, pod: Pod, raw: dict[str, Any], node: str, told: dict[str, str]
    ) -> Pod:
        """Return the pod as it is after the release, as far as the answer shows."""
        # The answer to a binding holds no object, so the version of a bound pod is left as it was
        # and the watch reports the new one.
        if pod.direct:
            await direct_binding.bind_pod(self._api, raw, node, told)
            return replace(pod, gated=False, node=node)
        version = await release_patch.release_pod(
            self._api, raw, node, told, forget=self._forgets()
        )
        return replace(pod, gated=False, version=version)
