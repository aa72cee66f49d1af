"""Pods that go: for others, since their card has failed, or since no node takes them and their owner makes another."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from gpupool.kubernetes import evicting, gangs, replacing
from gpupool.kubernetes.api import KubeApi
from gpupool.kubernetes.counts import Counts
from gpupool.kubernetes.events import Events
from gpupool.kubernetes.evicting import Answer, Result
from gpupool.kubernetes.failing import Due, Failing
from gpupool.kubernetes.objects import Order
from gpupool.kubernetes.pods import Pod
from gpupool.kubernetes.pool import Pool
from gpupool.kubernetes.stuck import Stuck, sentence
from gpupool.kubernetes.together import together
from gpupool.scheduling.snapshot import Eviction

LEAST_SECONDS, MOST_SECONDS = 1.0, 15.0
"""How soon a pod whose budget did not allow it to go is asked again: later each time."""


class _Asked(NamedTuple):
    until: float
    """When it is asked again, and after how long."""
    wait: float
    version: str = ""
    """A pod that is another by then is asked at once; empty: not even then."""


class Removing:
    """One leader's; `now_ns` is the wall clock."""

    def __init__(
        self,
        api: KubeApi,
        pool: Pool,
        counts: Counts,
        stuck: Stuck,
        failing: Failing,
        events: Events,
        now_ns: Callable[[], int],
    ) -> None:
        self._api, self._pool, self._counts, self._now_ns = api, pool, counts, now_ns
        self._stuck, self._failing, self._events = stuck, failing, events
        self._asked: dict[str, _Asked] = {}
        self._wanted: Mapping[str, str] = {}
        self._failed = Due()
        self.refused: dict[str, str] = {}
        """By claim for whom somebody is to leave who may not, why it waits."""

    async def orders(self, evictions: Iterable[Eviction]) -> dict[str, Order]:
        """By claim the order to leave that its ledger has to hold, with these of a plan.

        One that is wanted no more is among them until its pod was touched (`evicting`). It is given anew, with the
        pod's newest version, only when the pod is to be asked.
        """
        pool = self._pool
        self._failed = self._failing.due(pool)
        cards_failed = [entry for one in self._failed.leave for entry in pool.entries_of(one.pod.uid)]
        self._wanted = {gangs.job_name(entry.uid, entry.container): "" for entry in cards_failed} | pool.leaving()
        self._wanted |= {one.job: one.beneficiary for one in evictions}
        back = evicting.taken_back(pool, self._wanted)
        ledgers = [pool.ledgers[pool.ledger_of(pod.uid)].version for pod in back]
        touched = await together([evicting.touch(self._api, *one) for one in zip(back, ledgers, strict=True)])
        kept = {pod.uid for pod, done in zip(back, touched, strict=True) if not done}
        found = {job: order for job, order in pool.orders().items() if gangs.parts_of(job)[0] in kept}
        return found | {job: Order(claim, self._version(job)) for job, claim in self._wanted.items()}

    def _version(self, job: str) -> str:
        known = self._pool.orders().get(job, Order()).at
        pod = self._pool.pods.get(gangs.parts_of(job)[0])
        return pod.version if pod is not None and (not known or self._is_due(pod)) else known

    def _is_due(self, pod: Pod) -> bool:
        asked = self._asked.get(pod.uid)
        return asked is None or asked.until <= time.monotonic() or asked.version not in ("", pod.version)

    async def evict(self) -> None:
        """Pods that leave for others and those whose card has failed, by what stands in the ledgers."""
        told = [(one.pod, one.sentence, self._now_ns(), replacing.CARD_FAILED) for one in self._failed.tell]
        await together([replacing.tell(self._api, *one) for one in told])
        pods, whom = evicting.to_ask(self._pool, self._wanted), evicting.whom(self._pool)
        here = {pod.uid for pod in evicting.still_there(self._pool, self._wanted)}
        self._asked = {uid: asked for uid, asked in self._asked.items() if uid in here}
        self.refused = {claim: said for claim, said in self.refused.items() if claim in whom.values()}
        due = [pod for pod in pods if self._is_due(pod)]
        for pod in due:
            self.refused.pop(whom.get(pod.uid, ""), None)
        answers = await together([evicting.ask(self._api, pod) for pod in due])
        for pod, answer in zip(due, answers, strict=True):
            self._answered(pod, whom.get(pod.uid, ""), answer)

    def _answered(self, pod: Pod, claim: str, answer: Answer) -> None:
        now, before = time.monotonic(), self._asked.get(pod.uid)
        if answer.result is not Result.REFUSED:
            self._asked[pod.uid] = _Asked(now + LEAST_SECONDS, LEAST_SECONDS, pod.version)
            self._counts.evictions += answer.result is Result.GOES
            if claim and answer.result is Result.GOES:
                said = f"evicted for {self._named(claim, pod)}, which has precedence"
                self._events.pod(pod, "Preempted", said, claim)
            return
        wait = min(MOST_SECONDS, 2 * before.wait) if before is not None and not before.version else LEAST_SECONDS
        self._asked[pod.uid], why_not = _Asked(now + wait, wait), answer.why_not
        if not claim:
            self._events.pod(pod, "EvictionRefused", f"it is to leave, since a card of its has failed: {why_not}")
            return
        mine = any(self._pool.tenant(one) == self._pool.tenant(pod) for one in evicting.waiting(self._pool, claim))
        who = f"{pod.namespace}/{pod.name}" if mine else "a pod of another tenant"
        more = f": {why_not}" if mine else ""
        self.refused[claim] = f"{who} is to leave for it, and its disruption budget does not allow that now{more}"
        self._events.pod(pod, "EvictionRefused", f"it is to leave for {self._named(claim, pod)}: {why_not}", claim)

    def _named(self, claim: str, victim: Pod) -> str:
        """As the victim's people may know it."""
        pods = evicting.waiting(self._pool, claim)
        if not pods or self._pool.tenant(pods[0]) != self._pool.tenant(victim):
            return "a claim of another tenant"
        return f"gang {pods[0].gang}" if pods[0].gang else f"{pods[0].namespace}/{pods[0].name}"

    def next_look(self) -> float | None:
        """Seconds until somebody is asked again."""
        now = time.monotonic()
        return min((asked.until - now for asked in self._asked.values()), default=None)

    async def replace(self) -> None:
        """Pods that no node takes: people are told, and those that an owner makes anew are deleted in the end."""
        due = self._stuck.due(self._pool)
        told = [(pod, sentence(pod, self._pool.ledger_of(pod.uid), self._stuck.grace)) for pod in due.tell]
        await together([replacing.tell(self._api, pod, said, self._now_ns()) for pod, said in told])
        gone = await together([replacing.delete(self._api, self._pool, pod) for pod in due.delete])
        deleted = tuple(pod for pod, done in zip(due.delete, gone, strict=True) if done)
        self._stuck.deleted(deleted)
        self._counts.replacements += len(deleted)
        for pod in deleted:
            self._events.pod(
                pod, "StuckReplaced", f"deleted so that its owner makes another: {pod.refusal}", warning=True
            )
