"""KAI Scheduler and Run:ai: fractions and MiB as annotations, NvFractions per container, queues,
topology.

Sources: kai-scheduler/KAI-Scheduler docs/gpu-sharing, docs/topology, docs/priority,
pkg/common/constants; its issue 274 (every tenant gets the same time slice, whatever its fraction);
run-ai/gpu-sharing-operator README (NvFractions).
"""

from __future__ import annotations

import re
from dataclasses import replace

from gpupool.base.errors import ContradictoryManifest, ForeignValue, NotExpressible
from gpupool.base.units import MIB
from gpupool.dialects import amounts, levels
from gpupool.dialects.contract import (
    NO_COMPUTE,
    ContainerAsk,
    Dialect,
    GangHint,
    KnownWord,
    PodHints,
    PodReading,
    WordPlace,
    list_rules,
)
from gpupool.dialects.facts import NodeFacts
from gpupool.dialects.pod import APP, PlacedWord, PodContainer, PodView
from gpupool.model.claim import SharingKind, TopologyConstraint

#: Annotations of KAI's docs/gpu-sharing; they are of the pod, and mean one of its containers.
FRACTION = "gpu-fraction"
MEMORY = "gpu-memory"
DEVICES = "gpu-fraction-num-devices"
TARGET = "gpu-fraction-container-name"
_QUEUES = ("kai.scheduler/queue", "runai/queue")
_POOL = "kai.scheduler/node-pool"
_PREEMPTIBILITY = "kai.scheduler/preemptibility"
_GROUP = "pod-group-name"
_MEMBERS = "kai.scheduler/batch-min-member"
_REQUIRED = "kai.scheduler/topology-required-placement"
_PREFERRED = "kai.scheduler/topology-preferred-placement"
#: NvFractions: annotations that name their container.
_PART = re.compile(
    r"nvidia\.com/container\.([a-z0-9-]+)\.(gpu-memory\.request|gpu-memory\.limit|gpu-compute\.mode)"
)
#: KAI gives every tenant of a card the same time slice, whatever its fraction (its issue 274).
_GUESS = "compute is not promised there, where all tenants get equal turns: here its part of it, and what is idle"


def read_words(pod: PodView, _facts: NodeFacts) -> PodReading:
    asks = _read_parts(pod)
    fraction = pod.find_annotation(FRACTION)
    memory = pod.find_annotation(MEMORY)
    said = fraction or memory
    if said is not None:
        target = _find_target(pod, said)
        if target.name in asks:
            raise ContradictoryManifest(
                f"{said} and NvFractions for the same container {target.name}", path=said.path
            )
        if target.asks_for("nvidia.com/gpu"):
            raise ContradictoryManifest(
                f"{said} beside {target.resources['nvidia.com/gpu']}: a part of a card, or whole cards?",
                hint="leave one of them out",
                path=said.path,
            )
        asks[target.name] = _read_ask(pod, fraction, memory)
    return PodReading(asks, hints=_read_hints(pod), notes=_list_notes(pod))


def _find_target(pod: PodView, said: PlacedWord) -> PodContainer:
    """The container it is meant for: the named one, or the first of the pod's own."""
    word = pod.find_annotation(TARGET)
    if word is None:
        first = next((one for one in pod.containers if one.kind == APP), None)
        if first is None:
            raise ForeignValue(f"{said}: the pod has no container", path=said.path)
        return first
    named = pod.find_container(amounts.read_text(word))
    if named is None:
        known = ", ".join(one.name for one in pod.containers)
        raise ForeignValue(
            f"{word}: there is no such container", hint=f"one of: {known}", path=word.path
        )
    return named


