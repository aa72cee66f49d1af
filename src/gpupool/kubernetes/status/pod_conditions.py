"""Writes why a pod waits into its `PodScheduled` condition, which `kubectl describe` shows.

The reason is a switch: autoscalers add nodes for `Unschedulable` and not for `SchedulingGated`. So
it is `Unschedulable` only if a new node would help. A status is written when a pod's reason has
changed, a few per second, the longest wait first. A sentence of which only numbers changed is
written again after a while. A sentence that stands there already is not written: thousands of pods
may wait when another controller begins to lead.

Many classes may wait, and the sentence of a class is computed when it is read. So a bounded number
of classes is read per plan: new ones, those that the plan judged, and the others in turn.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import OrderedDict
from collections.abc import Mapping
from itertools import islice
from typing import Any, Protocol

from gpupool.base.errors import ApiServerRejection, GpupoolError
from gpupool.base.silence import mark_busy
from gpupool.kubernetes.cache import ledger_restore
from gpupool.kubernetes.cache.cluster import ClusterCache
from gpupool.kubernetes.cache.plan_conflicts import explain_rule
from gpupool.kubernetes.client.api import KubeApi
from gpupool.kubernetes.eviction.eviction_api import waiting_pods
from gpupool.kubernetes.predicates.predicates import PodDemand
from gpupool.kubernetes.reporting.events import EventWriter
from gpupool.kubernetes.resources import names
from gpupool.kubernetes.resources.pod import Pod
from gpupool.model.claim import Rejection, RejectionReason
from gpupool.scheduling import ClassKey, Plan, select_judged

PER_SECOND = 20.0
AGAIN_SECONDS = 30.0
READ_SECONDS = 0.5
#: Of one plan; each may be many pods. A sentence that is found when it is read takes about 0.3
#: ms.
READ_CLASSES = 40
#: So many pods are looked at in one reading, in turn, whether they still wait.
FORGOTTEN = 2_000
GATED = "SchedulingGated"
WAITS = "WaitsForCards"
#: The second is the first one of a pod that has no gate.
UNSCHEDULABLE = "Unschedulable"
_A_NODE_WOULD_HELP = frozenset(
    {
        RejectionReason.COMPUTE,
        RejectionReason.MEMORY,
        RejectionReason.NOT_WHOLE,
        RejectionReason.TOO_FEW_CARDS,
        RejectionReason.CPU,
        RejectionReason.HOST_MEMORY,
        RejectionReason.GANG,
    }
)

_MARK = re.compile(rf"(?: on a node)? with {re.escape(names.ELIGIBLE)}[0-9a-f]+=")

log = logging.getLogger(__name__)


class ReasonCounter(Protocol):
    reason_writes: int


class PodConditions:
    """Conditions to write, and those that were written."""

    def __init__(
        self, api: KubeApi, counts: ReasonCounter, events: EventWriter, cluster: ClusterCache
    ) -> None:
        self._api = api
        self._counts = counts
        self._events = events
        self._cluster = cluster
        self._every = 1 / PER_SECOND
        self._news: tuple[Plan, Mapping[str, str], bool] | None = None
        self._read = float("-inf")
        #: By pod: reason, sentence, and when it was written.
        self._told: dict[str, tuple[str, str, float]] = {}
        self._due: OrderedDict[str, tuple[Pod, str, str, str]] = OrderedDict()
        #: The number of the class that is read next.
        self._turn = 0
        #: By pod, of what kind the reason was that an event told last.
        self._kinds: dict[str, str] = {}
        self._wake = asyncio.Event()

    @property
    def condition_count(self) -> int:
        """The number of waiting pods that have their condition."""
        return len(self._told)

    def note_plan(self, plan: Plan, better: Mapping[str, str], more: bool) -> None:
        """Note a plan after it was written.

        Args:
            better: by uid or gang, a more precise reason than the plan's.
            more: another plan follows at once, so pods that only wait for their turn are not
                reported.
        """
        self._news = plan, better, more
        self._wake.set()

    def _sort_out(self, plan: Plan, better: Mapping[str, str], more: bool) -> None:
        """Queue the pods whose condition has to change; runs a few times a second at most."""
        cluster = self._cluster
        self._forget()
        for key in self._to_read(plan.rejections):
            rejection = plan.rejections[key]
            if more and rejection.dominant is RejectionReason.BEHIND:
                continue
            reason, sentence = self._with_rules(cluster, key, rejection)
            for pod in cluster.queue.pods_of(key):
                self._say(pod, reason, sentence, rejection.dominant)
        for name, sentence in better.items():
            for pod in waiting_pods(cluster, name):
                self._say(pod, UNSCHEDULABLE, sentence, sentence)
        for uid, sentence in cluster.unplaceable.items():
            self._say(cluster.pods[uid], GATED, sentence, sentence)
        for uid in cluster.unreadable:
            pod = cluster.pods[uid]
            self._say(pod, GATED, pod.problem, pod.problem)

    def _forget(self) -> None:
        """Pods that wait no more, of as many as are looked at."""
        cluster = self._cluster
        for uid in list(islice(self._told, FORGOTTEN)):
            told = self._told.pop(uid)
            if _may_be_told(cluster, uid):
                self._told[uid] = told
            else:
                self._kinds.pop(uid, None)

    def _to_read(self, rejections: Mapping[ClassKey, Rejection]) -> list[ClassKey]:
        """Those of the classes whose turn it is."""
        queue = self._cluster.queue
        concerned = select_judged(rejections)
        found = dict.fromkeys(
            key for key in queue.first_arrivals(READ_CLASSES) if key in rejections
        )
        if len(concerned) <= READ_CLASSES:
            found |= dict.fromkeys(islice(concerned, READ_CLASSES - len(found)))
        keys = queue.class_keys()
        for _ in keys:
            if len(found) >= READ_CLASSES:
                break
            self._turn = (self._turn + 1) % len(keys)
            if keys[self._turn] in rejections:
                found[keys[self._turn]] = None
        queue.clear_arrivals(found)
        return list(found)

    def _with_rules(
        self, cluster: ClusterCache, key: ClassKey, rejection: Rejection
    ) -> tuple[str, str]:
        """And which of its rules keep it from which nodes, where it has more than labels and
        taints."""
        reason = _reason(rejection)
        sentence = hide_rule_labels(rejection.sentence)
        pod = next(cluster.queue.pods_of(key), None)
        rule = None if pod is None else cluster.predicates.rule_of(pod)
        if not isinstance(rule, PodDemand):
            return reason, sentence
        why, helps = explain_rule(rule, cluster)
        return UNSCHEDULABLE if helps else reason, f"{sentence}; {why}" if why else sentence

    def note_refused_release(self, pod: Pod, error: GpupoolError) -> None:
        """Report that the pod has its cards and its release was refused."""
        self._say(
            pod,
            GATED,
            f"{error.code}: the release of this pod is refused: {error.message}",
            error.code,
        )

    def _say(self, pod: Pod, reason: str, sentence: str, kind: str) -> None:
        """`kind`: while it stays the same, people are told by the condition alone and by no further
        event."""
        now = asyncio.get_running_loop().time()
        reason = WAITS if pod.direct and reason == GATED else reason
        told = self._told.get(pod.uid)
        if told is None and pod.written_condition == (reason, sentence):  # by who led before
            told = self._told[pod.uid] = reason, sentence, now
            self._kinds[pod.uid] = kind
        if (
            told is not None
            and told[0] == reason
            and (told[1] == sentence or now - told[2] < AGAIN_SECONDS)
        ):
            self._due.pop(pod.uid, None)
            return
        self._due[pod.uid] = pod, reason, sentence, kind
        self._wake.set()

    async def run(self) -> None:
        """Write conditions at a limited rate until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._due or self._news:
                self._read_plan()
                if self._due:
                    uid, (pod, reason, sentence, kind) = self._due.popitem(last=False)
                    if not _waits(self._cluster, uid):
                        continue
                    if pod.gated:
                        with mark_busy():
                            await self._write(pod, reason, sentence)
                    else:  # the condition of one that was let go is kube-scheduler's, or says that it is bound
                        self._told[uid] = reason, sentence, asyncio.get_running_loop().time()
                        sentence = f"{ledger_restore.LOST}; it waits for cards there: {sentence}"
                    if self._kinds.get(pod.uid) != kind:
                        self._kinds[pod.uid] = kind
                        self._events.report_pod(
                            pod, "Waiting", sentence, kind, warning=not pod.gated
                        )
                await asyncio.sleep(self._rest())

    def _rest(self) -> float:
        """Seconds until the next sentence may be written; with none due, until the newest plan may
        be read."""
        if self._due or not self._news:
            return self._every
        return max(self._every, self._read + READ_SECONDS - asyncio.get_running_loop().time())

    def _read_plan(self) -> None:
        """The newest plan, where it is time."""
        now = asyncio.get_running_loop().time()
        if self._news is not None and now - self._read >= READ_SECONDS:
            news = self._news
            self._news = None
            self._read = now
            self._sort_out(*news)

    async def _write(self, pod: Pod, reason: str, sentence: str) -> None:
        path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/status"
        self._told[pod.uid] = reason, sentence, asyncio.get_running_loop().time()
        self._counts.reason_writes += 1
        try:
            await self._api.patch(
                path,
                condition_patch(pod, reason, sentence),
                "application/strategic-merge-patch+json",
            )
        except ApiServerRejection as error:
            log.debug(
                "%s/%s: %s", pod.namespace, pod.name, error
            )  # it is gone, or another of its name is there
            if (
                pod.direct and error.is_conflict
            ):  # or it has changed: the next round says it of what it is then
                self._told.pop(pod.uid, None)
        except GpupoolError as error:
            log.warning("the reason of %s/%s is written later: %s", pod.namespace, pod.name, error)
            del self._told[pod.uid]


