"""Reports to a gpupool server what is held on a cluster: one statement per changed node.

All state is in the API server and in the books; the meter keeps none. A closed interval is dropped
only after the server's answer: a page of the journal is deleted, and the node's annotation says up
to which instant everything is in the books. A meter that is killed between two of these steps
repeats the report, which the server counts once. Placement never waits for the meter.
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

from gpupool.base.errors import ApiServerRejection, BadInput, GpupoolError
from gpupool.base.silence import mark_busy
from gpupool.base.supervision import watched_task
from gpupool.base.units import NANOS_PER_SECOND
from gpupool.client.messages import path_segment
from gpupool.kubernetes.client.api import ROUND_SECONDS, KubeApi, create_backoff
from gpupool.kubernetes.client.informer import watch_objects
from gpupool.kubernetes.ledger import ledger
from gpupool.kubernetes.ledger.billing_intervals import unreported_intervals
from gpupool.kubernetes.ledger.journal import read_page
from gpupool.kubernetes.resources import names
from gpupool.kubernetes.resources.closed_intervals import ClosedInterval
from gpupool.kubernetes.resources.gpu_node import Entry, GpuNode, Mode
from gpupool.kubernetes.resources.gpu_time import GpuTime
from gpupool.wire.cluster import ClusterNodeIn

#: So long changes are gathered before they are told.
QUIET_SECONDS = 0.5
LONGEST = 63
NODES = "cluster/nodes"

log = logging.getLogger(__name__)
#: (method, path, body) -> the server's answer. Called in a thread of its own; raises
#: GpupoolError.
Server = Callable[[str, str, dict[str, Any] | None], Any]


@dataclass(frozen=True)
class JournalPage:
    """Of a node's journal: where it is, since when, and what it keeps."""

    path: str
    born_ns: int
    ended: list[ClosedInterval]


