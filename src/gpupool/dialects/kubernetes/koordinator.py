"""Koordinator: percent and bytes over all cards of a container, gangs, quotas.

Sources: koordinator-sh/koordinator docs/proposals/scheduling
20220629-fine-grained-device-scheduling and 20230803-enhance-gpu-share-api;
pkg/scheduler/plugins/deviceshare/utils.go; apis/extension/coscheduling.go.
"""

from __future__ import annotations

from gpupool.base.errors import ContradictoryManifest, ForeignValue
from gpupool.base.units import MIB, WHOLE
from gpupool.dialects import amounts
from gpupool.dialects.contract import (
    NO_COMPUTE,
    ContainerAsk,
    Dialect,
    GangHint,
    KnownWord,
    PodHints,
    PodReading,
    WordPlace,
)
from gpupool.dialects.facts import NodeFacts
from gpupool.dialects.pod import PlacedWord, PodContainer, PodView

#: Resources are percent and bytes over all cards of the container, not of one card.
GPU = "koordinator.sh/gpu"
CORE = "koordinator.sh/gpu-core"
MEMORY = "koordinator.sh/gpu-memory"
RATIO = "koordinator.sh/gpu-memory-ratio"
SHARED = "koordinator.sh/gpu.shared"
_GANG = "gang.scheduling.koordinator.sh/"
_QUOTA = "quota.scheduling.koordinator.sh/name"


def read_words(pod: PodView, _facts: NodeFacts) -> PodReading:
    asks = {}
    for one in pod.containers:
        if one.asks_for(GPU, CORE, MEMORY, RATIO, SHARED):
            asks[one.name] = _read_ask(one)
    quota = pod.find_label(_QUOTA)
    return PodReading(
        asks,
        hints=PodHints(
            queue=None if quota is None else amounts.read_text(quota), gang=_read_gang(pod)
        ),
    )


def _read_ask(one: PodContainer) -> ContainerAsk:
    gpu = one.find_resource(GPU)
    core = one.find_resource(CORE)
    memory = one.find_resource(MEMORY)
    ratio = one.find_resource(RATIO)
    if gpu is not None:
        other = core or memory or ratio
        if other is not None:
            raise ContradictoryManifest(
                f"{gpu} is core and memory at once, beside {other}",
                hint=f"leave out {GPU}",
                path=other.path,
            )
        # `koordinator.sh/gpu: 50` is half of the compute and half of the memory.
        core = ratio = gpu
    if memory is not None and ratio is not None:
        raise ContradictoryManifest(
            f"{memory} and {ratio}: memory in one way only",
            hint=f"leave out {RATIO}",
            path=ratio.path,
        )
    said = memory or ratio
    if said is None:
        lone = core or one.resources[SHARED]
        raise ForeignValue(
            f"{lone} without memory", hint=f"add {MEMORY} or {RATIO}", path=lone.path
        )
    cards = _count_cards(one, core, ratio)
    size = None if memory is None else _split_size(memory, cards)
    milli = None if core is None else _split_percent(core, cards)
    part = None if ratio is None else _split_percent(ratio, cards)
    rules = tuple(
        f"koordinator: {word}" + _describe_cards(cards)
        for word in dict.fromkeys((core, said))
        if word is not None
    )
    if milli == WHOLE and part in (None, WHOLE) and size is None:
        part = None
    guesses = () if milli is not None else (NO_COMPUTE,)
    return ContainerAsk(
        cards, milli, memory_bytes=size, memory_milli=part, rules=rules, guesses=guesses
    )


def _describe_cards(cards: int) -> str:
    return f" over {cards} cards" if cards > 1 else ""


def _count_cards(one: PodContainer, core: PlacedWord | None, ratio: PlacedWord | None) -> int:
    """`gpu.shared` says it; else a percentage above 100 means several whole cards."""
    shared = one.find_resource(SHARED)
    if shared is not None:
        return amounts.parse_integer(shared, 1, 64)
    counts = {amounts.parse_hundreds(word)[0] for word in (core, ratio) if word is not None}
    if len(counts) > 1:
        word = ratio or core
        assert word is not None
        raise ContradictoryManifest(
            f"{core} and {ratio} mean different numbers of cards: {' and '.join(map(str, sorted(counts)))}",
            hint=f"say the number with {SHARED}",
            path=word.path,
        )
    return counts.pop() if counts else 1


def _split_percent(word: PlacedWord, cards: int) -> int:
    total = amounts.parse_integer(word, 1, 100 * cards, what="a percentage over all cards")
    return amounts.split_evenly(total, cards, word) * 10


def _split_size(word: PlacedWord, cards: int) -> int:
    """Bytes on each card, in whole MiB rounded up."""
    total = amounts.parse_number(word)
    # A bare number is bytes there; users who mean GiB write 8.
    if total < amounts.LEAST_MIB * MIB:
        raise ForeignValue(
            f"{word} is in bytes and holds no CUDA context; did you mean {word.value}Gi?",
            hint=f"write {word.value}Gi",
            path=word.path,
        )
    return amounts.parse_size(PlacedWord(word.key, str(-(-total // cards)), word.path))


def _read_gang(pod: PodView) -> GangHint | None:
    name = pod.find_annotation(f"{_GANG}name")
    if name is None:
        return None
    least = pod.find_annotation(f"{_GANG}min-available")
    total = pod.find_annotation(f"{_GANG}total-number")
    minimum = None if least is None else amounts.parse_integer(least)
    return GangHint(
        amounts.read_text(name), minimum, minimum if total is None else amounts.parse_integer(total)
    )


DIALECT = Dialect(
    "koordinator",
    "Koordinator",
    "https://github.com/koordinator-sh/koordinator",
    (
        KnownWord(
            GPU, WordPlace.RESOURCE, "1-100, or N×100", "percent of compute and of memory at once"
        ),
        KnownWord(
            CORE, WordPlace.RESOURCE, "percent over all cards", "compute; not without memory"
        ),
        KnownWord(MEMORY, WordPlace.RESOURCE, "quantity, bytes when bare", "memory over all cards"),
        KnownWord(
            RATIO,
            WordPlace.RESOURCE,
            "percent over all cards",
            "memory as a part of a card; not beside gpu-memory",
        ),
        KnownWord(SHARED, WordPlace.RESOURCE, "integer", "over so many cards, in equal parts"),
        KnownWord(f"{_GANG}name", WordPlace.ANNOTATION, "name", "the gang the pod belongs to"),
        KnownWord(
            f"{_GANG}min-available", WordPlace.ANNOTATION, "integer", "so many start together"
        ),
        KnownWord(
            f"{_GANG}total-number", WordPlace.ANNOTATION, "integer", "so many there are in all"
        ),
        KnownWord(
            f"{_GANG}waiting-time",
            WordPlace.ANNOTATION,
            "-",
            "ignored: a gang holds nothing while it waits",
        ),
        KnownWord(f"{_GANG}mode", WordPlace.ANNOTATION, "-", "ignored: a gang starts whole"),
        KnownWord(f"{_GANG}groups", WordPlace.ANNOTATION, "-", "ignored, so far"),
        KnownWord(f"{_GANG}match-policy", WordPlace.ANNOTATION, "-", "ignored"),
        KnownWord(_QUOTA, WordPlace.LABEL, "name", "queue"),
    ),
    read_words,
    prefixes=("koordinator.sh/gpu", _GANG),
    schedulers=("koord-scheduler",),
)