def _read_ask(pod: PodView, fraction: PlacedWord | None, memory: PlacedWord | None) -> ContainerAsk:
    if fraction is not None and memory is not None:
        raise ForeignValue(
            f"{fraction} and {memory}: one or the other",
            hint=f"leave out {MEMORY}",
            path=memory.path,
        )
    devices = pod.find_annotation(DEVICES)
    count = 1 if devices is None else amounts.parse_integer(devices, 1, 64)
    many = f" of each of {count} cards" if count > 1 else " of a card"
    if memory is not None:
        size = amounts.parse_mebibytes(memory)
        rule = f"kai: {memory}: {size // MIB} MiB{many}"
        return ContainerAsk(count, memory_bytes=size, rules=(rule,), guesses=(NO_COMPUTE,))
    assert fraction is not None
    milli = amounts.parse_fraction(fraction)
    rule = f"kai: {fraction}: {milli / 10:g} % of the memory{many}"
    return ContainerAsk(count, milli, usual=SharingKind.BURST, rules=(rule,), guesses=(_GUESS,))


def _read_parts(pod: PodView) -> dict[str, ContainerAsk]:
    """NvFractions: memory per container, a guaranteed part and a limit above it."""
    found: dict[str, dict[str, PlacedWord]] = {}
    for key, word in pod.annotations.items():
        match = _PART.fullmatch(key)
        if match is not None:
            found.setdefault(match.group(1), {})[match.group(2)] = word
    asks = {}
    for name, words in found.items():
        if pod.find_container(name) is None:
            raise ForeignValue(
                f"{next(iter(words.values()))}: there is no container {name}",
                path=next(iter(words.values())).path,
            )
        if any(kind.startswith("gpu-memory") for kind in words):
            asks[name] = _add_mode_note(_read_elastic(words), words.get("gpu-compute.mode"))
    return asks


def _read_elastic(words: dict[str, PlacedWord]) -> ContainerAsk:
    request = words.get("gpu-memory.request")
    limit = words.get("gpu-memory.limit")
    said = [word for word in (request, limit) if word is not None]
    sizes = [amounts.parse_size(word) for word in said]
    rules = list_rules("kai", request, limit)
    if len(sizes) == 2 and sizes[1] < sizes[0]:
        raise ForeignValue(f"{said[1]} is below the request of {said[0].value}", path=said[1].path)
    guesses: tuple[str, ...] = (NO_COMPUTE,)
    if len(sizes) == 2 and sizes[1] > sizes[0]:
        guesses = (
            f"memory is not lent here: all {sizes[1] // MIB} MiB of the limit are held for it",
            *guesses,
        )
    return ContainerAsk(memory_bytes=sizes[-1], rules=rules, guesses=guesses)


def _add_mode_note(ask: ContainerAsk, mode: PlacedWord | None) -> ContainerAsk:
    if mode is None:
        return ask
    amounts.read_text(mode, "time-slicing", "sm-sharing")
    note = f"{mode}: how turns are taken on a card is the pool's to say; both kinds are best-effort here"
    return replace(ask, notes=(*ask.notes, note))


def _read_hints(pod: PodView) -> PodHints:
    queue = next((pod.find_label(key) for key in _QUEUES if pod.find_label(key) is not None), None)
    preemptible = pod.find_label(_PREEMPTIBILITY)
    return PodHints(
        queue=None if queue is None else amounts.read_text(queue),
        gang=_read_gang(pod),
        within=_read_topology(pod),
        preemptible=None if preemptible is None else _is_preemptible(preemptible),
    )


def _is_preemptible(word: PlacedWord) -> bool:
    kind = amounts.read_text(word, "preemptible", "non-preemptible", "semi-preemptible")
    # Semi-preemptible keeps `minMember` pods of a gang and evicts the rest; a gang here is one
    # unit.
    if kind == "semi-preemptible":
        raise NotExpressible(
            f"{word}: a gang is preempted as a whole or not at all",
            hint="write preemptible or non-preemptible",
            path=word.path,
        )
    return kind == "preemptible"


