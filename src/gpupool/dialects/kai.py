"""KAI Scheduler and Run:ai: fractions and MiB as annotations, NvFractions per container, queues, topology.

Sources: kai-scheduler/KAI-Scheduler docs/gpu-sharing, docs/topology, docs/priority, pkg/common/constants; its issue 274
(every tenant gets the same time slice, whatever its fraction); run-ai/gpu-sharing-operator README (NvFractions).
"""

from __future__ import annotations

import re
from dataclasses import replace

from gpupool.base.errors import Contradiction, ForeignValue, NotExpressible
from gpupool.base.units import MIB
from gpupool.dialects import amounts, levels
from gpupool.dialects.contract import NO_COMPUTE, Ask, Dialect, GangHint, Hints, Name, Reading, Where
from gpupool.dialects.facts import NodeFacts
from gpupool.dialects.pod import APP, Container, Pod, Word
from gpupool.model.claim import Sharing, Within

FRACTION, MEMORY, DEVICES, TARGET = (
    "gpu-fraction",
    "gpu-memory",
    "gpu-fraction-num-devices",
    "gpu-fraction-container-name",
)
_QUEUES = ("kai.scheduler/queue", "runai/queue")
_POOL, _PREEMPTIBILITY, _GROUP, _MEMBERS = (
    "kai.scheduler/node-pool", "kai.scheduler/preemptibility", "pod-group-name", "kai.scheduler/batch-min-member",
)  # fmt: skip
_REQUIRED, _PREFERRED = "kai.scheduler/topology-required-placement", "kai.scheduler/topology-preferred-placement"
_PART = re.compile(r"nvidia\.com/container\.([a-z0-9-]+)\.(gpu-memory\.request|gpu-memory\.limit|gpu-compute\.mode)")
_GUESS = "compute is not promised there, where all tenants get equal turns: here its part of it, and what is idle"


def read(pod: Pod, _facts: NodeFacts) -> Reading:
    asks = _parts(pod)
    fraction, memory = pod.annotation(FRACTION), pod.annotation(MEMORY)
    said = fraction or memory
    if said is not None:
        target = _target(pod, said)
        if target.name in asks:
            raise Contradiction(f"{said} and NvFractions for the same container {target.name}", path=said.path)
        if target.asks("nvidia.com/gpu"):
            raise Contradiction(
                f"{said} beside {target.resources['nvidia.com/gpu']}: a part of a card, or whole cards?",
                hint="leave one of them out",
                path=said.path,
            )
        asks[target.name] = _ask(pod, fraction, memory)
    return Reading(asks, hints=_hints(pod), notes=_notes(pod))


def _target(pod: Pod, said: Word) -> Container:
    """The container it is meant for: the named one, or the first of the pod's own."""
    word = pod.annotation(TARGET)
    if word is None:
        first = next((one for one in pod.containers if one.kind == APP), None)
        if first is None:
            raise ForeignValue(f"{said}: the pod has no container", path=said.path)
        return first
    named = pod.named(amounts.text(word))
    if named is None:
        known = ", ".join(one.name for one in pod.containers)
        raise ForeignValue(f"{word}: there is no such container", hint=f"one of: {known}", path=word.path)
    return named


def _ask(pod: Pod, fraction: Word | None, memory: Word | None) -> Ask:
    if fraction is not None and memory is not None:
        raise ForeignValue(f"{fraction} and {memory}: one or the other", hint=f"leave out {MEMORY}", path=memory.path)
    devices = pod.annotation(DEVICES)
    count = 1 if devices is None else amounts.integer(devices, 1, 64)
    many = f" of each of {count} cards" if count > 1 else " of a card"
    if memory is not None:
        size = amounts.mebibytes(memory)
        rule = f"kai: {memory}: {size // MIB} MiB{many}"
        return Ask(count, memory_bytes=size, rules=(rule,), guesses=(NO_COMPUTE,))
    assert fraction is not None
    milli = amounts.fraction(fraction)
    rule = f"kai: {fraction}: {milli / 10:g} % of the memory{many}"
    return Ask(count, milli, usual=Sharing.BURST, rules=(rule,), guesses=(_GUESS,))


def _parts(pod: Pod) -> dict[str, Ask]:
    """NvFractions: memory per container, a guaranteed part and a limit above it."""
    found: dict[str, dict[str, Word]] = {}
    for key, word in pod.annotations.items():
        match = _PART.fullmatch(key)
        if match is not None:
            found.setdefault(match.group(1), {})[match.group(2)] = word
    asks = {}
    for name, words in found.items():
        if pod.named(name) is None:
            raise ForeignValue(
                f"{next(iter(words.values()))}: there is no container {name}", path=next(iter(words.values())).path
            )
        if any(kind.startswith("gpu-memory") for kind in words):
            asks[name] = _moded(_elastic(words), words.get("gpu-compute.mode"))
    return asks


