"""Koordinator: percent and bytes over all cards of a container, gangs, quotas.

Sources: koordinator-sh/koordinator docs/proposals/scheduling 20220629-fine-grained-device-scheduling and
20230803-enhance-gpu-share-api; pkg/scheduler/plugins/deviceshare/utils.go; apis/extension/coscheduling.go.
"""

from __future__ import annotations

from gpupool.base.errors import Contradiction, ForeignValue
from gpupool.base.units import MIB, WHOLE
from gpupool.dialects import amounts
from gpupool.dialects.contract import NO_COMPUTE, Ask, Dialect, GangHint, Hints, Name, Reading, Where
from gpupool.dialects.facts import NodeFacts
from gpupool.dialects.pod import Container, Pod, Word

GPU, CORE, MEMORY, RATIO, SHARED = (
    "koordinator.sh/gpu", "koordinator.sh/gpu-core", "koordinator.sh/gpu-memory", "koordinator.sh/gpu-memory-ratio",
    "koordinator.sh/gpu.shared",
)  # fmt: skip
_GANG = "gang.scheduling.koordinator.sh/"
_QUOTA = "quota.scheduling.koordinator.sh/name"


def read(pod: Pod, _facts: NodeFacts) -> Reading:
    asks = {one.name: _ask(one) for one in pod.containers if one.asks(GPU, CORE, MEMORY, RATIO, SHARED)}
    quota = pod.label(_QUOTA)
    return Reading(asks, hints=Hints(queue=None if quota is None else amounts.text(quota), gang=_gang(pod)))


def _ask(one: Container) -> Ask:
    gpu, core, memory, ratio = (one.resource(key) for key in (GPU, CORE, MEMORY, RATIO))
    if gpu is not None:
        other = core or memory or ratio
        if other is not None:
            raise Contradiction(
                f"{gpu} is core and memory at once, beside {other}", hint=f"leave out {GPU}", path=other.path
            )
        core = ratio = gpu
    if memory is not None and ratio is not None:
        raise Contradiction(f"{memory} and {ratio}: memory in one way only", hint=f"leave out {RATIO}", path=ratio.path)
    said = memory or ratio
    if said is None:
        lone = core or one.resources[SHARED]
        raise ForeignValue(f"{lone} without memory", hint=f"add {MEMORY} or {RATIO}", path=lone.path)
    cards = _cards(one, core, ratio)
    size = None if memory is None else _size(memory, cards)
    milli = None if core is None else _each(core, cards)
    part = None if ratio is None else _each(ratio, cards)
    rules = tuple(f"koordinator: {word}" + _over(cards) for word in dict.fromkeys((core, said)) if word is not None)
    if milli == WHOLE and part in (None, WHOLE) and size is None:
        part = None
    guesses = () if milli is not None else (NO_COMPUTE,)
    return Ask(cards, milli, memory_bytes=size, memory_milli=part, rules=rules, guesses=guesses)


def _over(cards: int) -> str:
    return f" over {cards} cards" if cards > 1 else ""


def _cards(one: Container, core: Word | None, ratio: Word | None) -> int:
    """`gpu.shared` says it; else a percentage above 100 means several whole cards."""
    shared = one.resource(SHARED)
    if shared is not None:
        return amounts.integer(shared, 1, 64)
    counts = {amounts.hundreds(word)[0] for word in (core, ratio) if word is not None}
    if len(counts) > 1:
        word = ratio or core
        assert word is not None
        raise Contradiction(
            f"{core} and {ratio} mean different numbers of cards: {' and '.join(map(str, sorted(counts)))}",
            hint=f"say the number with {SHARED}",
            path=word.path,
        )
    return counts.pop() if counts else 1


def _each(word: Word, cards: int) -> int:
    total = amounts.integer(word, 1, 100 * cards, what="a percentage over all cards")
    return amounts.split(total, cards, word) * 10


def _size(word: Word, cards: int) -> int:
    """Bytes on each card, in whole MiB rounded up."""
    total = amounts.number(word)
    if total < amounts.LEAST_MIB * MIB:
        raise ForeignValue(
            f"{word} is in bytes and holds no CUDA context; did you mean {word.value}Gi?",
            hint=f"write {word.value}Gi",
            path=word.path,
        )
    return amounts.size(Word(word.key, str(-(-total // cards)), word.path))


def _gang(pod: Pod) -> GangHint | None:
    name = pod.annotation(f"{_GANG}name")
    if name is None:
        return None
    least, total = pod.annotation(f"{_GANG}min-available"), pod.annotation(f"{_GANG}total-number")
    minimum = None if least is None else amounts.integer(least)
    return GangHint(amounts.text(name), minimum, minimum if total is None else amounts.integer(total))


DIALECT = Dialect(
    "koordinator",
    "Koordinator",
    "https://github.com/koordinator-sh/koordinator",
    (
        Name(GPU, Where.RESOURCE, "1-100, or N×100", "percent of compute and of memory at once"),
        Name(CORE, Where.RESOURCE, "percent over all cards", "compute; not without memory"),
        Name(MEMORY, Where.RESOURCE, "quantity, bytes when bare", "memory over all cards"),
        Name(RATIO, Where.RESOURCE, "percent over all cards", "memory as a part of a card; not beside gpu-memory"),
        Name(SHARED, Where.RESOURCE, "integer", "over so many cards, in equal parts"),
        Name(f"{_GANG}name", Where.ANNOTATION, "name", "the gang the pod belongs to"),
        Name(f"{_GANG}min-available", Where.ANNOTATION, "integer", "so many start together"),
        Name(f"{_GANG}total-number", Where.ANNOTATION, "integer", "so many there are in all"),
        Name(f"{_GANG}waiting-time", Where.ANNOTATION, "-", "ignored: a gang holds nothing while it waits"),
        Name(f"{_GANG}mode", Where.ANNOTATION, "-", "ignored: a gang starts whole"),
        Name(f"{_GANG}groups", Where.ANNOTATION, "-", "ignored, so far"),
        Name(f"{_GANG}match-policy", Where.ANNOTATION, "-", "ignored"),
        Name(_QUOTA, Where.LABEL, "name", "queue"),
    ),
    read,
    prefixes=("koordinator.sh/gpu", _GANG),
    schedulers=("koord-scheduler",),
)
