"""Evicts pods by the Eviction API, which honours PodDisruptionBudgets and grace periods.

The ledger names the victim, the beneficiary and the pod's version before the eviction is requested,
and the eviction names that version. To withdraw an order, the pod is patched first: an eviction by
the old order that arrives late finds another version and does nothing. So a controller that paused
past its lease evicts no pod that the next leader spares, and a crash between the two writes repeats
the same request.
"""

from __future__ import annotations

import logging
from collections.abc import Container, Iterable
from enum import Enum, auto
from typing import NamedTuple

from gpupool.base.errors import ApiServerRejection
from gpupool.kubernetes.cache.cluster import ClusterCache
from gpupool.kubernetes.client.api import METADATA, KubeApi
from gpupool.kubernetes.resources import gang, names
from gpupool.kubernetes.resources.pod import Pod

log = logging.getLogger(__name__)


class EvictionResult(Enum):
    """What became of an eviction request."""

    GOES = auto()
    #: The pod is gone or has changed; if it is still to be evicted, it is ordered anew.
    CHANGED = auto()
    REFUSED = auto()


class EvictionAnswer(NamedTuple):
    """The result, and for a refusal its reason."""

    result: EvictionResult
    why_not: str = ""


def pods_to_evict(cluster: ClusterCache, wanted: Container[str]) -> list[Pod]:
    """Pods of these claims whose ledger orders the eviction of their current version."""
    orders = cluster.eviction_orders().items()
    jobs = []
    for job, order in orders:
        if job in wanted and (not order.beneficiary or cluster.is_waiting(order.beneficiary)):
            jobs.append(job)
    pods: list[Pod] = []
    for pod in remaining_pods(cluster, jobs):
        entries = cluster.entries_of(pod.uid)
        if all(entry.leaving_at == pod.version for entry in entries):
            pods.append(pod)
    return pods


def pods_to_spare(cluster: ClusterCache, wanted: Container[str]) -> list[Pod]:
    """Pods with an eviction order whose claim is not to be evicted any more."""
    return remaining_pods(cluster, [job for job in cluster.eviction_orders() if job not in wanted])


def remaining_pods(cluster: ClusterCache, jobs: Iterable[str]) -> list[Pod]:
    """The pods of these claims that are not yet being deleted."""
    uids = sorted({gang.split_job_name(job)[0] for job in jobs})
    pods = (cluster.pods.get(uid) for uid in uids)
    remaining = []
    for pod in pods:
        if pod is not None and not pod.deleting and not pod.ended:
            remaining.append(pod)
    return remaining


def beneficiaries_by_pod(cluster: ClusterCache) -> dict[str, str]:
    """By uid of a pod that is to be evicted, the claim or gang it is evicted for."""
    beneficiaries = {}
    for job, claim in cluster.pending_evictions().items():
        beneficiaries[gang.split_job_name(job)[0]] = claim
    return beneficiaries


def waiting_pods(cluster: ClusterCache, claim: str) -> list[Pod]:
    """Waiting pods of a claim or gang, named as in the scheduler or by the pod's uid."""
    pod = cluster.pods.get(claim) or cluster.pods.get(gang.split_job_name(claim)[0])
    return cluster.queue.gang_pods(claim) if pod is None else [pod]


async def evict_pod(api: KubeApi, pod: Pod) -> EvictionAnswer:
    """Request the eviction of the pod in the version that was read.

    Raises:
        ServiceUnavailable: the API server cannot be reached.
    """
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod.name, "namespace": pod.namespace},
        "deleteOptions": {"preconditions": {"uid": pod.uid, "resourceVersion": pod.version}},
    }
    try:
        await api.create(f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/eviction", body)
    except ApiServerRejection as error:
        if error.is_not_found or error.is_conflict:
            return EvictionAnswer(EvictionResult.CHANGED)
        log.info("%s/%s stays for now: %s", pod.namespace, pod.name, error.message)
        return EvictionAnswer(EvictionResult.REFUSED, error.message)
    return EvictionAnswer(EvictionResult.GOES)


async def touch_pod(api: KubeApi, pod: Pod, ledger: int) -> bool:
    """Give the pod another version, so that evictions that name an older one do nothing.

    Idempotent for one version of the ledger.

    Args:
        ledger: the version of the node's ledger.

    Returns:
        False if the API server refused it.
    """
    body = {"metadata": {"uid": pod.uid, "annotations": {names.STAYS: str(ledger)}}}
    try:
        await api.patch(
            f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}", body, accept=METADATA
        )
    except ApiServerRejection as error:
        if error.is_not_found or error.is_conflict:  # it is gone, or another pod has its name
            return True
        log.warning(
            "%s/%s need not leave, and the order to is not taken back: %s",
            pod.namespace,
            pod.name,
            error,
        )
        return False
    return True
