"""Queues, gangs and nearness as those say them who share out no cards: Kubernetes, Kueue, coscheduling, LWS.

Sources: kueue.sigs.k8s.io (queue name, pod groups, topology-aware scheduling); kubernetes-sigs/scheduler-plugins
(PodGroup, lightweight coscheduling); Kubernetes 1.37 `spec.schedulingGroup`; leaderworkerset.sigs.k8s.io.
"""

from __future__ import annotations

from gpupool.dialects import amounts, levels
from gpupool.dialects.contract import Dialect, GangHint, Hints, Name, Reading, Where
from gpupool.dialects.facts import NodeFacts
from gpupool.dialects.pod import Pod
from gpupool.model.claim import Within

_QUEUE = "kueue.x-k8s.io/queue-name"
_KUEUE_GROUP, _KUEUE_TOTAL = "kueue.x-k8s.io/pod-group-name", "kueue.x-k8s.io/pod-group-total-count"
_LIGHT, _LIGHT_MIN = "pod-group.scheduling.sigs.k8s.io/name", "pod-group.scheduling.sigs.k8s.io/min-available"
_GROUP = "scheduling.x-k8s.io/pod-group"
_REQUIRED, _PREFERRED = "kueue.x-k8s.io/podset-required-topology", "kueue.x-k8s.io/podset-preferred-topology"
_EXCLUSIVE = "leaderworkerset.sigs.k8s.io/exclusive-topology"


def read(pod: Pod, _facts: NodeFacts) -> Reading:
    queue = pod.label(_QUEUE) or pod.annotation(_QUEUE)
    required = pod.annotation(_REQUIRED) or pod.annotation(_EXCLUSIVE)
    preferred = pod.annotation(_PREFERRED)
    within = Within(levels.of(required), levels.of(preferred)) if required or preferred else None
    notes = tuple(f"{word}: the level {levels.of(word)}" for word in (required, preferred) if word is not None)
    return Reading(hints=Hints(None if queue is None else amounts.text(queue), _gang(pod), within), notes=notes)


def _gang(pod: Pod) -> GangHint | None:
    """The first that is said; two of them in one pod are two systems' names for one group."""
    kueue, light, group = pod.label(_KUEUE_GROUP), pod.label(_LIGHT), pod.label(_GROUP)
    if kueue is not None:
        total = pod.annotation(_KUEUE_TOTAL)
        many = None if total is None else amounts.integer(total)
        return GangHint(amounts.text(kueue), many, many)
    if light is not None:
        least = pod.label(_LIGHT_MIN)
        return GangHint(amounts.text(light), None if least is None else amounts.integer(least))
    if group is not None:
        return GangHint(amounts.text(group))
    return None if pod.gang_name is None else GangHint(pod.gang_name)


DIALECT = Dialect(
    "groups",
    "Kueue, coscheduling, LWS, Kubernetes' own groups",
    "https://kueue.sigs.k8s.io",
    (
        Name(_QUEUE, Where.LABEL, "name", "queue"),
        Name(_QUEUE, Where.ANNOTATION, "name", "queue"),
        Name(_KUEUE_GROUP, Where.LABEL, "name", "the gang the pod belongs to"),
        Name(_KUEUE_TOTAL, Where.ANNOTATION, "integer", "so many start together"),
        Name(_LIGHT, Where.LABEL, "name", "the gang the pod belongs to (also arena's)"),
        Name(_LIGHT_MIN, Where.LABEL, "integer", "so many start together"),
        Name(_GROUP, Where.LABEL, "name", "the gang the pod belongs to"),
        Name(_REQUIRED, Where.ANNOTATION, "node label", "all within one such domain"),
        Name(_PREFERRED, Where.ANNOTATION, "node label", "within one such domain, as a wish"),
        Name(_EXCLUSIVE, Where.ANNOTATION, "node label", "all within one such domain"),
    ),
    read,
)
