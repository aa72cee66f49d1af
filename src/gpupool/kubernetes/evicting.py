"""Asking pods to leave, by the Eviction API: PodDisruptionBudgets are honoured, and the pod's own grace period.

Who leaves for whom stands in the ledger before anybody is asked, so a crash between the two repeats the question and
asks nobody else.
"""

from __future__ import annotations

import logging

from gpupool.base.errors import ApiRefused
from gpupool.kubernetes import gangs
from gpupool.kubernetes.api import KubeApi
from gpupool.kubernetes.pods import Pod
from gpupool.kubernetes.pool import Pool

log = logging.getLogger(__name__)


def to_ask(pool: Pool) -> list[Pod]:
    """Pods whose ledger says that they leave, and which were not asked yet; a gang's members with each other."""
    uids = {gangs.parts_of(job)[0] for job in pool.leaving()}
    pods = (pool.pods.get(uid) for uid in sorted(uids))
    return [pod for pod in pods if pod is not None and not pod.deleting and not pod.ended]


def whom(pool: Pool) -> dict[str, str]:
    """By uid of a pod that is to leave, for which claim or gang."""
    return {gangs.parts_of(job)[0]: claim for job, claim in pool.leaving().items()}


def waiting(pool: Pool, claim: str) -> list[Pod]:
    """Pods that wait of a claim or gang, by the scheduler's name of it or by the pod's uid."""
    pod = pool.pods.get(claim) or pool.pods.get(gangs.parts_of(claim)[0])
    return pool.queue.gang(claim) if pod is None else [pod]


async def ask(api: KubeApi, pod: Pod) -> str:
    """Evict one; why not, where that is not allowed now. Twice is once: the eviction names the pod's uid."""
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod.name, "namespace": pod.namespace},
        "deleteOptions": {"preconditions": {"uid": pod.uid}},
    }
    try:
        await api.create(f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/eviction", body)
    except ApiRefused as error:
        if error.gone or error.conflict:
            return ""  # it is gone, or another pod has its name
        log.info("%s/%s stays for now: %s", pod.namespace, pod.name, error.message)
        return error.message
    return ""
