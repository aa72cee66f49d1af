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


async def ask(api: KubeApi, pod: Pod) -> bool:
    """Evict one; False where its budget does not allow that now. Twice is once: the eviction names the pod's uid."""
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
            return True  # it is gone, or another pod has its name
        log.info("%s/%s stays for now: %s", pod.namespace, pod.name, error.message)
        return False
    return True