def condition_patch(pod: Pod, reason: str, sentence: str) -> dict[str, Any]:
    """A strategic merge patch for a pod's status; conditions are merged by type.

    For a direct pod it names the version. Otherwise it might claim of a pod that was just bound
    that it is not.
    """
    one = {"type": names.CONDITION, "status": "False", "reason": reason, "message": sentence}
    version = {"resourceVersion": pod.version} if pod.direct else {}
    return {"metadata": {"uid": pod.uid, **version}, "status": {"conditions": [one]}}


def hide_rule_labels(sentence: str) -> str:
    """Replace the label that stands for a pod's rule by words.

    >>> hide_rule_labels("a card with gpupool.dev/eligible-0123456789abcdef=; all 8 are in use")
    'a card where the pod may go; all 8 are in use'
    """
    return _MARK.sub(" where the pod may go", sentence)


def _reason(rejection: Rejection) -> str:
    helps = rejection.fits_ever and rejection.dominant in _A_NODE_WOULD_HELP
    return UNSCHEDULABLE if helps else GATED


def _waits(cluster: ClusterCache, uid: str) -> bool:
    """Whether the pod has no cards, or has them and is not let go."""
    for where in (
        cluster.queue,
        cluster.unplaceable,
        cluster.awaiting_release,
        cluster.unreadable,
    ):
        if uid in where:
            return True
    return False


def _may_be_told(cluster: ClusterCache, uid: str) -> bool:
    pod = cluster.pods.get(uid)
    return pod is not None and (pod.gated or uid in cluster.queue)
