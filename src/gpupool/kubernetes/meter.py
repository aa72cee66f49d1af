"""Telling a gpupool server what is held on a cluster: one statement a node that changed, as often as it takes.

What it knows is in the API server and in the books; it keeps nothing. What ended is let go of only after the server's
answer: a page of the journal is deleted, and the node's annotation says up to which instant all is in the books. Killed
between any two of these it tells the same again, and twice is once. Placement never waits for it.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gpupool.base.errors import ApiRefused, GpupoolError
from gpupool.base.silence import busy
from gpupool.base.supervised import watched_task
from gpupool.client.messages import path_segment
from gpupool.kubernetes import ledger, names
from gpupool.kubernetes.api import ROUND_SECONDS, KubeApi, Pause
from gpupool.kubernetes.ended import Ended
from gpupool.kubernetes.journal import read_page
from gpupool.kubernetes.objects import Entry, GpuNode, Mode
from gpupool.kubernetes.stretches import untold
from gpupool.kubernetes.watch import keep
from gpupool.wire.cluster import ClusterNodeIn

QUIET_SECONDS = 0.5
"""So long changes are gathered before they are told."""
LONGEST = 63
NODES = "cluster/nodes"
NS = 10**9

log = logging.getLogger(__name__)
Server = Callable[[str, str, dict[str, Any] | None], Any]
"""(method, path, body) -> the server's answer. Called in a thread of its own; raises GpupoolError."""


@dataclass(frozen=True)
class Page:
    """Of a node's journal: where it is, since when, and what it keeps."""

    path: str
    born_ns: int
    ended: list[Ended]


class Meter:
    """One is enough, and two do no harm. `namespace` is where the journal is."""

    def __init__(self, api: KubeApi, namespace: str, server: Server) -> None:
        self._api, self._server = api, server
        self._journal = f"/api/v1/namespaces/{namespace}/configmaps"
        self._nodes: dict[str, tuple[GpuNode, int]] = {}
        """Of each node its ledger, and when that was made."""
        self._due: set[str] = set()
        self._told: dict[str, dict[str, Any]] = {}
        """What each node's last statement said of now."""
        self._gone: set[str] = set()
        self._unsure = False
        """Nodes may be gone that the server still counts."""
        self._wake, self._listed = asyncio.Event(), asyncio.Event()

    async def run(self) -> None:
        """Until it is cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(keep(self._api, ledger.NODES, self._note, self._note_listed))
            tasks.create_task(watched_task("statements", self._rounds))

    def _note(self, found: dict[str, Any], gone: bool) -> None:
        node, born_ns = GpuNode.from_json(found), _born_ns(found)
        # A ledger goes with its node: what it held when it was last seen is held no more.
        self._nodes[node.name] = (node.with_entries(()) if gone else node), born_ns
        self._due.add(node.name)
        (self._gone.add if gone else self._gone.discard)(node.name)
        self._unsure |= gone
        self._wake.set()

    def _note_listed(self) -> None:
        self._unsure = True
        self._listed.set()
        self._wake.set()

    async def _rounds(self) -> None:
        await self._listed.wait()
        pause = Pause()
        while True:
            await self._wake.wait()
            await asyncio.sleep(QUIET_SECONDS)
            self._wake.clear()
            if await self._round():
                pause.reset()
            else:
                await pause.wait()
                self._wake.set()

    async def _round(self) -> bool:
        """Tell what is due; whether all of it was taken in."""
        due, self._due = self._due, set()
        known = dict(self._nodes)
        try:
            pages = await self._pages()  # after the ledgers: what has left one of them by then is in a page
        except GpupoolError as error:
            log.warning("the journal cannot be read, and is looked at again: %s", error)
            self._due |= due
            return False
        failed = set()
        for name in sorted({*due, *pages}):
            try:
                kept = pages.get(name, [])
                with busy((1 + len(kept)) * ROUND_SECONDS):
                    state = known.get(name) or await self._left(name, kept)
                    if state is not None:
                        await self._settle(*state, kept)
            except GpupoolError as error:
                log.warning("what is held on %s is not in the books yet: %s", name, error)
                failed.add(name)
        self._due |= failed
        return not failed and await self._end_gone()

    async def _end_gone(self) -> bool:
        """What the server counts and the cluster has no more ends; whether all is as it ought to be."""
        if not self._unsure:
            return True
        try:
            here = {node_name(name) for name in self._nodes if name not in self._gone}
            for name in await asyncio.to_thread(self._server, "GET", NODES, None):
                if name not in here:
                    await asyncio.to_thread(self._server, "DELETE", f"{NODES}/{path_segment(name)}", None)
        except GpupoolError as error:
            log.warning("the server may count nodes that are gone: %s", error)
            return False
        self._unsure = bool(self._due)
        return True

    async def _pages(self) -> dict[str, list[Page]]:
        """By node."""
        found: dict[str, list[Page]] = defaultdict(list)
        items, _ = await self._api.list(self._journal, labelSelector=f"{names.JOURNAL}=true")
        for item in items:
            node, ended = read_page(item)
            found[node].append(Page(f"{self._journal}/{item['metadata']['name']}", _born_ns(item), ended))
        return dict(found)

    async def _left(self, name: str, pages: Sequence[Page]) -> tuple[GpuNode, int] | None:
        """A ledger that is known by its journal alone; None where it is there, and the watch has not told yet."""
        there = not pages or await ledger.read(self._api, name) is not None
        return None if there else left_behind(name, pages)

    async def _settle(self, node: GpuNode, born_ns: int, pages: Sequence[Page]) -> None:
        """Tell one node's journal page by page, then its ledger; each is let go of when the server has taken it in."""
        for page in pages:
            if not await self._tell(node.name, statement(node, born_ns, page.ended, whole=False)):
                return
            await _unless_gone(self._api.delete(page.path))
        ended = untold(node)
        said = statement(node, born_ns, ended)
        now = {key: value for key, value in said.items() if key not in ("ended", "generation")}
        if self._told.get(node.name) == now and not ended:
            return
        if not await self._tell(node.name, said):
            return
        self._told[node.name] = now
        if ended:
            note = {"metadata": {"annotations": {names.METERED: str(ended[-1].ended_ns)}}}
            await _unless_gone(self._api.patch(f"{ledger.NODES}/{node.name}", note))

    async def _tell(self, node: str, said: dict[str, Any]) -> bool:
        """Whether the server took it in, or has."""
        answer = await self._put(node, said)
        known = answer.get("known")
        if known is not None and await self._was_put_back(node, known):
            log.warning("the cluster was put back to an older copy, and the books of %s go on with that", node)
            answer = await self._put(node, {**said, "instead_of": known})
        if not answer["applied"]:
            log.warning("the server knows a newer ledger of %s than generation %d", node, said["generation"])
        return bool(answer["applied"])

    async def _put(self, node: str, said: dict[str, Any]) -> dict[str, Any]:
        answer: dict[str, Any] = await asyncio.to_thread(self._server, "PUT", path_of(node), said)
        return answer

    async def _was_put_back(self, node: str, known: Mapping[str, int]) -> bool:
        """Whether the ledger is older than what the server knew before we asked.

        Some meter has read that; and what is read by a plain GET is never older than what anybody read before, unless
        the cluster's store was put back.
        """
        found = await ledger.read_json(self._api, node)
        was = known["born_ns"], known["generation"]
        return found is None or (_born_ns(found), GpuNode.from_json(found).version) < was


