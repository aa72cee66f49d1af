"""Letting pods go that have all their cards in a ledger and still wear their gate.

Beside the rounds, a few at a time: the next plan is made and written while pods of the last one are let go. A release
names the version that was read; where the pod has changed meanwhile, the next version of it is tried. Nobody is let go
whose entry another controller may have withdrawn.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Protocol

from gpupool.base.errors import ApiRefused, GpupoolError
from gpupool.base.silence import busy
from gpupool.base.supervised import watched_task
from gpupool.kubernetes import direct, names, placing, terms
from gpupool.kubernetes.api import ROUND_SECONDS, KubeApi, Pause
from gpupool.kubernetes.events import Events
from gpupool.kubernetes.objects import EntryState
from gpupool.kubernetes.pods import Pod
from gpupool.kubernetes.pool import Pool

IN_FLIGHT = 16
"""On an idle machine of two cores 8 are enough; on a busy one each answer takes longer and more are needed."""
AHEAD = 48
"""The next plan is made while so many are left: what is under way goes on while its ledgers are written."""
PATIENCE_SECONDS = 0.5
"""Rounds do other things as well: they wait for releases no longer than that."""
AGAIN_SECONDS = 10.0
"""A release that somebody's admission refused is tried again after that: nobody tells when he would allow it."""

log = logging.getLogger(__name__)


class Counting(Protocol):
    releases: int


class Releases:
    """`note` takes the pod as it is after its release, `refused` those that are not let go, `wake` asks for a round."""

    def __init__(
        self,
        api: KubeApi,
        pool: Pool,
        counts: Counting,
        events: Events,
        note: Callable[[Pod], None],
        refused: Callable[[Pod, GpupoolError], None],
        wake: Callable[[], None],
        confirm: Callable[[str], Awaitable[bool]],
        forgets: Callable[[], bool] = lambda: False,
    ) -> None:
        """`confirm` writes a node's ledger as it is; False where another write came between. `forgets`: whether the
        record of who wrote which field is cleared."""
        self._confirm, self._forgets = confirm, forgets
        self._api, self._pool, self._counts, self._events = api, pool, counts, events
        self._note, self._refused, self._wake = note, refused, wake
        self._raw: dict[str, dict[str, Any]] = {}
        """Gated pods as the server has them: a release names their version and keeps their terms."""
        self._under_way: set[str] = set()
        self._ended = asyncio.Event()
        self._changed: dict[str, str] = {}
        """By pod the version that is known not to be its newest."""
        self._due: asyncio.Queue[str] = asyncio.Queue()
        self._again: dict[str, float] = {}
        """By pod whose release was refused, when it is tried again."""

    def keep(self, uid: str, found: dict[str, Any] | None) -> None:
        """The pod as it is now, where it wears its gate; None: it is to be released no more."""
        if found is None:
            self._raw.pop(uid, None)
            self._changed.pop(uid, None)
            self._again.pop(uid, None)
        else:
            self._raw[uid] = found

    def look(self) -> None:
        """After ledgers were written: whoever has all cards goes."""
        for uid in sorted(self._pool.seated - self._under_way):
            if uid in self._raw and self._may_go(uid):
                self._under_way.add(uid)
                self._due.put_nowait(uid)

    def next_look(self) -> float | None:
        """Seconds until one that was refused is tried again; None where none was."""
        return min(self._again.values()) - time.monotonic() if self._again else None

    def _may_go(self, uid: str) -> bool:
        if self._again.get(uid, 0) > time.monotonic():
            return False
        pod = self._pool.pods[uid]
        together = not pod.gang or self._pool.members.has_begun(pod)
        known = self._changed.get(uid) != pod.version
        entries = self._pool.entries_of(uid)
        drains = any(entry.state is EntryState.DRAINING for entry in entries)
        whole = len(entries) == len(pod.asks) and not drains
        return pod.gated and not pod.deleting and together and known and whole

    async def few(self) -> None:
        """Until the next plan should come: what is noted while many are under way is planned together."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_SECONDS):
                while len(self._under_way) > AHEAD:
                    self._ended.clear()
                    await self._ended.wait()

    async def run(self) -> None:
        """Until it is cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(IN_FLIGHT):
                tasks.create_task(watched_task("releases", self._go_on))

    async def _go_on(self) -> None:
        pause = Pause()
        while True:
            uid = await self._due.get()
            try:
                if uid in self._raw and uid in self._pool.seated and self._may_go(uid):
                    with busy(ROUND_SECONDS):
                        await self._let_go(uid)
                pause.reset()
            except GpupoolError as error:
                log.warning("a release is tried again: %s", error)
                await pause.wait()
                self._wake()
            finally:
                self._under_way.discard(uid)
                self._ended.set()

    async def _is_certain(self, pod: Pod, node: str) -> bool:
        """Whether the pod's entries are there whatever another controller has under way.

        A seat of it may be withdrawn by a write that is not known here (`withdrawing`): then the ledger is written
        once more, so that this write is either heard of or refused.
        """
        if pod.withdrawn_at <= self._pool.ledgers[node].version:
            return True
        if await self._confirm(node) and self._pool.pods.get(pod.uid) is pod:
            return pod.uid in self._pool.seated and self._pool.ledger_of(pod.uid) == node and self._may_go(pod.uid)
        self._wake()
        return False

    async def _let_go(self, uid: str) -> None:
        raw, pod, node = self._raw[uid], self._pool.pods[uid], self._pool.ledger_of(uid)
        if not await self._is_certain(pod, node):
            return
        told = placing.told(node, self._pool.entries_of(uid))
        try:
            now = await self._released(pod, raw, node, told)
        except ApiRefused as error:
            if error.conflict or error.gone:
                self._changed[uid] = pod.version
                self._wake()  # what it has become may be known already
                return
            log.warning("%s/%s has its cards and is not released: %s", pod.namespace, pod.name, error)
            self._again[uid] = time.monotonic() + AGAIN_SECONDS
            self._refused(pod, error)
            self._wake()  # whoever waits for the next round waits no longer than that
            return
        self._again.pop(uid, None)
        self._counts.releases += 1
        if pod.direct:  # kube-scheduler tells of the others where they are, and the annotation on which cards
            self._events.pod(pod, "Placed", told[names.PLACED])
        known = self._pool.pods.get(uid)
        if known is not None and known.version == pod.version:  # else the watch told it, and maybe what came after it
            self._note(now)

    async def _released(self, pod: Pod, raw: dict[str, Any], node: str, told: dict[str, str]) -> Pod:
        """The pod as it is then, as far as the answer tells: what a binding made of it says the watch alone."""
        if pod.direct:
            await direct.bind(self._api, raw, node, told)
            return replace(pod, gated=False, node=node)
        version = await terms.let_go(self._api, raw, node, told, forget=self._forgets())
        return replace(pod, gated=False, version=version)
