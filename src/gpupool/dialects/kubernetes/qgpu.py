"""Tencent Cloud's qGPU: percent of a card's compute, GiB of its memory, and an offline class that
takes what is left.

Source: cloud.tencent.com/document/product/457 (qGPU overview 59103; online and offline pods).
"""

from __future__ import annotations

from collections.abc import Mapping

from gpupool.base.errors import ContradictoryManifest, ForeignValue, NotExpressible
from gpupool.base.units import MIB, WHOLE
from gpupool.dialects import amounts
from gpupool.dialects.contract import (
    NO_COMPUTE,
    ContainerAsk,
    Dialect,
    KnownWord,
    PodReading,
    WordPlace,
)
from gpupool.dialects.facts import NodeFacts
from gpupool.dialects.pod import PlacedWord, PodContainer, PodView
from gpupool.model.claim import SharingKind

CORE = "tke.cloud.tencent.com/qgpu-core"
MEMORY = "tke.cloud.tencent.com/qgpu-memory"
GREEDY = "tke.cloud.tencent.com/qgpu-core-greedy"
_CLASS = "tke.cloud.tencent.com/app-class"
_POLICY = "tke.cloud.tencent.com/qgpu-schedule-policy"
#: Policies of a node, in the long names of the label's documentation.
_SHARING: Mapping[str, SharingKind] = {
    "fixed-share": SharingKind.FIXED,
    "burst-share": SharingKind.BURST,
    "best-effort": SharingKind.BEST_EFFORT,
}
#: qGPU gives compute in steps of 5 %.
STEP = 5


def read_words(pod: PodView, facts: NodeFacts) -> PodReading:
    word = pod.find_annotation(_CLASS)
    kind = None if word is None else amounts.read_text(word, "online", "offline")
    asks = {}
    for one in pod.containers:
        if one.asks_for(CORE, MEMORY, GREEDY):
            asks[one.name] = _read_ask(one, kind, facts)
    return PodReading(asks)


def _read_ask(one: PodContainer, kind: str | None, facts: NodeFacts) -> ContainerAsk:
    core = one.find_resource(CORE)
    memory = one.find_resource(MEMORY)
    greedy = one.find_resource(GREEDY)
    size = None if memory is None else amounts.parse_gibibytes(memory)
    memory_rules = (
        () if memory is None else (f"qgpu: {memory} GiB on the card = {(size or 0) // MIB} MiB",)
    )
    if greedy is not None:
        return _build_offline(greedy, core, kind, size, memory_rules)
    if core is None:
        return _build_memory_only(one, kind, size, memory_rules)
    if kind == "offline":
        raise ContradictoryManifest(
            f"{core} in a pod of class offline",
            hint=f"an offline pod asks with {GREEDY}",
            path=core.path,
        )
    cards, milli = amounts.parse_hundreds(core, STEP)
    if milli == WHOLE:
        notes = (
            () if memory is None else (f"{memory} is left out: a whole card has all its memory",)
        )
        return ContainerAsk(
            cards, WHOLE, rules=(f"qgpu: {core}: {cards} whole cards",), notes=notes
        )
    if size is None:
        raise ForeignValue(
            f"{core} without {MEMORY}: a part of a card needs its memory said",
            hint=f"add {MEMORY}",
            path=core.path,
        )
    return _build_share(core, milli, size, memory_rules, facts)


def _build_share(
    core: PlacedWord, milli: int, size: int, memory_rules: tuple[str, ...], facts: NodeFacts
) -> ContainerAsk:
    rules = (*memory_rules, f"qgpu: {core} % of a card's compute")
    if facts.qgpu_policy is not None:
        rules = (*rules, f"qgpu: the node's policy is {facts.qgpu_policy}")
        return ContainerAsk(
            1, milli, memory_bytes=size, usual=_SHARING[facts.qgpu_policy], rules=rules
        )
    guess = "the node's policy is not known: burst, which keeps the percentage whenever neighbours want theirs"
    return ContainerAsk(
        1, milli, memory_bytes=size, usual=SharingKind.BURST, rules=rules, guesses=(guess,)
    )


def _build_offline(
    greedy: PlacedWord,
    core: PlacedWord | None,
    kind: str | None,
    size: int | None,
    memory_rules: tuple[str, ...],
) -> ContainerAsk:
    if core is not None:
        raise ContradictoryManifest(
            f"{greedy} beside {core}", hint="a pod is offline or it is not", path=greedy.path
        )
    if kind != "offline":
        raise ForeignValue(
            f"{greedy} is for offline pods",
            hint=f"add the annotation {_CLASS}: offline",
            path=greedy.path,
        )
    milli = amounts.parse_percent(greedy)
    rule = f"qgpu: {greedy} % of the compute that online pods leave; after all of them on the card"
    return ContainerAsk(
        1, milli, memory_bytes=size, sharing=SharingKind.OFFLINE, rules=(*memory_rules, rule),
        notes=("its memory is held all the time, also while online pods have the card",),
    )  # fmt: skip


def _build_memory_only(
    one: PodContainer, kind: str | None, size: int | None, memory_rules: tuple[str, ...]
) -> ContainerAsk:
    if kind != "online":
        raise NotExpressible(
            f"{one.resources[MEMORY]} without {CORE}: only an online pod asks for memory alone",
            hint=f"add {CORE}, or the annotation {_CLASS}: online",
            path=one.resources[MEMORY].path,
        )
    rule = "qgpu: class online: memory alone, before offline pods of the same card"
    return ContainerAsk(
        memory_bytes=size, urgency="high", rules=(*memory_rules, rule), guesses=(NO_COMPUTE,)
    )


DIALECT = Dialect(
    "qgpu",
    "Tencent Cloud qGPU",
    "https://www.tencentcloud.com/document/product/457/59103",
    (
        KnownWord(
            CORE,
            WordPlace.RESOURCE,
            "5-100 step 5, or N×100",
            "percent of one card's compute, or N whole cards",
        ),
        KnownWord(MEMORY, WordPlace.RESOURCE, "GiB", "memory of the card (no percentage)"),
        KnownWord(
            GREEDY,
            WordPlace.RESOURCE,
            "1-100",
            "offline pods: compute that others leave; sharing offline",
        ),
        KnownWord(
            _CLASS,
            WordPlace.ANNOTATION,
            "`online`, `offline`",
            "online: memory alone; offline: with qgpu-core-greedy",
        ),
        KnownWord(
            _POLICY,
            WordPlace.SELECTOR,
            "`fixed-share`, `burst-share`, `best-effort`",
            "that node's sharing",
        ),
    ),
    read_words,
    prefixes=("tke.cloud.tencent.com/qgpu",),
)
