"""Makes sure that an entry can be removed: its pod is gone for certain, or cannot be released any
more.

Ledgers and pods arrive by two watches, so an entry may be known before its pod: such a pod is
looked up, and only a pod that does not exist frees its cards. A gated pod whose seat is given up
may be released at the same moment by a controller that leads no more. A release names the pod's
version, so the pod is patched first: `names.WITHDRAWN` then says from which generation of the
ledger on the seat is gone, and a controller that releases the pod by its new version must know that
generation (`gate_removal`). If the patch meets another version, the entry stays.
"""

from __future__ import annotations

import logging
from collections.abc import Container, Iterator, Sequence

from gpupool.base.errors import ApiServerRejection
from gpupool.kubernetes.cache.cluster import ClusterCache
from gpupool.kubernetes.client.api import METADATA, KubeApi
from gpupool.kubernetes.client.concurrency import gather_limited
from gpupool.kubernetes.ledger.entry_lifecycle import is_given_up
from gpupool.kubernetes.resources import names
from gpupool.kubernetes.resources.gang import is_future_member
from gpupool.kubernetes.resources.gpu_node import Entry, EntryState, GpuNode
from gpupool.kubernetes.resources.pod import Pod

log = logging.getLogger(__name__)


class EntryWithdrawal:
    """The look-ups and patches of one leader."""

    def __init__(self, api: KubeApi, cluster: ClusterCache) -> None:
        self._api = api
        self._cluster = cluster

    async def find_staying_pods(
        self, ledgers: Sequence[GpuNode], given_up: Container[str]
    ) -> frozenset[str]:
        """Uids of pods whose entries in these ledgers must not be removed now.

        Sends requests only about pods whose entries would be removed.

        Raises:
            ApiServerRejection: a look-up was refused.
            ServiceUnavailable: the API server cannot be reached.
        """
        unknown = {}
        for node in ledgers:
            for entry in node.entries:
                if self._is_unknown(entry):
                    unknown[entry.uid] = entry
        await gather_limited([self._look_up(entry) for entry in unknown.values()])
        seats = {}
        for node in ledgers:
            for pod in self._giving_up(node, given_up):
                seats[pod.uid] = (node, pod)
        touched = await gather_limited(
            [self._change_version(node, pod) for node, pod in seats.values()]
        )
        withdrawn = set()
        for uid, done in zip(seats, touched, strict=True):
            if done:
                withdrawn.add(uid)
        # Asked again: the look-ups and patches took a while, and the watches went on meanwhile.
        staying = set()
        for node in ledgers:
            for pod in self._giving_up(node, given_up):
                if pod.uid not in withdrawn:
                    staying.add(pod.uid)
            for entry in node.entries:
                if self._is_unknown(entry):
                    staying.add(entry.uid)
        return frozenset(staying)

    def _is_unknown(self, entry: Entry) -> bool:
        """Whether its pod was not heard of: neither that it is there nor that it went."""
        cluster = self._cluster
        uid = entry.uid
        known = uid in cluster.pods or uid in cluster.departed or uid in cluster.handover
        return not (known or is_future_member(uid) or entry.state is EntryState.DRAINING)

    def _giving_up(self, node: GpuNode, given_up: Container[str]) -> Iterator[Pod]:
        """Gated pods whose seats on the node are given up."""
        for entry in node.entries:
            pod = self._cluster.pods.get(entry.uid)
            if pod is not None and is_given_up(entry, given_up, self._cluster.pods):
                yield pod

    async def _look_up(self, entry: Entry) -> None:
        """Ask the API server whether the entry's pod exists, and note if it does not."""
        try:
            found = await self._api.get(f"/api/v1/namespaces/{entry.namespace}/pods/{entry.pod}")
        except ApiServerRejection as error:
            if not error.is_not_found:
                raise
            self._cluster.departed.add(entry.uid)
            return
        meta = found["metadata"]
        managed = (meta.get("labels") or {}).get(names.MANAGED) == "true"
        # The watch will report a pod that exists. It never reports another pod of the same name, or
        # a pod that lost the label: their entries must not wait for it.
        if meta["uid"] != entry.uid or not managed:
            self._cluster.departed.add(entry.uid)

    async def _change_version(self, node: GpuNode, pod: Pod) -> bool:
        """Give the pod another version if it is still gated; False if that may have failed."""
        generation = max(node.version + 1, pod.withdrawn_at)
        # With the version, so that the value always changes: an equal one would be no write, and
        # the pod would keep its version.
        notes = {names.WITHDRAWN: f"{generation}.{pod.version}"}
        body = {"metadata": {"uid": pod.uid, "resourceVersion": pod.version, "annotations": notes}}
        try:
            await self._api.patch(
                f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}", body, accept=METADATA
            )
        except ApiServerRejection as error:
            if not (error.is_not_found or error.is_conflict):
                log.warning(
                    "%s/%s keeps a seat that is given up: %s", pod.namespace, pod.name, error
                )
            return False
        return True
