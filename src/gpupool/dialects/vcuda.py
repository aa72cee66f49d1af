"""Tencent's open gpu-manager (vcuda): percent of a card, and memory in pieces of 256 MiB.

Source: tkestack/gpu-manager README.
"""

from __future__ import annotations

from gpupool.base.errors import ForeignValue
from gpupool.base.units import MIB, WHOLE
from gpupool.dialects import amounts
from gpupool.dialects.contract import Ask, Dialect, Name, Reading, Where
from gpupool.dialects.facts import NodeFacts
from gpupool.dialects.pod import Container, Pod, Word
from gpupool.model.claim import Sharing

CORE, MEMORY, LIMIT = "tencent.com/vcuda-core", "tencent.com/vcuda-memory", "tencent.com/vcuda-core-limit"
PIECE_MIB = 256


def read(pod: Pod, _facts: NodeFacts) -> Reading:
    limit = pod.annotation(LIMIT)
    return Reading({one.name: _ask(one, limit) for one in pod.containers if one.asks(CORE, MEMORY)})


def _ask(one: Container, limit: Word | None) -> Ask:
    core, memory = one.resource(CORE), one.resource(MEMORY)
    if core is None:
        assert memory is not None
        raise ForeignValue(f"{memory} without {CORE}: how much compute?", hint=f"add {CORE}: 1-100", path=memory.path)
    cards, milli = amounts.hundreds(core)
    if milli == WHOLE:
        notes = () if memory is None else (f"{memory} is left out: a whole card has all its memory",)
        return Ask(cards, WHOLE, rules=(f"vcuda: {core}: {cards} whole cards",), notes=notes)
    if memory is None:
        raise ForeignValue(f"{core} without {MEMORY}: how much memory?", hint=f"add {MEMORY}", path=core.path)
    size = amounts.mebibytes(memory, PIECE_MIB)
    rules = (f"vcuda: {core} % of a card's compute", f"vcuda: {memory} × {PIECE_MIB} MiB = {size // MIB} MiB")
    return _capped(Ask(1, milli, memory_bytes=size, usual=Sharing.BURST, rules=rules), limit)


def _capped(ask: Ask, limit: Word | None) -> Ask:
    """Without a limit it may use what is idle; with one equal to what it asks for it is fixed."""
    assert ask.gpu_milli is not None
    if limit is None:
        rule = f"vcuda: no {LIMIT}: it may use what is idle"
        return Ask(1, ask.gpu_milli, memory_bytes=ask.memory_bytes, usual=Sharing.BURST, rules=(*ask.rules, rule))
    cap = amounts.percent(limit)
    if cap < ask.gpu_milli:
        raise ForeignValue(
            f"{limit} is below the {ask.gpu_milli // 10} % that are asked for", hint="raise it", path=limit.path
        )
    sharing = Sharing.FIXED if cap == ask.gpu_milli else Sharing.BURST
    rules = (*ask.rules, f"vcuda: {limit}: never above {cap // 10} %")
    return Ask(1, ask.gpu_milli, cap, ask.memory_bytes, sharing=sharing, rules=rules)


DIALECT = Dialect(
    "vcuda",
    "Tencent vcuda (gpu-manager)",
    "https://github.com/tkestack/gpu-manager",
    (
        Name(CORE, Where.RESOURCE, "1-99, or N×100", "percent of one card's compute, or N whole cards; 150 is refused"),
        Name(MEMORY, Where.RESOURCE, "× 256 MiB", "memory of the card"),
        Name(LIMIT, Where.ANNOTATION, "1-100", "compute it never exceeds; without it what is idle may be used"),
    ),
    read,
    prefixes=("tencent.com/vcuda",),
)
