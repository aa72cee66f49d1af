"""Queues, gangs and topology in the words of systems that divide no cards: Kueue, coscheduling, LWS.

Sources: kueue.sigs.k8s.io (queue name, pod groups, topology-aware scheduling);
kubernetes-sigs/scheduler-plugins (PodGroup, lightweight coscheduling); Kubernetes 1.37
`spec.schedulingGroup`; leaderworkerset.sigs.k8s.io.
"""

from __future__ import annotations

from gpupool.dialects import amounts, levels
from gpupool.dialects.contract import Dialect, GangHint, KnownWord, PodHints, PodReading, WordPlace
from gpupool.dialects.facts import NodeFacts
from gpupool.dialects.pod import PodView
from gpupool.model.claim import TopologyConstraint

#: Kueue: kueue.sigs.k8s.io/docs/reference/labels-and-annotations.
_QUEUE = "kueue.x-k8s.io/queue-name"
_KUEUE_GROUP = "kueue.x-k8s.io/pod-group-name"
_KUEUE_TOTAL = "kueue.x-k8s.io/pod-group-total-count"
#: Lightweight coscheduling of scheduler-plugins before its PodGroup; arena still writes it.
_LIGHT = "pod-group.scheduling.sigs.k8s.io/name"
_LIGHT_MIN = "pod-group.scheduling.sigs.k8s.io/min-available"
#: Coscheduling of scheduler-plugins; its minimum is in a PodGroup object that no pod carries.
_GROUP = "scheduling.x-k8s.io/pod-group"
#: Topology-aware scheduling of Kueue: the value is a node label.
_REQUIRED = "kueue.x-k8s.io/podset-required-topology"
_PREFERRED = "kueue.x-k8s.io/podset-preferred-topology"
#: LeaderWorkerSet: one group per domain; that no other group may be there is not kept.
_EXCLUSIVE = "leaderworkerset.sigs.k8s.io/exclusive-topology"


def read_words(pod: PodView, _facts: NodeFacts) -> PodReading:
    queue = pod.find_label(_QUEUE) or pod.find_annotation(_QUEUE)
    required = pod.find_annotation(_REQUIRED) or pod.find_annotation(_EXCLUSIVE)
    preferred = pod.find_annotation(_PREFERRED)
    within = (
        TopologyConstraint(levels.name_level(required), levels.name_level(preferred))
        if required or preferred
        else None
    )
    notes = tuple(
        f"{word}: the level {levels.name_level(word)}"
        for word in (required, preferred)
        if word is not None
    )
    return PodReading(
        hints=PodHints(
            None if queue is None else amounts.read_text(queue), _read_gang(pod), within
        ),
        notes=notes,
    )


def _read_gang(pod: PodView) -> GangHint | None:
    """The first that is said; two of them in one pod are two systems' names for one group."""
    kueue = pod.find_label(_KUEUE_GROUP)
    light = pod.find_label(_LIGHT)
    group = pod.find_label(_GROUP)
    if kueue is not None:
        total = pod.find_annotation(_KUEUE_TOTAL)
        many = None if total is None else amounts.parse_integer(total)
        return GangHint(amounts.read_text(kueue), many, many)
    if light is not None:
        least = pod.find_label(_LIGHT_MIN)
        return GangHint(
            amounts.read_text(light), None if least is None else amounts.parse_integer(least)
        )
    if group is not None:
        return GangHint(amounts.read_text(group))
    return None if pod.gang_name is None else GangHint(pod.gang_name)


DIALECT = Dialect(
    "groups",
    "Kueue, coscheduling, LWS, Kubernetes' own groups",
    "https://kueue.sigs.k8s.io",
    (
        KnownWord(_QUEUE, WordPlace.LABEL, "name", "queue"),
        KnownWord(_QUEUE, WordPlace.ANNOTATION, "name", "queue"),
        KnownWord(_KUEUE_GROUP, WordPlace.LABEL, "name", "the gang the pod belongs to"),
        KnownWord(_KUEUE_TOTAL, WordPlace.ANNOTATION, "integer", "so many start together"),
        KnownWord(_LIGHT, WordPlace.LABEL, "name", "the gang the pod belongs to (also arena's)"),
        KnownWord(_LIGHT_MIN, WordPlace.LABEL, "integer", "so many start together"),
        KnownWord(_GROUP, WordPlace.LABEL, "name", "the gang the pod belongs to"),
        KnownWord(_REQUIRED, WordPlace.ANNOTATION, "node label", "all within one such domain"),
        KnownWord(
            _PREFERRED, WordPlace.ANNOTATION, "node label", "within one such domain, as a wish"
        ),
        KnownWord(_EXCLUSIVE, WordPlace.ANNOTATION, "node label", "all within one such domain"),
    ),
    read_words,
)
