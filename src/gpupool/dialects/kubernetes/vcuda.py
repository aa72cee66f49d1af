"""Tencent's open gpu-manager (vcuda): percent of a card, and memory in pieces of 256 MiB.

Source: tkestack/gpu-manager README.
"""

from __future__ import annotations

from gpupool.base.errors import ForeignValue
from gpupool.base.units import MIB, WHOLE
from gpupool.dialects import amounts
from gpupool.dialects.contract import ContainerAsk, Dialect, KnownWord, PodReading, WordPlace
from gpupool.dialects.facts import NodeFacts
from gpupool.dialects.pod import PlacedWord, PodContainer, PodView
from gpupool.model.claim import SharingKind

CORE = "tencent.com/vcuda-core"
MEMORY = "tencent.com/vcuda-memory"
LIMIT = "tencent.com/vcuda-core-limit"
#: gpu-manager counts memory in blocks of 256 MiB.
PIECE_MIB = 256


def read_words(pod: PodView, _facts: NodeFacts) -> PodReading:
    limit = pod.find_annotation(LIMIT)
    asks = {}
    for one in pod.containers:
        if one.asks_for(CORE, MEMORY):
            asks[one.name] = _read_ask(one, limit)
    return PodReading(asks)


def _read_ask(one: PodContainer, limit: PlacedWord | None) -> ContainerAsk:
    core = one.find_resource(CORE)
    memory = one.find_resource(MEMORY)
    if core is None:
        assert memory is not None
        raise ForeignValue(
            f"{memory} without {CORE}: how much compute?",
            hint=f"add {CORE}: 1-100",
            path=memory.path,
        )
    cards, milli = amounts.parse_hundreds(core)
    if milli == WHOLE:
        notes = (
            () if memory is None else (f"{memory} is left out: a whole card has all its memory",)
        )
        return ContainerAsk(
            cards, WHOLE, rules=(f"vcuda: {core}: {cards} whole cards",), notes=notes
        )
    if memory is None:
        raise ForeignValue(
            f"{core} without {MEMORY}: how much memory?", hint=f"add {MEMORY}", path=core.path
        )
    size = amounts.parse_mebibytes(memory, PIECE_MIB)
    rules = (
        f"vcuda: {core} % of a card's compute",
        f"vcuda: {memory} × {PIECE_MIB} MiB = {size // MIB} MiB",
    )
    return _apply_cap(
        ContainerAsk(1, milli, memory_bytes=size, usual=SharingKind.BURST, rules=rules), limit
    )


def _apply_cap(ask: ContainerAsk, limit: PlacedWord | None) -> ContainerAsk:
    """Without a limit it may use what is idle; with one equal to what it asks for it is fixed."""
    assert ask.gpu_milli is not None
    if limit is None:
        rule = f"vcuda: no {LIMIT}: it may use what is idle"
        return ContainerAsk(
            1,
            ask.gpu_milli,
            memory_bytes=ask.memory_bytes,
            usual=SharingKind.BURST,
            rules=(*ask.rules, rule),
        )
    cap = amounts.parse_percent(limit)
    if cap < ask.gpu_milli:
        raise ForeignValue(
            f"{limit} is below the {ask.gpu_milli // 10} % that are asked for",
            hint="raise it",
            path=limit.path,
        )
    sharing = SharingKind.FIXED if cap == ask.gpu_milli else SharingKind.BURST
    rules = (*ask.rules, f"vcuda: {limit}: never above {cap // 10} %")
    return ContainerAsk(1, ask.gpu_milli, cap, ask.memory_bytes, sharing=sharing, rules=rules)


DIALECT = Dialect(
    "vcuda",
    "Tencent vcuda (gpu-manager)",
    "https://github.com/tkestack/gpu-manager",
    (
        KnownWord(
            CORE,
            WordPlace.RESOURCE,
            "1-99, or N×100",
            "percent of one card's compute, or N whole cards; 150 is refused",
        ),
        KnownWord(MEMORY, WordPlace.RESOURCE, "× 256 MiB", "memory of the card"),
        KnownWord(
            LIMIT,
            WordPlace.ANNOTATION,
            "1-100",
            "compute it never exceeds; without it what is idle may be used",
        ),
    ),
    read_words,
    prefixes=("tencent.com/vcuda",),
)