class Meter:
    """One is enough, and two do no harm. `namespace` is where the journal is."""

    def __init__(self, api: KubeApi, namespace: str, server: Server) -> None:
        self._api = api
        self._server = server
        self._journal = f"/api/v1/namespaces/{namespace}/configmaps"
        #: Of each node its ledger, and when that was made.
        self._nodes: dict[str, tuple[GpuNode, int]] = {}
        self._due: set[str] = set()
        #: What each node's last statement said of now.
        self._told: dict[str, dict[str, Any]] = {}
        self._gone: set[str] = set()
        #: Nodes may be gone that the server still counts.
        self._unsure = False
        self._wake = asyncio.Event()
        self._listed = asyncio.Event()

    async def run(self) -> None:
        """Until it is cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(watch_objects(self._api, ledger.NODES, self._note, self._note_listed))
            tasks.create_task(watched_task("statements", self._rounds))

    def _note(self, found: dict[str, Any], gone: bool) -> None:
        node = GpuNode.from_json(found)
        born_ns = _born_ns(found)
        if gone:
            # A list after a break tells of a deletion by name alone. What was known then is what
            # ends, with its ends that the server does not have yet.
            known, known_born_ns = self._nodes.get(node.name, (node, born_ns))
            if (known_born_ns, known.version) > (born_ns, node.version):
                node = known
                born_ns = known_born_ns
            # A ledger goes with its node: what it held when it was last seen is held no more.
            node = node.with_entries(())
        self._nodes[node.name] = node, born_ns
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
        backoff = create_backoff()
        while True:
            await self._wake.wait()
            await asyncio.sleep(QUIET_SECONDS)
            self._wake.clear()
            if await self._round():
                backoff.reset()
            else:
                await asyncio.sleep(backoff.pause())
                self._wake.set()

    async def _round(self) -> bool:
        """Tell what is due; whether all of it was taken in."""
        due = self._due
        self._due = set()
        known = dict(self._nodes)
        try:
            pages = (
                await self._pages()
            )  # after the ledgers: what has left one of them by then is in a page
        except GpupoolError as error:
            log.warning("the journal cannot be read, and is looked at again: %s", error)
            self._due |= due
            return False
        failed = set()
        for name in sorted({*due, *pages}):
            try:
                kept = pages.get(name, [])
                with mark_busy((1 + len(kept)) * ROUND_SECONDS):
                    state = known.get(name) or await self._read_orphan(name, kept)
                    if state is not None:
                        await self._settle(*state, kept)
            except GpupoolError as error:
                log.warning("what is held on %s is not in the books yet: %s", name, error)
                failed.add(name)
        self._due |= failed
        return not failed and await self._end_gone()

    async def _end_gone(self) -> bool:
        """What the server counts and the cluster has no more ends; whether all is as it ought to
        be."""
        if not self._unsure:
            return True
        try:
            here = set()
            for name in self._nodes:
                if name not in self._gone:
                    here.add(short_name(name))
            for name in await asyncio.to_thread(self._server, "GET", NODES, None):
                if name not in here:
                    await asyncio.to_thread(
                        self._server, "DELETE", f"{NODES}/{path_segment(name)}", None
                    )
        except GpupoolError as error:
            log.warning("the server may count nodes that are gone: %s", error)
            return False
        self._unsure = bool(self._due)
        # Names of nodes may never come back, as an autoscaler's.
        for name in self._gone - self._due:
            self._gone.discard(name)
            self._nodes.pop(name, None)
            self._told.pop(name, None)
        return True

    async def _pages(self) -> dict[str, list[JournalPage]]:
        """By node."""
        found: dict[str, list[JournalPage]] = defaultdict(list)
        items, _ = await self._api.list_objects(
            self._journal, labelSelector=f"{names.JOURNAL}=true"
        )
        for item in items:
            node, ended = read_page(item)
            found[node].append(
                JournalPage(f"{self._journal}/{item['metadata']['name']}", _born_ns(item), ended)
            )
        return dict(found)

    async def _read_orphan(
        self, name: str, pages: Sequence[JournalPage]
    ) -> tuple[GpuNode, int] | None:
        """A ledger that is known by its journal alone; None where it is there, and the watch has
        not told yet."""
        there = not pages or await ledger.read_ledger(self._api, name) is not None
        return None if there else close_missing_ledger(name, pages)

    async def _settle(self, node: GpuNode, born_ns: int, pages: Sequence[JournalPage]) -> None:
        """Tell one node's journal page by page, then its ledger; each is let go of when the server
        has taken it in."""
        for page in pages:
            if not await self._tell(
                node.name, build_statement(node, born_ns, page.ended, whole=False)
            ):
                return
            await _unless_gone(self._api.delete(page.path))
        ended = unreported_intervals(node)
        said = build_statement(node, born_ns, ended)
        now = {}
        for key, value in said.items():
            if key not in ("ended", "generation"):
                now[key] = value
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
            log.warning(
                "the cluster was put back to an older copy, and the books of %s go on with that",
                node,
            )
            answer = await self._put(node, {**said, "instead_of": known})
        if not answer["applied"]:
            log.warning(
                "the server knows a newer ledger of %s than generation %d", node, said["generation"]
            )
        return bool(answer["applied"])

    async def _put(self, node: str, said: dict[str, Any]) -> dict[str, Any]:
        answer: dict[str, Any] = await asyncio.to_thread(
            self._server, "PUT", statement_path(node), said
        )
        return answer

    async def _was_put_back(self, node: str, known: Mapping[str, int]) -> bool:
        """Whether the ledger is older than what the server knew before this request."""
        # A plain GET is never older than what any client has read before, and some meter has read
        # what the server knows. So an older answer means that the cluster's store was restored.
        found = await ledger.read_ledger_json(self._api, node)
        was = known["born_ns"], known["generation"]
        return found is None or (_born_ns(found), GpuNode.from_json(found).version) < was


def close_missing_ledger(name: str, pages: Sequence[JournalPage]) -> tuple[GpuNode, int]:
    """The state after a ledger's last: nothing is held there any more. It was older than any page,
    or of its second."""
    return GpuNode(name), max(page.born_ns for page in pages) + 1


async def _unless_gone(asked: Awaitable[Any]) -> None:
    """What is gone needs no word: a page that another meter has told, a ledger that went with its
    node."""
    try:
        await asked
    except ApiServerRejection as error:
        if not error.is_not_found:
            raise


def build_statement(
    node: GpuNode, born_ns: int, ended: Sequence[ClosedInterval], *, whole: bool = True
) -> dict[str, Any]:
    """Build what the server gets of the node, with these ends.

    Args:
        whole: whether `ended` has all ends; the others are sent apart.

    Raises:
        BadInput: the server could not take it. It concerns this node alone.
    """
    spent = node.gpu_time_by_container()
    held = []
    for entry in node.entries:
        if entry.held_ns:
            held.append(_who(entry, spent.get(entry.key)))
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
        "held": held,
        "ended": [{**_who(one, one.spent), "ended_ns": one.ended_ns} for one in ended],
        "whole": whole,
    }
    try:
        return ClusterNodeIn.model_validate(body).model_dump(mode="json", exclude_none=True)
    except ValueError as error:
        raise BadInput(f"the ledger of {node.name} cannot be reported: {error}") from None


def _who(one: Entry | ClosedInterval, spent: GpuTime | None) -> dict[str, Any]:
    seats = []
    for s in one.seats:
        seats.append({"uuid": s.device, "gpu_milli": s.gpu_milli, "memory_bytes": s.memory_bytes})
    return {
        "uid": one.uid,
        "namespace": one.namespace,
        "pod": one.pod,
        "container": one.container,
        "tenant": short_name(one.tenant),
        "account": one.account,
        "seats": seats,
        "held_ns": one.held_ns,
        "gpu_milliseconds": None if spent is None else spent.used_ms,
        "borrowed_milliseconds": None if spent is None else spent.borrowed_ms,
        "denied_milliseconds": None if spent is None else spent.denied_ms,
    }


def short_name(name: str) -> str:
    """The name of a node or tenant in the pool: its own, or its beginning with what tells it from
    others where it is too long."""
    mark = hashlib.sha256(name.encode()).hexdigest()[:8]
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 9].rstrip('.-')}-{mark}"


def statement_path(node: str) -> str:
    """Of a node of the cluster, on the server."""
    return f"{NODES}/{path_segment(short_name(node))}"


def _born_ns(found: Mapping[str, Any]) -> int:
    stamp = found["metadata"].get("creationTimestamp")
    return int(datetime.fromisoformat(stamp).timestamp()) * NANOS_PER_SECOND if stamp else 0