def _read_gang(pod: PodView) -> GangHint | None:
    group = pod.find_annotation(_GROUP)
    members = pod.find_annotation(_MEMBERS)
    if group is None:
        return None
    return GangHint(
        amounts.read_text(group), None if members is None else amounts.parse_integer(members)
    )


def _read_topology(pod: PodView) -> TopologyConstraint | None:
    required = pod.find_annotation(_REQUIRED)
    preferred = pod.find_annotation(_PREFERRED)
    if required is None and preferred is None:
        return None
    return TopologyConstraint(levels.name_level(required), levels.name_level(preferred))


def _list_notes(pod: PodView) -> tuple[str, ...]:
    said = []
    for key in (_REQUIRED, _PREFERRED):
        if (word := pod.find_annotation(key)) is not None:
            said.append(word)
    return tuple(f"{word}: the level {levels.name_level(word)}" for word in said)


DIALECT = Dialect(
    "kai",
    "KAI Scheduler, Run:ai, NvFractions",
    "https://github.com/kai-scheduler/KAI-Scheduler",
    (
        KnownWord(
            FRACTION,
            WordPlace.ANNOTATION,
            "above 0, at most 1",
            "that part of a card: memory held, compute guaranteed, and what is idle",
        ),
        KnownWord(
            MEMORY,
            WordPlace.ANNOTATION,
            "MiB",
            "memory of a card, no compute guaranteed; not beside gpu-fraction",
        ),
        KnownWord(
            DEVICES, WordPlace.ANNOTATION, "integer", "so many cards, with that part of each"
        ),
        KnownWord(
            TARGET,
            WordPlace.ANNOTATION,
            "container",
            "the container that is meant; else the first one",
        ),
        KnownWord(
            "nvidia.com/container.<c>.gpu-memory.request",
            WordPlace.ANNOTATION,
            "quantity",
            "memory of that container; with a higher limit the limit is held",
        ),
        KnownWord(
            "nvidia.com/container.<c>.gpu-memory.limit",
            WordPlace.ANNOTATION,
            "quantity",
            "memory that container never exceeds",
        ),
        KnownWord(
            "nvidia.com/container.<c>.gpu-compute.mode",
            WordPlace.ANNOTATION,
            "`time-slicing`, `sm-sharing`",
            "noted: best-effort",
        ),
        KnownWord(
            "nvidia.com/container.<c>.gpu-compute.portion",
            WordPlace.ANNOTATION,
            "-",
            "written by the scheduler; ignored",
        ),
        KnownWord(
            "nvidia.com/container.<c>.gpus.devices",
            WordPlace.ANNOTATION,
            "-",
            "written by the scheduler; ignored",
        ),
        KnownWord(_QUEUES[0], WordPlace.LABEL, "name", "queue"),
        KnownWord(_QUEUES[1], WordPlace.LABEL, "name", "queue"),
        KnownWord(
            _POOL, WordPlace.LABEL, "name", "left as it is: node pools are KAI's shards", stays=True
        ),
        KnownWord(
            _PREEMPTIBILITY,
            WordPlace.LABEL,
            "`preemptible`, `non-preemptible`",
            "may be preempted, or not; `semi-preemptible` is refused",
        ),
        KnownWord(_GROUP, WordPlace.ANNOTATION, "name", "the gang the pod belongs to"),
        KnownWord(_MEMBERS, WordPlace.ANNOTATION, "integer", "so many start together"),
        KnownWord(
            "kai.scheduler/topology",
            WordPlace.ANNOTATION,
            "name",
            "ignored: there is one topology, the nodes' labels",
        ),
        KnownWord(_REQUIRED, WordPlace.ANNOTATION, "node label", "all within one such domain"),
        KnownWord(
            _PREFERRED, WordPlace.ANNOTATION, "node label", "within one such domain, as a wish"
        ),
    ),
    read_words,
    prefixes=("kai.scheduler/", "gpu-fraction", "nvidia.com/container."),
    schedulers=("kai-scheduler", "runai-scheduler"),
)
