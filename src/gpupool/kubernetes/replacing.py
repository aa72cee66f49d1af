"""What is asked of the API server for a pod that cannot run where it is: an event that says so, then its deletion."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import Any

from gpupool.base.errors import ApiRefused
from gpupool.kubernetes import names
from gpupool.kubernetes.api import KubeApi
from gpupool.kubernetes.heirs import may_leave
from gpupool.kubernetes.pods import Pod
from gpupool.kubernetes.pool import Pool

NOT_BOUND, CARD_FAILED = "NotBound", "CardFailed"
_NAMED = {NOT_BOUND: "not-bound", CARD_FAILED: "card-failed"}

log = logging.getLogger(__name__)


def event(pod: Pod, sentence: str, now_ns: int, reason: str = NOT_BOUND) -> dict[str, Any]:
    """Named after the pod's uid, so that a new leader does not tell it twice."""
    stamp = datetime.fromtimestamp(now_ns // 10**9, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    about = {"apiVersion": "v1", "kind": "Pod", "namespace": pod.namespace, "name": pod.name, "uid": pod.uid}
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


async def tell(api: KubeApi, pod: Pod, sentence: str, now_ns: int, reason: str = NOT_BOUND) -> None:
    try:
        await api.create(f"/api/v1/namespaces/{pod.namespace}/events", event(pod, sentence, now_ns, reason))
    except ApiRefused as error:
        if not error.conflict:
            log.warning("%s/%s: %s (the event is refused: %s)", pod.namespace, pod.name, sentence, error)


async def delete(api: KubeApi, pool: Pool, pod: Pod) -> bool:
    """Delete the pod as it was seen; False where it has changed since: it may be bound, so look again at once.

    Its cards are kept for the one that comes in its place, but not where the node is known to be too full for it: there
    the new one would wait as well.
    """
    entries = pool.entries_of(pod.uid)
    inherited = may_leave(pod) and pool.has_room(pool.ledger_of(pod.uid)) and not any(e.leaving_for for e in entries)
    if inherited:
        pool.heirs.leave(pod, pool.ledger_of(pod.uid))
    body = {"preconditions": {"uid": pod.uid, "resourceVersion": pod.version}}
    try:
        await api.delete(f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}", body)
    except ApiRefused as error:
        pool.end_will(pod.uid)
        if error.conflict or error.gone:
            return False
        log.warning("%s/%s is not bound and cannot be deleted: %s", pod.namespace, pod.name, error)
        return True
    log.info("%s/%s was deleted, since no node takes it: %s", pod.namespace, pod.name, pod.refusal)
    return True