def _elastic(words: dict[str, Word]) -> Ask:
    request, limit = words.get("gpu-memory.request"), words.get("gpu-memory.limit")
    said = [word for word in (request, limit) if word is not None]
    sizes = [amounts.size(word) for word in said]
    rules = tuple(f"kai: {word}" for word in said)
    if len(sizes) == 2 and sizes[1] < sizes[0]:
        raise ForeignValue(f"{said[1]} is below the request of {said[0].value}", path=said[1].path)
    guesses: tuple[str, ...] = (NO_COMPUTE,)
    if len(sizes) == 2 and sizes[1] > sizes[0]:
        guesses = (f"memory is not lent here: all {sizes[1] // MIB} MiB of the limit are held for it", *guesses)
    return Ask(memory_bytes=sizes[-1], rules=rules, guesses=guesses)


def _moded(ask: Ask, mode: Word | None) -> Ask:
    if mode is None:
        return ask
    amounts.text(mode, "time-slicing", "sm-sharing")
    note = f"{mode}: how turns are taken on a card is the pool's to say; both kinds are best-effort here"
    return replace(ask, notes=(*ask.notes, note))


def _hints(pod: Pod) -> Hints:
    queue = next((pod.label(key) for key in _QUEUES if pod.label(key) is not None), None)
    preemptible = pod.label(_PREEMPTIBILITY)
    return Hints(
        queue=None if queue is None else amounts.text(queue),
        gang=_gang(pod),
        within=_within(pod),
        preemptible=None if preemptible is None else _preemptible(preemptible),
    )


def _preemptible(word: Word) -> bool:
    kind = amounts.text(word, "preemptible", "non-preemptible", "semi-preemptible")
    if kind == "semi-preemptible":
        raise NotExpressible(
            f"{word}: a gang is preempted as a whole or not at all",
            hint="write preemptible or non-preemptible",
            path=word.path,
        )
    return kind == "preemptible"


def _gang(pod: Pod) -> GangHint | None:
    group, members = pod.annotation(_GROUP), pod.annotation(_MEMBERS)
    if group is None:
        return None
    return GangHint(amounts.text(group), None if members is None else amounts.integer(members))


def _within(pod: Pod) -> Within | None:
    required, preferred = pod.annotation(_REQUIRED), pod.annotation(_PREFERRED)
    if required is None and preferred is None:
        return None
    return Within(levels.of(required), levels.of(preferred))


def _notes(pod: Pod) -> tuple[str, ...]:
    said = [word for key in (_REQUIRED, _PREFERRED) if (word := pod.annotation(key)) is not None]
    return tuple(f"{word}: the level {levels.of(word)}" for word in said)


DIALECT = Dialect(
    "kai",
    "KAI Scheduler, Run:ai, NvFractions",
    "https://github.com/kai-scheduler/KAI-Scheduler",
    (
        Name(
            FRACTION,
            Where.ANNOTATION,
            "above 0, at most 1",
            "that part of a card: memory held, compute guaranteed, and what is idle",
        ),
        Name(MEMORY, Where.ANNOTATION, "MiB", "memory of a card, no compute guaranteed; not beside gpu-fraction"),
        Name(DEVICES, Where.ANNOTATION, "integer", "so many cards, with that part of each"),
        Name(TARGET, Where.ANNOTATION, "container", "the container that is meant; else the first one"),
        Name(
            "nvidia.com/container.<c>.gpu-memory.request",
            Where.ANNOTATION,
            "quantity",
            "memory of that container; with a higher limit the limit is held",
        ),
        Name(
            "nvidia.com/container.<c>.gpu-memory.limit",
            Where.ANNOTATION,
            "quantity",
            "memory that container never exceeds",
        ),
        Name(
            "nvidia.com/container.<c>.gpu-compute.mode",
            Where.ANNOTATION,
            "`time-slicing`, `sm-sharing`",
            "noted: best-effort",
        ),
        Name(
            "nvidia.com/container.<c>.gpu-compute.portion", Where.ANNOTATION, "-", "written by the scheduler; ignored"
        ),
        Name("nvidia.com/container.<c>.gpus.devices", Where.ANNOTATION, "-", "written by the scheduler; ignored"),
        Name(_QUEUES[0], Where.LABEL, "name", "queue"),
        Name(_QUEUES[1], Where.LABEL, "name", "queue"),
        Name(_POOL, Where.LABEL, "name", "left as it is: node pools are KAI's shards", stays=True),
        Name(
            _PREEMPTIBILITY,
            Where.LABEL,
            "`preemptible`, `non-preemptible`",
            "may be preempted, or not; `semi-preemptible` is refused",
        ),
        Name(_GROUP, Where.ANNOTATION, "name", "the gang the pod belongs to"),
        Name(_MEMBERS, Where.ANNOTATION, "integer", "so many start together"),
        Name("kai.scheduler/topology", Where.ANNOTATION, "name", "ignored: there is one topology, the nodes' labels"),
        Name(_REQUIRED, Where.ANNOTATION, "node label", "all within one such domain"),
        Name(_PREFERRED, Where.ANNOTATION, "node label", "within one such domain, as a wish"),
    ),
    read,
    prefixes=("kai.scheduler/", "gpu-fraction", "nvidia.com/container."),
    schedulers=("kai-scheduler", "runai-scheduler"),
)
