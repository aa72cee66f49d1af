"""Asking pods to leave, by the Eviction API: PodDisruptionBudgets are honoured, and the pod's own grace period.

Who leaves, and for whom, stands in the ledger before anybody is asked, with the version of the pod that the eviction
then names. An order is taken back by touching the pod first: what was asked by that order, and arrives late, finds
another version and does nothing. So a controller that stood still past its lease evicts nobody whom the next one lets
stay, and a crash between the two writes repeats the question and asks nobody else.
"""

from __future__ import annotations

import logging
from collections.abc import Container, Iterable
from enum import Enum, auto
from typing import NamedTuple

from gpupool.base.errors import ApiRefused
from gpupool.kubernetes import gangs, names
from gpupool.kubernetes.api import METADATA, KubeApi
from gpupool.kubernetes.pods import Pod
from gpupool.kubernetes.pool import Pool

log = logging.getLogger(__name__)


class Result(Enum):
    GOES = auto()
    CHANGED = auto()
    """It is gone, or not as it was any more: who still wants it to go orders it anew."""
    REFUSED = auto()


class Answer(NamedTuple):
    result: Result
    why_not: str = ""


def to_ask(pool: Pool, wanted: Container[str]) -> list[Pod]:
    """Pods of these claims whose ledger says that they leave as they are now; a gang's members with each other."""
    orders = pool.orders().items()
    jobs = [job for job, order in orders if job in wanted and (not order.whom or pool.waits(order.whom))]
    return [
        pod
        for pod in still_there(pool, jobs)
        if all(entry.leaving_at == pod.version for entry in pool.entries_of(pod.uid))
    ]


def taken_back(pool: Pool, wanted: Container[str]) -> list[Pod]:
    """Pods that were told to leave for what is not wanted any more."""
    return still_there(pool, [job for job in pool.orders() if job not in wanted])


def still_there(pool: Pool, jobs: Iterable[str]) -> list[Pod]:
    """The pods of these claims, but for those that go already."""
    pods = (pool.pods.get(uid) for uid in sorted({gangs.parts_of(job)[0] for job in jobs}))
    return [pod for pod in pods if pod is not None and not pod.deleting and not pod.ended]


def whom(pool: Pool) -> dict[str, str]:
    """By uid of a pod that is to leave, for which claim or gang."""
    return {gangs.parts_of(job)[0]: claim for job, claim in pool.leaving().items()}


def waiting(pool: Pool, claim: str) -> list[Pod]:
    """Pods that wait of a claim or gang, by the scheduler's name of it or by the pod's uid."""
    pod = pool.pods.get(claim) or pool.pods.get(gangs.parts_of(claim)[0])
    return pool.queue.gang(claim) if pod is None else [pod]


async def ask(api: KubeApi, pod: Pod) -> Answer:
    """Evict it, as it was seen: the eviction names its uid and its version."""
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod.name, "namespace": pod.namespace},
        "deleteOptions": {"preconditions": {"uid": pod.uid, "resourceVersion": pod.version}},
    }
    try:
        await api.create(f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/eviction", body)
    except ApiRefused as error:
        if error.gone or error.conflict:
            return Answer(Result.CHANGED)
        log.info("%s/%s stays for now: %s", pod.namespace, pod.name, error.message)
        return Answer(Result.REFUSED, error.message)
    return Answer(Result.GOES)


async def touch(api: KubeApi, pod: Pod, ledger: int) -> bool:
    """Give it another version, so that no eviction that names an older one is done. False where that is refused.

    `ledger` is the version of its node's. Twice is once: while that is the same, what it orders was ordered before.
    """
    body = {"metadata": {"uid": pod.uid, "annotations": {names.STAYS: str(ledger)}}}
    try:
        await api.patch(f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}", body, accept=METADATA)
    except ApiRefused as error:
        if error.gone or error.conflict:  # it is gone, or another pod has its name
            return True
        log.warning("%s/%s need not leave, and the order to is not taken back: %s", pod.namespace, pod.name, error)
        return False
    return True
