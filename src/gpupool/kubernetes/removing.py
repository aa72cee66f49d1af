"""Pods that go: for others, since their card has failed, or since no node takes them and their owner makes another."""

from __future__ import annotations

from collections.abc import Callable

from gpupool.kubernetes import evicting, replacing
from gpupool.kubernetes.api import KubeApi
from gpupool.kubernetes.counts import Counts
from gpupool.kubernetes.failing import Failing
from gpupool.kubernetes.pool import Pool
from gpupool.kubernetes.stuck import Stuck, sentence
from gpupool.kubernetes.together import together


class Removing:
    """One leader's; `now_ns` is the wall clock."""

    def __init__(
        self, api: KubeApi, pool: Pool, counts: Counts, stuck: Stuck, failing: Failing, now_ns: Callable[[], int]
    ) -> None:
        self._api, self._pool, self._counts, self._now_ns = api, pool, counts, now_ns
        self._stuck, self._failing = stuck, failing

    async def evict(self) -> None:
        """Pods that leave for others by what stands in the ledgers, and those whose card has failed."""
        due, now = self._failing.due(self._pool), self._now_ns()
        told = [replacing.tell(self._api, one.pod, one.sentence, now, replacing.CARD_FAILED) for one in due.tell]
        await together(told)
        pods = {pod.uid: pod for pod in (*evicting.to_ask(self._pool), *(one.pod for one in due.leave))}
        self._counts.evictions += sum(await together([evicting.ask(self._api, pod) for pod in pods.values()]))

    async def replace(self) -> None:
        """Pods that no node takes: people are told, and those that an owner makes anew are deleted in the end."""
        due = self._stuck.due(self._pool)
        told = [(pod, sentence(pod, self._pool.ledger_of(pod.uid), self._stuck.grace)) for pod in due.tell]
        await together([replacing.tell(self._api, pod, said, self._now_ns()) for pod, said in told])
        gone = await together([replacing.delete(self._api, self._pool, pod) for pod in due.delete])
        deleted = tuple(pod for pod, done in zip(due.delete, gone, strict=True) if done)
        self._stuck.deleted(deleted)
        self._counts.replacements += len(deleted)
