"""Why a pod waits, written where people look: its `PodScheduled` condition, which `kubectl describe` shows.

The reason is a switch: autoscalers add nodes for `Unschedulable` and not for `SchedulingGated`. So it is the former
only where a new node would help. A status is written when a pod's reason changed, a few per second, those that waited
longest for their sentence first; a sentence whose numbers alone changed is written again after a while, and what stands
there already is not: thousands may wait when somebody else begins to lead.

Many classes may wait, and a sentence that the plan did not find has to be found when it is read. So of each plan a
bounded number of classes is read: those that nothing was read of yet, those that the plan judged (what concerns them
has changed), and the others in turn.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import OrderedDict
from collections.abc import Mapping
from itertools import islice
from typing import Any, Protocol

from gpupool.base.errors import ApiRefused, GpupoolError
from gpupool.base.silence import busy
from gpupool.kubernetes import names, restoring
from gpupool.kubernetes.api import KubeApi
from gpupool.kubernetes.events import Events
from gpupool.kubernetes.evicting import waiting
from gpupool.kubernetes.fitting import why_nowhere
from gpupool.kubernetes.pods import Pod
from gpupool.kubernetes.pool import Pool
from gpupool.kubernetes.rules import Demand
from gpupool.model.claim import Reason, Rejection
from gpupool.scheduling.rejections import judged
from gpupool.scheduling.snapshot import ClassKey, Plan

PER_SECOND = 20.0
AGAIN_SECONDS = 30.0
READ_SECONDS = 0.5
READ_CLASSES = 40
"""Of one plan; each may be many pods. A sentence that is found when it is read takes about 0.3 ms."""
FORGOTTEN = 2_000
"""So many pods are looked at in one reading, in turn, whether they still wait."""
GATED, WAITS, UNSCHEDULABLE = "SchedulingGated", "WaitsForCards", "Unschedulable"
"""The second is the first one of a pod that has no gate."""
_A_NODE_WOULD_HELP = frozenset(
    {Reason.COMPUTE, Reason.MEMORY, Reason.NOT_WHOLE, Reason.TOO_FEW_CARDS, Reason.CPU, Reason.HOST_MEMORY, Reason.GANG}
)

_MARK = re.compile(rf"(?: on a node)? with {re.escape(names.ELIGIBLE)}[0-9a-f]+=")

log = logging.getLogger(__name__)


class Counting(Protocol):
    reason_writes: int


class Reasons:
    """What is to be written, and what was."""

    def __init__(self, api: KubeApi, counts: Counting, events: Events, pool: Pool) -> None:
        self._api, self._counts, self._events, self._pool = api, counts, events, pool
        self._every = 1 / PER_SECOND
        self._news: tuple[Plan, Mapping[str, str], bool] | None = None
        self._read = float("-inf")
        self._told: dict[str, tuple[str, str, float]] = {}
        """By pod: reason, sentence, and when it was written."""
        self._due: OrderedDict[str, tuple[Pod, str, str, str]] = OrderedDict()
        self._turn = 0
        """The number of the class that is read next."""
        self._kinds: dict[str, str] = {}
        """By pod, of what kind the reason was that an event told last."""
        self._wake = asyncio.Event()

    @property
    def told(self) -> int:
        """How many of those who wait have their sentence."""
        return len(self._told)

    def note(self, plan: Plan, better: Mapping[str, str], more: bool) -> None:
        """After a round: why who waits does; `better`: by uid or gang, what is known beside the plan.

        `more`: another round follows at once, for those whose turn it is not.
        """
        self._news = plan, better, more
        self._wake.set()

    def _sort_out(self, plan: Plan, better: Mapping[str, str], more: bool) -> None:
        """Who is to be told something; it is done a few times a second at most."""
        pool = self._pool
        self._forget()
        for key in self._to_read(plan.rejections):
            rejection = plan.rejections[key]
            if more and rejection.dominant is Reason.BEHIND:
                continue
            reason, sentence = self._with_rules(pool, key, rejection)
            for pod in pool.queue.pods_of(key):
                self._say(pod, reason, sentence, rejection.dominant)
        for name, sentence in better.items():
            for pod in waiting(pool, name):
                self._say(pod, UNSCHEDULABLE, sentence, sentence)
        for uid, sentence in pool.held_up.items():
            self._say(pool.pods[uid], GATED, sentence, sentence)
        for uid in pool.unread:
            pod = pool.pods[uid]
            self._say(pod, GATED, pod.problem, pod.problem)

    def _forget(self) -> None:
        """Pods that wait no more, of as many as are looked at."""
        pool = self._pool
        for uid in list(islice(self._told, FORGOTTEN)):
            told = self._told.pop(uid)
            if _may_be_told(pool, uid):
                self._told[uid] = told
            else:
                self._kinds.pop(uid, None)

    def _to_read(self, rejections: Mapping[ClassKey, Rejection]) -> list[ClassKey]:
        """Those of the classes whose turn it is."""
        queue, concerned = self._pool.queue, judged(rejections)
        found = dict.fromkeys(key for key in queue.come_first(READ_CLASSES) if key in rejections)
        if len(concerned) <= READ_CLASSES:
            found |= dict.fromkeys(islice(concerned, READ_CLASSES - len(found)))
        keys = queue.keys()
        for _ in keys:
            if len(found) >= READ_CLASSES:
                break
            self._turn = (self._turn + 1) % len(keys)
            if keys[self._turn] in rejections:
                found[keys[self._turn]] = None
        queue.settle(found)
        return list(found)

    def _with_rules(self, pool: Pool, key: ClassKey, rejection: Rejection) -> tuple[str, str]:
        """And which of its rules keep it from which nodes, where it has more than labels and taints."""
        reason, sentence = _reason(rejection), plain(rejection.sentence)
        pod = next(pool.queue.pods_of(key), None)
        rule = None if pod is None else pool.rules.of(pod)
        if not isinstance(rule, Demand):
            return reason, sentence
        why, helps = why_nowhere(rule, pool)
        return UNSCHEDULABLE if helps else reason, f"{sentence}; {why}" if why else sentence

    def refused(self, pod: Pod, error: GpupoolError) -> None:
        """The pod has its cards, but its release is refused."""
        self._say(pod, GATED, f"{error.code}: the release of this pod is refused: {error.message}", error.code)

    def _say(self, pod: Pod, reason: str, sentence: str, kind: str) -> None:
        """`kind`: while it stays the same, people are told by the condition alone and by no further event."""
        now = asyncio.get_running_loop().time()
        reason = WAITS if pod.direct and reason == GATED else reason
        told = self._told.get(pod.uid)
        if told is None and pod.said == (reason, sentence):  # by who led before
            told = self._told[pod.uid] = reason, sentence, now
            self._kinds[pod.uid] = kind
        if told is not None and told[0] == reason and (told[1] == sentence or now - told[2] < AGAIN_SECONDS):
            self._due.pop(pod.uid, None)
            return
        self._due[pod.uid] = pod, reason, sentence, kind
        self._wake.set()

    async def run(self) -> None:
        """Writes what is due, at its pace; until it is cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._due or self._news:
                self._read_plan()
                if self._due:
                    uid, (pod, reason, sentence, kind) = self._due.popitem(last=False)
                    if not _waits(self._pool, uid):
                        continue
                    if pod.gated:
                        with busy():
                            await self._write(pod, reason, sentence)
                    else:  # the condition of one that was let go is kube-scheduler's, or says that it is bound
                        self._told[uid] = reason, sentence, asyncio.get_running_loop().time()
                        sentence = f"{restoring.LOST}; it waits for cards there: {sentence}"
                    if self._kinds.get(pod.uid) != kind:
                        self._kinds[pod.uid] = kind
                        self._events.pod(pod, "Waiting", sentence, kind, warning=not pod.gated)
                await asyncio.sleep(self._rest())

    def _rest(self) -> float:
        """Seconds until the next sentence may be written; with none due, until the newest plan may be read."""
        if self._due or not self._news:
            return self._every
        return max(self._every, self._read + READ_SECONDS - asyncio.get_running_loop().time())

    def _read_plan(self) -> None:
        """The newest plan, where it is time."""
        now = asyncio.get_running_loop().time()
        if self._news is not None and now - self._read >= READ_SECONDS:
            news, self._news, self._read = self._news, None, now
            self._sort_out(*news)

    async def _write(self, pod: Pod, reason: str, sentence: str) -> None:
        path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/status"
        self._told[pod.uid] = reason, sentence, asyncio.get_running_loop().time()
        self._counts.reason_writes += 1
        try:
            await self._api.patch(path, condition(pod, reason, sentence), "application/strategic-merge-patch+json")
        except ApiRefused as error:
            log.debug("%s/%s: %s", pod.namespace, pod.name, error)  # it is gone, or another of its name is there
            if pod.direct and error.conflict:  # or it has changed: the next round says it of what it is then
                self._told.pop(pod.uid, None)
        except GpupoolError as error:
            log.warning("the reason of %s/%s is written later: %s", pod.namespace, pod.name, error)
            del self._told[pod.uid]


