"""Tencent Cloud's qGPU: percent of a card's compute, GiB of its memory, and an offline class that takes what is left.

Source: cloud.tencent.com/document/product/457 (qGPU overview 59103; online and offline pods).
"""

from __future__ import annotations

from collections.abc import Mapping

from gpupool.base.errors import Contradiction, ForeignValue, NotExpressible
from gpupool.base.units import MIB, WHOLE
from gpupool.dialects import amounts
from gpupool.dialects.contract import NO_COMPUTE, Ask, Dialect, Name, Reading, Where
from gpupool.dialects.facts import NodeFacts
from gpupool.dialects.pod import Container, Pod, Word
from gpupool.model.claim import Sharing

CORE, MEMORY, GREEDY = (
    "tke.cloud.tencent.com/qgpu-core", "tke.cloud.tencent.com/qgpu-memory", "tke.cloud.tencent.com/qgpu-core-greedy",
)  # fmt: skip
_CLASS, _POLICY = "tke.cloud.tencent.com/app-class", "tke.cloud.tencent.com/qgpu-schedule-policy"
_SHARING: Mapping[str, Sharing] = {
    "fixed-share": Sharing.FIXED,
    "burst-share": Sharing.BURST,
    "best-effort": Sharing.BEST_EFFORT,
}
STEP = 5


def read(pod: Pod, facts: NodeFacts) -> Reading:
    word = pod.annotation(_CLASS)
    kind = None if word is None else amounts.text(word, "online", "offline")
    asking = [one for one in pod.containers if one.asks(CORE, MEMORY, GREEDY)]
    return Reading({one.name: _ask(one, kind, facts) for one in asking})


def _ask(one: Container, kind: str | None, facts: NodeFacts) -> Ask:
    core, memory, greedy = one.resource(CORE), one.resource(MEMORY), one.resource(GREEDY)
    size = None if memory is None else amounts.gibibytes(memory)
    told = () if memory is None else (f"qgpu: {memory} GiB on the card = {(size or 0) // MIB} MiB",)
    if greedy is not None:
        return _offline(greedy, core, kind, size, told)
    if core is None:
        return _memory_only(one, kind, size, told)
    if kind == "offline":
        raise Contradiction(
            f"{core} in a pod of class offline", hint=f"an offline pod asks with {GREEDY}", path=core.path
        )
    cards, milli = amounts.hundreds(core, STEP)
    if milli == WHOLE:
        notes = () if memory is None else (f"{memory} is left out: a whole card has all its memory",)
        return Ask(cards, WHOLE, rules=(f"qgpu: {core}: {cards} whole cards",), notes=notes)
    if size is None:
        raise ForeignValue(
            f"{core} without {MEMORY}: a part of a card needs its memory said", hint=f"add {MEMORY}", path=core.path
        )
    return _shared(core, milli, size, told, facts)


def _shared(core: Word, milli: int, size: int, told: tuple[str, ...], facts: NodeFacts) -> Ask:
    rules = (*told, f"qgpu: {core} % of a card's compute")
    if facts.qgpu_policy is not None:
        rules = (*rules, f"qgpu: the node's policy is {facts.qgpu_policy}")
        return Ask(1, milli, memory_bytes=size, usual=_SHARING[facts.qgpu_policy], rules=rules)
    guess = "the node's policy is not known: burst, which keeps the percentage whenever neighbours want theirs"
    return Ask(1, milli, memory_bytes=size, usual=Sharing.BURST, rules=rules, guesses=(guess,))


def _offline(greedy: Word, core: Word | None, kind: str | None, size: int | None, told: tuple[str, ...]) -> Ask:
    if core is not None:
        raise Contradiction(f"{greedy} beside {core}", hint="a pod is offline or it is not", path=greedy.path)
    if kind != "offline":
        raise ForeignValue(
            f"{greedy} is for offline pods", hint=f"add the annotation {_CLASS}: offline", path=greedy.path
        )
    milli = amounts.percent(greedy)
    rule = f"qgpu: {greedy} % of the compute that online pods leave; lowest precedence on the card"
    return Ask(
        1, milli, memory_bytes=size, sharing=Sharing.BEST_EFFORT, urgency="low", rules=(*told, rule),
        notes=("memory is held also while it is offline",),
    )  # fmt: skip


def _memory_only(one: Container, kind: str | None, size: int | None, told: tuple[str, ...]) -> Ask:
    if kind != "online":
        raise NotExpressible(
            f"{one.resources[MEMORY]} without {CORE}: only an online pod asks for memory alone",
            hint=f"add {CORE}, or the annotation {_CLASS}: online",
            path=one.resources[MEMORY].path,
        )
    rule = "qgpu: class online: memory alone, before offline pods of the same card"
    return Ask(memory_bytes=size, urgency="high", rules=(*told, rule), guesses=(NO_COMPUTE,))


DIALECT = Dialect(
    "qgpu",
    "Tencent Cloud qGPU",
    "https://www.tencentcloud.com/document/product/457/59103",
    (
        Name(CORE, Where.RESOURCE, "5-100 step 5, or N×100", "percent of one card's compute, or N whole cards"),
        Name(MEMORY, Where.RESOURCE, "GiB", "memory of the card (no percentage)"),
        Name(GREEDY, Where.RESOURCE, "1-100", "offline pods: compute that others leave; best-effort, low on the card"),
        Name(_CLASS, Where.ANNOTATION, "`online`, `offline`", "online: memory alone; offline: with qgpu-core-greedy"),
        Name(_POLICY, Where.SELECTOR, "`fixed-share`, `burst-share`, `best-effort`", "that node's sharing"),
    ),
    read,
    prefixes=("tke.cloud.tencent.com/qgpu",),
)  # fmt: skip
