"""Removes pods: victims of preemption, pods on failed cards, and pods that no node takes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from gpupool.kubernetes.cache.cluster import ClusterCache
from gpupool.kubernetes.client.api import KubeApi
from gpupool.kubernetes.client.concurrency import gather_limited
from gpupool.kubernetes.eviction import eviction_api, pod_recreation
from gpupool.kubernetes.eviction.eviction_api import EvictionAnswer, EvictionResult
from gpupool.kubernetes.eviction.failed_cards import FailedCardActions, FailedCards
from gpupool.kubernetes.eviction.unschedulable_pods import UnschedulablePods, unschedulable_message
from gpupool.kubernetes.reporting.counters import ControllerCounters
from gpupool.kubernetes.reporting.events import EventWriter
from gpupool.kubernetes.resources import gang
from gpupool.kubernetes.resources.gpu_node import EvictionOrder
from gpupool.kubernetes.resources.pod import Pod
from gpupool.scheduling import Eviction

LEAST_SECONDS = 1.0
#: How soon a pod whose budget did not allow it to go is asked again: later each time.
MOST_SECONDS = 15.0


class _EvictionAttempt(NamedTuple):
    #: When it is asked again, and after how long.
    until: float
    wait: float
    #: A pod that is another by then is asked at once; empty: not even then.
    version: str = ""


class PodRemoval:
    """The evictions and deletions of one leader.

    Attributes:
        refused: by claim whose victim may not be evicted now, why it waits.
    """

    def __init__(
        self,
        api: KubeApi,
        cluster: ClusterCache,
        counts: ControllerCounters,
        stuck: UnschedulablePods,
        failing: FailedCards,
        events: EventWriter,
        now_ns: Callable[[], int],
    ) -> None:
        self._api = api
        self._cluster = cluster
        self._counts = counts
        self._now_ns = now_ns
        self._stuck = stuck
        self._failing = failing
        self._events = events
        self._asked: dict[str, _EvictionAttempt] = {}
        self._wanted: Mapping[str, str] = {}
        self._failed = FailedCardActions()
        self.refused: dict[str, str] = {}

    async def decide_orders(self, evictions: Iterable[Eviction]) -> dict[str, EvictionOrder]:
        """By claim, the eviction order that its ledger must hold, including the evictions of a
        plan.

        An order that is not wanted any more stays until its pod was patched (`eviction_api`). An
        order is renewed with the pod's newest version only when the pod is due to be evicted.
        """
        cluster = self._cluster
        self._failed = self._failing.find_due_pods(cluster)
        cards_failed = []
        for one in self._failed.leave:
            for entry in cluster.entries_of(one.pod.uid):
                cards_failed.append(entry)
        by_failed_card = {}
        for entry in cards_failed:
            by_failed_card[gang.job_name(entry.uid, entry.container)] = ""
        self._wanted = by_failed_card | cluster.pending_evictions()
        self._wanted |= {one.job: one.beneficiary for one in evictions}
        back = eviction_api.pods_to_spare(cluster, self._wanted)
        ledgers = [cluster.ledgers[cluster.ledger_node_of(pod.uid)].version for pod in back]
        touched = await gather_limited(
            [eviction_api.touch_pod(self._api, *one) for one in zip(back, ledgers, strict=True)]
        )
        kept = set()
        for pod, done in zip(back, touched, strict=True):
            if not done:
                kept.add(pod.uid)
        found = {}
        for job, order in cluster.eviction_orders().items():
            if gang.split_job_name(job)[0] in kept:
                found[job] = order
        wanted = {}
        for job, claim in self._wanted.items():
            wanted[job] = EvictionOrder(claim, self._order_version(job))
        return found | wanted

    def _order_version(self, job: str) -> str:
        known = self._cluster.eviction_orders().get(job, EvictionOrder()).pod_version
        pod = self._cluster.pods.get(gang.split_job_name(job)[0])
        return pod.version if pod is not None and (not known or self._is_due(pod)) else known

    def _is_due(self, pod: Pod) -> bool:
        asked = self._asked.get(pod.uid)
        return (
            asked is None
            or asked.until <= time.monotonic()
            or asked.version not in ("", pod.version)
        )

    async def evict_pods(self) -> None:
        """Evict pods by the orders in the ledgers, and report failed cards."""
        told = []
        for one in self._failed.tell:
            told.append((one.pod, one.sentence, self._now_ns(), pod_recreation.CARD_FAILED))
        await gather_limited([pod_recreation.post_event(self._api, *one) for one in told])
        pods = eviction_api.pods_to_evict(self._cluster, self._wanted)
        whom = eviction_api.beneficiaries_by_pod(self._cluster)
        here = {pod.uid for pod in eviction_api.remaining_pods(self._cluster, self._wanted)}
        attempts = {}
        for uid, asked in self._asked.items():
            if uid in here:
                attempts[uid] = asked
        self._asked = attempts
        refused = {}
        for claim, said in self.refused.items():
            if claim in whom.values():
                refused[claim] = said
        self.refused = refused
        due = []
        for pod in pods:
            if self._is_due(pod):
                due.append(pod)
        for pod in due:
            self.refused.pop(whom.get(pod.uid, ""), None)
        answers = await gather_limited([eviction_api.evict_pod(self._api, pod) for pod in due])
        for pod, answer in zip(due, answers, strict=True):
            self._note_answer(pod, whom.get(pod.uid, ""), answer)

    def _note_answer(self, pod: Pod, claim: str, answer: EvictionAnswer) -> None:
        now = time.monotonic()
        before = self._asked.get(pod.uid)
        if answer.result is not EvictionResult.REFUSED:
            self._asked[pod.uid] = _EvictionAttempt(now + LEAST_SECONDS, LEAST_SECONDS, pod.version)
            self._counts.evictions += answer.result is EvictionResult.GOES
            if claim and answer.result is EvictionResult.GOES:
                said = f"evicted for {self._describe_beneficiary(claim, pod)}, which has precedence"
                self._events.report_pod(pod, "Preempted", said, claim)
            return
        wait = (
            min(MOST_SECONDS, 2 * before.wait)
            if before is not None and not before.version
            else LEAST_SECONDS
        )
        self._asked[pod.uid] = _EvictionAttempt(now + wait, wait)
        why_not = answer.why_not
        if not claim:
            self._events.report_pod(
                pod, "EvictionRefused", f"it is to leave, since a card of its has failed: {why_not}"
            )
            return
        mine = any(
            self._cluster.tenant_of(one) == self._cluster.tenant_of(pod)
            for one in eviction_api.waiting_pods(self._cluster, claim)
        )
        who = f"{pod.namespace}/{pod.name}" if mine else "a pod of another tenant"
        more = f": {why_not}" if mine else ""
        self.refused[claim] = (
            f"{who} is to leave for it, and its disruption budget does not allow that now{more}"
        )
        self._events.report_pod(
            pod,
            "EvictionRefused",
            f"it is to leave for {self._describe_beneficiary(claim, pod)}: {why_not}",
            claim,
        )

    def _describe_beneficiary(self, claim: str, victim: Pod) -> str:
        """As the victim's people may know it."""
        pods = eviction_api.waiting_pods(self._cluster, claim)
        if not pods or self._cluster.tenant_of(pods[0]) != self._cluster.tenant_of(victim):
            return "a claim of another tenant"
        return f"gang {pods[0].gang}" if pods[0].gang else f"{pods[0].namespace}/{pods[0].name}"

    def next_look(self) -> float | None:
        """Seconds until the next eviction is tried again; None if there is none."""
        now = time.monotonic()
        return min((asked.until - now for asked in self._asked.values()), default=None)

    async def replace_pods(self) -> None:
        """Report pods that no node takes, and delete those that are due and have an owner."""
        due = self._stuck.find_due_pods(self._cluster)
        told = []
        for pod in due.tell:
            told.append(
                (
                    pod,
                    unschedulable_message(
                        pod, self._cluster.ledger_node_of(pod.uid), self._stuck.grace
                    ),
                )
            )
        await gather_limited(
            [pod_recreation.post_event(self._api, pod, said, self._now_ns()) for pod, said in told]
        )
        results = await gather_limited(
            [pod_recreation.delete_pod(self._api, self._cluster, pod) for pod in due.delete]
        )
        asked = []
        deleted = []
        for pod, result in zip(due.delete, results, strict=True):
            if result is not EvictionResult.CHANGED:
                asked.append(pod)
            if result is EvictionResult.GOES:
                deleted.append(pod)
        # A refused deletion is tried again after twice the time as well.
        self._stuck.note_deleted(tuple(asked))
        self._counts.replacements += len(deleted)
        for pod in deleted:
            self._events.report_pod(
                pod,
                "StuckReplaced",
                f"deleted so that its owner makes another: {pod.refusal}",
                warning=True,
            )
