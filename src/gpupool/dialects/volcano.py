"""Volcano: vGPUs (HAMi's core under Volcano's names), the older shares it only counted, queues and groups.

Sources: Project-HAMi/volcano-vgpu-device-plugin README and examples; volcano-sh/volcano pkg/scheduler/api/devices;
HAMi issue 2187 (a forgotten memory factor is wrong ten times over).
"""

from __future__ import annotations

from gpupool.base.errors import NotExpressible
from gpupool.base.units import MIB, WHOLE
from gpupool.dialects import amounts, hami_core
from gpupool.dialects.contract import NO_COMPUTE, Ask, Dialect, GangHint, Hints, Name, Reading, Select, Where
from gpupool.dialects.facts import NodeFacts
from gpupool.dialects.hami_core import Keys
from gpupool.dialects.pod import Container, Pod, Word

KEYS = Keys(
    "volcano",
    "volcano.sh/vgpu-number",
    "volcano.sh/vgpu-memory",
    "volcano.sh/vgpu-memory-percentage",
    "volcano.sh/vgpu-cores",
    doubtful=1000,
)
OLD_MEMORY, OLD_NUMBER = "volcano.sh/gpu-memory", "volcano.sh/gpu-number"
_UUIDS, _NOT_UUIDS, _MODE = "volcano.sh/vgpu-use-gpuuuid", "volcano.sh/vgpu-nouse-gpuuuid", "volcano.sh/vgpu-mode"
_QUEUES = ("volcano.sh/queue-name", "scheduling.volcano.sh/queue-name")
_GROUP, _PREEMPTABLE = "scheduling.k8s.io/group-name", "volcano.sh/preemptable"


def read(pod: Pod, facts: NodeFacts) -> Reading:
    mode = hami_core.slices(pod.annotation(_MODE))
    asks = {one.name: ask for one in pod.containers if (ask := _ask(one, facts, mode)) is not None}
    return Reading(asks, _select(pod), hints=_hints(pod))


def _ask(one: Container, facts: NodeFacts, mode: Word | None) -> Ask | None:
    if one.asks(KEYS.count, *KEYS.own):
        found = hami_core.ask(one, KEYS, facts.volcano_memory_factor, facts.hami_core_policy)
        if mode is not None:
            return hami_core.sliced(one, found, mode, facts.hami_mig_profiles)
        return hami_core.urgent(one, found)
    return _older(one) if one.asks(OLD_MEMORY, OLD_NUMBER) else None


def _older(one: Container) -> Ask:
    memory, number = one.resource(OLD_MEMORY), one.resource(OLD_NUMBER)
    if memory is not None and number is not None:
        raise NotExpressible(
            f"{memory} and {number}: Volcano has either a part of one card or whole cards",
            hint=f"leave out {OLD_MEMORY} for whole cards",
            path=number.path,
        )
    if number is not None:
        return Ask(amounts.integer(number), WHOLE, rules=(f"volcano: {number} whole cards",))
    assert memory is not None
    size = amounts.mebibytes(memory)
    return Ask(
        memory_bytes=size,
        rules=(f"volcano: {memory} = {size // MIB} MiB of one card",),
        guesses=(NO_COMPUTE,),
        notes=("Volcano only counts this memory; here it is fenced",),
    )


def _select(pod: Pod) -> Select:
    use, refuse = pod.annotation(_UUIDS), pod.annotation(_NOT_UUIDS)
    return Select(
        uuids=() if use is None else amounts.words(use), not_uuids=() if refuse is None else amounts.words(refuse)
    )


def _hints(pod: Pod) -> Hints:
    said = [word for key in _QUEUES for word in (pod.annotation(key), pod.label(key)) if word is not None]
    group, yields = pod.annotation(_GROUP), pod.annotation(_PREEMPTABLE) or pod.label(_PREEMPTABLE)
    return Hints(
        queue=amounts.text(said[0]) if said else None,
        gang=None if group is None else GangHint(amounts.text(group)),
        preemptible=None if yields is None else amounts.truth(yields),
    )


DIALECT = Dialect(
    "volcano",
    "Volcano vGPU",
    "https://github.com/Project-HAMi/volcano-vgpu-device-plugin",
    (
        Name(KEYS.count, Where.RESOURCE, "integer", "so many distinct cards, each with the share below"),
        Name(
            KEYS.memory,
            Where.RESOURCE,
            "MiB × `volcano_memory_factor`",
            "memory on each card; from 64 to 999 the factor must be known",
        ),
        Name(KEYS.part, Where.RESOURCE, "0-100", "part of each card's memory; not beside vgpu-memory"),
        Name(KEYS.cores, Where.RESOURCE, "0-100", "percent of each card's compute, as nvidia.com/gpucores"),
        Name(OLD_MEMORY, Where.RESOURCE, "MiB", "older share, counted and not fenced there; fenced here"),
        Name(OLD_NUMBER, Where.RESOURCE, "integer", "so many whole cards"),
        Name(_UUIDS, Where.ANNOTATION, "list", "only these cards"),
        Name(_NOT_UUIDS, Where.ANNOTATION, "list", "not these cards; it wins over the line above"),
        Name(
            _MODE,
            Where.ANNOTATION,
            "`hami-core`, `mig`",
            "`mig`: the smallest of `hami_mig_profiles` that holds the memory; without that fact refused",
        ),
        Name(_QUEUES[0], Where.ANNOTATION, "name", "queue"),
        Name(_QUEUES[0], Where.LABEL, "name", "queue"),
        Name(_QUEUES[1], Where.ANNOTATION, "name", "queue"),
        Name(_GROUP, Where.ANNOTATION, "name", "the gang the pod belongs to"),
        Name(_PREEMPTABLE, Where.ANNOTATION, "bool", "may be preempted"),
        Name(_PREEMPTABLE, Where.LABEL, "bool", "may be preempted"),
    ),
    read,
    prefixes=("volcano.sh/vgpu-", "volcano.sh/gpu-"),
    schedulers=("volcano",),
)
