"""Before an entry goes from a ledger: is its pod gone for certain, and can nobody let it go any more?

Ledgers and pods are heard of by two watches, so an entry may be known before its pod: such a pod is looked up, and only
one that is not there frees its cards. A gated pod whose seat is given up may be let go at the same moment by a
controller that leads no more. Its release names the pod's version, so the pod is touched first: `names.WITHDRAWN` then
says from which generation of the ledger on the seat is gone, and who lets the pod go by its new version has to know
that generation (`releasing`). A touch that meets another version leaves the entry where it is.
"""

from __future__ import annotations

import logging
from collections.abc import Container, Iterator, Sequence

from gpupool.base.errors import ApiRefused
from gpupool.kubernetes import names
from gpupool.kubernetes.api import METADATA, KubeApi
from gpupool.kubernetes.bookkeeping import is_given_up
from gpupool.kubernetes.gangs import expected
from gpupool.kubernetes.objects import Entry, EntryState, GpuNode
from gpupool.kubernetes.pods import Pod
from gpupool.kubernetes.pool import Pool
from gpupool.kubernetes.together import together

log = logging.getLogger(__name__)


class Withdrawing:
    """One leader's."""

    def __init__(self, api: KubeApi, pool: Pool) -> None:
        self._api, self._pool = api, pool

    async def staying(self, ledgers: Sequence[GpuNode], given_up: Container[str]) -> frozenset[str]:
        """Pods whose entries in these ledgers must not go now. It asks of a pod only where its entry would go."""
        unknown = {entry.uid: entry for node in ledgers for entry in node.entries if self._is_unknown(entry)}
        await together([self._look_up(entry) for entry in unknown.values()])
        seats = {pod.uid: (node, pod) for node in ledgers for pod in self._giving_up(node, given_up)}
        touched = await together([self._touch(node, pod) for node, pod in seats.values()])
        withdrawn = {uid for uid, done in zip(seats, touched, strict=True) if done}
        withheld = {pod.uid for node in ledgers for pod in self._giving_up(node, given_up)} - withdrawn
        unheard = {entry.uid for node in ledgers for entry in node.entries if self._is_unknown(entry)}
        return frozenset(withheld | unheard)

    def _is_unknown(self, entry: Entry) -> bool:
        """Whether its pod was not heard of: neither that it is there nor that it went."""
        pool, uid = self._pool, entry.uid
        known = uid in pool.pods or uid in pool.departed or uid in pool.heirs
        return not (known or expected(uid) or entry.state is EntryState.DRAINING)

    def _giving_up(self, node: GpuNode, given_up: Container[str]) -> Iterator[Pod]:
        """Gated pods whose seats on the node are given up."""
        for entry in node.entries:
            pod = self._pool.pods.get(entry.uid)
            if pod is not None and is_given_up(entry, given_up, self._pool.pods):
                yield pod

    async def _look_up(self, entry: Entry) -> None:
        """Ask the server itself. One that is there will be told by the watch, unless it is not ours any more."""
        try:
            found = await self._api.get(f"/api/v1/namespaces/{entry.namespace}/pods/{entry.pod}")
        except ApiRefused as error:
            if not error.gone:
                raise
            self._pool.departed.add(entry.uid)
            return
        meta = found["metadata"]
        managed = (meta.get("labels") or {}).get(names.MANAGED) == "true"
        if meta["uid"] != entry.uid or not managed:
            self._pool.departed.add(entry.uid)

    async def _touch(self, node: GpuNode, pod: Pod) -> bool:
        """Give the pod another version, if it is still as it was seen: gated. False where it is not, or may not be."""
        generation = max(node.version + 1, pod.withdrawn_at)
        notes = {names.WITHDRAWN: f"{generation}.{pod.version}"}  # with the version: never what stands there already
        body = {"metadata": {"uid": pod.uid, "resourceVersion": pod.version, "annotations": notes}}
        try:
            await self._api.patch(f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}", body, accept=METADATA)
        except ApiRefused as error:
            if not (error.gone or error.conflict):
                log.warning("%s/%s keeps a seat that is given up: %s", pod.namespace, pod.name, error)
            return False
        return True
