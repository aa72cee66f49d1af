"""Pods that go: for others, since their card has failed, or since no node takes them and their owner makes another."""

from __future__ import annotations

import time
from collections.abc import Callable

from gpupool.kubernetes import evicting, replacing
from gpupool.kubernetes.api import KubeApi
from gpupool.kubernetes.counts import Counts
from gpupool.kubernetes.events import Events
from gpupool.kubernetes.failing import Failing
from gpupool.kubernetes.pods import Pod
from gpupool.kubernetes.pool import Pool
from gpupool.kubernetes.stuck import Stuck, sentence
from gpupool.kubernetes.together import together

LEAST_SECONDS, MOST_SECONDS = 1.0, 15.0
"""How soon a pod whose budget did not allow it to go is asked again: later each time."""


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
        self._again: dict[str, tuple[float, float]] = {}
        """By pod that may not go: when it is asked again, and after how long."""
        self.refused: dict[str, str] = {}
        """By claim for whom somebody is to leave who may not, why it waits."""

    async def evict(self) -> None:
        """Pods that leave for others by what stands in the ledgers, and those whose card has failed."""
        due, now = self._failing.due(self._pool), time.monotonic()
        told = [(one.pod, one.sentence, self._now_ns(), replacing.CARD_FAILED) for one in due.tell]
        await together([replacing.tell(self._api, *one) for one in told])
        pods = {pod.uid: pod for pod in (*evicting.to_ask(self._pool), *(one.pod for one in due.leave))}
        self._again = {uid: again for uid, again in self._again.items() if uid in pods}
        whom = evicting.whom(self._pool)
        self.refused = {claim: said for claim, said in self.refused.items() if claim in whom.values()}
        asked = [pod for pod in pods.values() if self._again.get(pod.uid, (now, 0.0))[0] <= now]
        for pod in asked:
            self.refused.pop(whom.get(pod.uid, ""), None)
        answers = await together([evicting.ask(self._api, pod) for pod in asked])
        for pod, why_not in zip(asked, answers, strict=True):
            self._answered(pod, whom.get(pod.uid, ""), why_not, now)

    def _answered(self, pod: Pod, claim: str, why_not: str, now: float) -> None:
        if not why_not:
            self._again.pop(pod.uid, None)
            self._counts.evictions += 1
            if claim:
                said = f"evicted for {self._named(claim, pod)}, which has precedence"
                self._events.pod(pod, "Preempted", said, claim)
            return
        wait = min(MOST_SECONDS, 2 * self._again[pod.uid][1]) if pod.uid in self._again else LEAST_SECONDS
        self._again[pod.uid] = now + wait, wait
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
        return min((at - now for at, _ in self._again.values()), default=None)

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