def left_behind(name: str, pages: Sequence[Page]) -> tuple[GpuNode, int]:
    """The state after a ledger's last: nothing is held there any more. It was older than any page, or of its second."""
    return GpuNode(name), max(page.born_ns for page in pages) + 1


async def _unless_gone(asked: Awaitable[Any]) -> None:
    """What is gone needs no word: a page that another meter has told, a ledger that went with its node."""
    try:
        await asked
    except ApiRefused as error:
        if not error.gone:
            raise


def statement(node: GpuNode, born_ns: int, ended: Sequence[Ended], *, whole: bool = True) -> dict[str, Any]:
    """What the server is told of the node, with these ends; not `whole`: others are told apart."""
    spent = node.spent()
    body = {
        "born_ns": born_ns,
        "generation": node.version,
        "ready": node.ready,
        "managed": node.mode is not Mode.OBSERVE,
        "cards": [
            {
                "uuid": card.uuid,
                "index": card.index,
                "model": card.model,
                "product": card.product,
                "memory_bytes": card.memory_bytes,
                "simulated": card.simulated,
                "health": card.health.value,
                "health_reason": card.health_reason,
            }
            for card in node.cards
        ],
        "held": [_who(entry, spent.get(entry.key)) for entry in node.entries if entry.held_ns],
        "ended": [{**_who(one, one.gpu_ms), "ended_ns": one.ended_ns} for one in ended],
        "whole": whole,
    }
    return ClusterNodeIn.model_validate(body).model_dump(mode="json", exclude_none=True)


def _who(one: Entry | Ended, gpu_ms: int | None) -> dict[str, Any]:
    return {
        "uid": one.uid,
        "namespace": one.namespace,
        "pod": one.pod,
        "container": one.container,
        "tenant": one.tenant,
        "account": one.account,
        "seats": [{"uuid": s.device, "gpu_milli": s.gpu_milli, "memory_bytes": s.memory_bytes} for s in one.seats],
        "held_ns": one.held_ns,
        "gpu_milliseconds": gpu_ms,
    }


def node_name(name: str) -> str:
    """The node's name in the pool: its own, or its beginning with what tells it from others where it is too long."""
    mark = hashlib.sha256(name.encode()).hexdigest()[:8]
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 9].rstrip('.-')}-{mark}"


def path_of(node: str) -> str:
    """Of a node of the cluster, on the server."""
    return f"{NODES}/{path_segment(node_name(node))}"


def _born_ns(found: Mapping[str, Any]) -> int:
    stamp = found["metadata"].get("creationTimestamp")
    return int(datetime.fromisoformat(stamp).timestamp()) * NS if stamp else 0
