"""Deletes pods that cannot run where they are, so that their owners create replacements."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import Any

from gpupool.base.errors import ApiServerRejection
from gpupool.base.units import NANOS_PER_SECOND
from gpupool.kubernetes.cache.cluster import ClusterCache
from gpupool.kubernetes.cache.seat_handover import can_be_replaced
from gpupool.kubernetes.client.api import KubeApi
from gpupool.kubernetes.eviction.eviction_api import EvictionResult
from gpupool.kubernetes.resources import names
from gpupool.kubernetes.resources.pod import Pod

NOT_BOUND = "NotBound"
CARD_FAILED = "CardFailed"
_NAMED = {NOT_BOUND: "not-bound", CARD_FAILED: "card-failed"}

log = logging.getLogger(__name__)


def build_event(pod: Pod, sentence: str, now_ns: int, reason: str = NOT_BOUND) -> dict[str, Any]:
    """The Event about the pod, named after its uid, so that a new leader does not report it
    twice."""
    stamp = datetime.fromtimestamp(now_ns // NANOS_PER_SECOND, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    about = {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": pod.namespace,
        "name": pod.name,
        "uid": pod.uid,
    }
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"gpupool-{_NAMED[reason]}-{pod.uid}", "namespace": pod.namespace},
        "involvedObject": about,
        "type": "Warning",
        "reason": reason,
        "message": sentence,
        "source": {"component": names.FIELD_MANAGER},
        "firstTimestamp": stamp,
        "lastTimestamp": stamp,
        "count": 1,
    }


async def post_event(
    api: KubeApi, pod: Pod, sentence: str, now_ns: int, reason: str = NOT_BOUND
) -> None:
    """Write the Event; idempotent. A refusal is logged."""
    try:
        await api.create(
            f"/api/v1/namespaces/{pod.namespace}/events", build_event(pod, sentence, now_ns, reason)
        )
    except ApiServerRejection as error:
        if not error.is_conflict:
            log.warning(
                "%s/%s: %s (the event is refused: %s)", pod.namespace, pod.name, sentence, error
            )


async def delete_pod(api: KubeApi, cluster: ClusterCache, pod: Pod) -> EvictionResult:
    """Delete the pod in the version that was read.

    Its cards are kept for its replacement, unless the node is known to be too full: the replacement
    would wait there as well.

    Returns:
        `CHANGED` if the pod has changed meanwhile: it may be bound now.
    """
    entries = cluster.entries_of(pod.uid)
    inherited = (
        can_be_replaced(pod)
        and cluster.has_room(cluster.ledger_node_of(pod.uid))
        and not any(e.leaving_for for e in entries)
    )
    if inherited:
        cluster.handover.keep_seats(pod, cluster.ledger_node_of(pod.uid))
    body = {"preconditions": {"uid": pod.uid, "resourceVersion": pod.version}}
    try:
        await api.delete(f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}", body)
    except ApiServerRejection as error:
        cluster.end_handover(pod.uid)
        if error.is_conflict or error.is_not_found:
            return EvictionResult.CHANGED
        log.warning("%s/%s is not bound and cannot be deleted: %s", pod.namespace, pod.name, error)
        return EvictionResult.REFUSED
    log.info("%s/%s was deleted, since no node takes it: %s", pod.namespace, pod.name, pod.refusal)
    return EvictionResult.GOES
