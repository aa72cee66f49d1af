"""Volcano: vGPUs (HAMi's core under Volcano's names), the older shares it only counted, queues and
groups.

Sources: Project-HAMi/volcano-vgpu-device-plugin README and examples; volcano-sh/volcano
pkg/scheduler/api/devices; HAMi issue 2187 (a forgotten memory factor is wrong ten times over).
"""

from __future__ import annotations

from gpupool.base.errors import NotExpressible
from gpupool.base.units import MIB, WHOLE
from gpupool.dialects import amounts
from gpupool.dialects.contract import (
    NO_COMPUTE,
    CardFilter,
    ContainerAsk,
    Dialect,
    GangHint,
    KnownWord,
    PodHints,
    PodReading,
    WordPlace,
)
from gpupool.dialects.facts import NodeFacts
from gpupool.dialects.kubernetes import hami_core
from gpupool.dialects.kubernetes.hami_core import ResourceKeys
from gpupool.dialects.pod import PlacedWord, PodContainer, PodView

KEYS = ResourceKeys(
    "volcano",
    "volcano.sh/vgpu-number",
    "volcano.sh/vgpu-memory",
    "volcano.sh/vgpu-memory-percentage",
    "volcano.sh/vgpu-cores",
    doubtful=1000,
)
#: Volcano's GPU sharing before its vGPU: it counted memory and limited nothing.
OLD_MEMORY = "volcano.sh/gpu-memory"
OLD_NUMBER = "volcano.sh/gpu-number"
_UUIDS = "volcano.sh/vgpu-use-gpuuuid"
_NOT_UUIDS = "volcano.sh/vgpu-nouse-gpuuuid"
_MODE = "volcano.sh/vgpu-mode"
#: Both spellings are in use, on annotations and on labels (volcano-sh/apis).
_QUEUES = ("volcano.sh/queue-name", "scheduling.volcano.sh/queue-name")
_GROUP = "scheduling.k8s.io/group-name"
_PREEMPTABLE = "volcano.sh/preemptable"


def read_words(pod: PodView, facts: NodeFacts) -> PodReading:
    mode = hami_core.find_mig_mode(pod.find_annotation(_MODE))
    asks = {}
    for one in pod.containers:
        if (ask := _read_ask(one, facts, mode)) is not None:
            asks[one.name] = ask
    return PodReading(asks, _read_filter(pod), hints=_read_hints(pod))


def _read_ask(one: PodContainer, facts: NodeFacts, mode: PlacedWord | None) -> ContainerAsk | None:
    if one.asks_for(KEYS.count, *KEYS.amount_keys):
        found = hami_core.read_ask(one, KEYS, facts.volcano_memory_factor, facts.hami_core_policy)
        if mode is not None:
            return hami_core.choose_slice(one, found, mode, facts.hami_mig_profiles)
        return hami_core.add_urgency(one, found)
    return _read_older(one) if one.asks_for(OLD_MEMORY, OLD_NUMBER) else None


def _read_older(one: PodContainer) -> ContainerAsk:
    memory = one.find_resource(OLD_MEMORY)
    number = one.find_resource(OLD_NUMBER)
    if memory is not None and number is not None:
        raise NotExpressible(
            f"{memory} and {number}: Volcano has either a part of one card or whole cards",
            hint=f"leave out {OLD_MEMORY} for whole cards",
            path=number.path,
        )
    if number is not None:
        return ContainerAsk(
            amounts.parse_integer(number), WHOLE, rules=(f"volcano: {number} whole cards",)
        )
    assert memory is not None
    size = amounts.parse_mebibytes(memory)
    return ContainerAsk(
        memory_bytes=size,
        rules=(f"volcano: {memory} = {size // MIB} MiB of one card",),
        guesses=(NO_COMPUTE,),
        notes=("Volcano only counts this memory; here it is fenced",),
    )


def _read_filter(pod: PodView) -> CardFilter:
    use = pod.find_annotation(_UUIDS)
    refuse = pod.find_annotation(_NOT_UUIDS)
    return CardFilter(
        uuids=() if use is None else amounts.read_list(use),
        not_uuids=() if refuse is None else amounts.read_list(refuse),
    )


def _read_hints(pod: PodView) -> PodHints:
    said = []
    for key in _QUEUES:
        for word in (pod.find_annotation(key), pod.find_label(key)):
            if word is not None:
                said.append(word)
    group = pod.find_annotation(_GROUP)
    yields = pod.find_annotation(_PREEMPTABLE) or pod.find_label(_PREEMPTABLE)
    return PodHints(
        queue=amounts.read_text(said[0]) if said else None,
        gang=None if group is None else GangHint(amounts.read_text(group)),
        preemptible=None if yields is None else amounts.read_truth(yields),
    )


DIALECT = Dialect(
    "volcano",
    "Volcano vGPU",
    "https://github.com/Project-HAMi/volcano-vgpu-device-plugin",
    (
        KnownWord(
            KEYS.count,
            WordPlace.RESOURCE,
            "integer",
            "so many distinct cards, each with the share below",
        ),
        KnownWord(
            KEYS.memory,
            WordPlace.RESOURCE,
            "MiB × `volcano_memory_factor`",
            "memory on each card; from 64 to 999 the factor must be known",
        ),
        KnownWord(
            KEYS.part,
            WordPlace.RESOURCE,
            "0-100",
            "part of each card's memory; not beside vgpu-memory",
        ),
        KnownWord(
            KEYS.cores,
            WordPlace.RESOURCE,
            "0-100",
            "percent of each card's compute, as nvidia.com/gpucores",
        ),
        KnownWord(
            OLD_MEMORY,
            WordPlace.RESOURCE,
            "MiB",
            "older share, counted and not fenced there; fenced here",
        ),
        KnownWord(OLD_NUMBER, WordPlace.RESOURCE, "integer", "so many whole cards"),
        KnownWord(_UUIDS, WordPlace.ANNOTATION, "list", "only these cards"),
        KnownWord(
            _NOT_UUIDS, WordPlace.ANNOTATION, "list", "not these cards; it wins over the line above"
        ),
        KnownWord(
            _MODE,
            WordPlace.ANNOTATION,
            "`hami-core`, `mig`",
            "`mig`: the smallest of `hami_mig_profiles` that holds the memory; without that fact refused",
        ),
        KnownWord(_QUEUES[0], WordPlace.ANNOTATION, "name", "queue"),
        KnownWord(_QUEUES[0], WordPlace.LABEL, "name", "queue"),
        KnownWord(_QUEUES[1], WordPlace.ANNOTATION, "name", "queue"),
        KnownWord(_GROUP, WordPlace.ANNOTATION, "name", "the gang the pod belongs to"),
        KnownWord(_PREEMPTABLE, WordPlace.ANNOTATION, "bool", "may be preempted"),
        KnownWord(_PREEMPTABLE, WordPlace.LABEL, "bool", "may be preempted"),
    ),
    read_words,
    prefixes=("volcano.sh/vgpu-", "volcano.sh/gpu-"),
    schedulers=("volcano",),
)