def condition(pod: Pod, reason: str, sentence: str) -> dict[str, Any]:
    """A strategic merge patch for a pod's status; conditions are merged by type.

    Of a direct pod it names the version: else it might say of one that was just bound that it is not.
    """
    one = {"type": names.CONDITION, "status": "False", "reason": reason, "message": sentence}
    version = {"resourceVersion": pod.version} if pod.direct else {}
    return {"metadata": {"uid": pod.uid, **version}, "status": {"conditions": [one]}}


def plain(sentence: str) -> str:
    """Without the label that stands for where the pod may go.

    >>> plain("needs a whole card with gpupool.dev/eligible-0123456789abcdef=; all 8 cards are in use")
    'needs a whole card where the pod may go; all 8 cards are in use'
    """
    return _MARK.sub(" where the pod may go", sentence)


def _reason(rejection: Rejection) -> str:
    helps = rejection.fits_ever and rejection.dominant in _A_NODE_WOULD_HELP
    return UNSCHEDULABLE if helps else GATED


def _waits(pool: Pool, uid: str) -> bool:
    """Whether the pod has no cards, or has them and is not let go."""
    return any(uid in where for where in (pool.queue, pool.held_up, pool.seated, pool.unread))


def _may_be_told(pool: Pool, uid: str) -> bool:
    pod = pool.pods.get(uid)
    return pod is not None and (pod.gated or uid in pool.queue)
